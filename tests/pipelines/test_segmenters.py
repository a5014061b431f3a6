"""Segmenters beside jieba: offsets that are exact whatever they drop, dictionaries, models that are local or refused."""

from __future__ import annotations

import shutil
import sys
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

import jieba
import pytest
import spacy
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pipelines.annotate import jieba_words, pkuseg_words
from pipelines.annotate.chinese_words import ChineseWords, spelled
from pipelines.annotate.jieba_words import JiebaWords, RjiebaWords
from pipelines.annotate.parsers import find_parser
from pipelines.annotate.pkuseg_words import PkusegWords
from pipelines.annotate.spacy_models import find_pipeline
from pipelines.annotate.stage import Annotate
from pipelines.annotate.words import sentences_of
from pipelines.config import Config, ConfigError
from tests.pipelines.raw import check_document, check_spans, config, raw

HERE = str(Path(__file__))
SAMPLE = Path(__file__).parents[2] / "corpora/samples/zh/pretrain.txt"


@pytest.fixture(scope="session")
def model(tmp_path_factory) -> Path:
    """A model of pkuseg, trained in a second on the words that jieba finds in a sample."""
    import spacy_pkuseg

    folder = tmp_path_factory.mktemp("pkuseg")
    lines = [line for line in SAMPLE.read_text(encoding="utf-8").split("\n") if line.strip()][:60]
    tokenizer = JiebaWords()
    words_ = [" ".join(words(line, tokenizer)) for line in lines]
    (folder / "train.txt").write_text("\n".join(words_) + "\n", encoding="utf-8")
    spacy_pkuseg.train(*[str(folder / "train.txt")] * 2, str(folder / "model"), train_iter=1)
    return folder / "model"


@pytest.fixture(scope="session")
def segmenters(model: Path) -> dict[str, ChineseWords]:
    return {"jieba": JiebaWords(), "rjieba": RjiebaWords(), "pkuseg": PkusegWords(model)}


def words(text: str, segmenter: ChineseWords) -> list[str]:
    found = segmenter.segment([text], sentences_of([text], "zh"))
    forms = [text[a:b] for a, b in zip(found.starts, found.stops, strict=True)]
    assert forms == found.forms
    return forms


# --- offsets ----------------------------------------------------------------------------------

ODD = [
    "👨‍👩‍👧",
    "\u200b",
    "\ufe0f",
    "𠮷野家",
    "ＡＢ１２",
    "\u3000",
    "\u00a0",
    " ",
    "\r\n",
    "\x1c",
    "\x85",
    "\u2028",
    "e\u0301",
    "ﬁ",
    "İ",
    "\ue000",
]
TEXTS = st.lists(
    st.one_of(
        st.sampled_from([*ODD, *"。！？，（）“”甲乙aB1-._", "北京大学", "我爱"]),
        st.characters(exclude_categories=["Cs"]),
    ),
    max_size=40,
).map("".join)


@settings(deadline=None, max_examples=150)
@given(texts=st.lists(TEXTS, max_size=3), name=st.sampled_from(["jieba", "rjieba", "pkuseg"]))
@example(texts=["我爱 北京\u3000ＡＢ １２👨‍👩‍👧在𠮷野家"], name="pkuseg")
def test_offsets_are_exact_for_odd_text(segmenters, texts, name):
    sentences = sentences_of(texts, "zh")
    found = segmenters[name].segment(texts, sentences)
    forms = iter(found.forms)
    for r, text in enumerate(texts):
        own = slice(found.offsets[r], found.offsets[r + 1])
        starts, stops = found.starts[own].tolist(), found.stops[own].tolist()
        check_spans(text, starts, stops)
        assert [text[a:b] for a, b in zip(starts, stops, strict=True)] == [next(forms) for _ in starts]
        assert not any(any(c.isspace() for c in text[a:b]) for a, b in zip(starts, stops, strict=True))
    assert found.sentences.starts.tolist() == sentences.starts.tolist()


@pytest.mark.parametrize(
    ("text", "forms", "pieces"),
    [
        ("我 爱\u3000北京", ["我", "爱", "北京"], ["我", " ", "爱", "\u3000", "北京"]),
        ("北 京", ["北京"], ["北", " ", "京"]),  # a word never holds white space
        ("ＡＢ，京都", ["AB", ",", "京都"], ["ＡＢ，", "京都"]),  # changed: where they end inside is not told
        ("我ＡＢ去", ["我", "A", "B", "去"], ["我", "ＡＢ", "去"]),
        ("甲乙丙丁", ["甲", "丁"], ["甲", "乙丙", "丁"]),  # dropped
        ("甲乙丙", [], ["甲乙丙"]),
        ("甲乙丙", ["甲", "", "乙丙", "丁丁"], ["甲", "乙丙"]),  # invented
        ("甲甲甲", ["甲"], ["甲", "甲甲"]),
        ("甲甲甲甲", ["甲", "甲甲"], ["甲", "甲甲", "甲"]),  # no character is told twice
        ("", ["甲"], []),
    ],
)
def test_places_of_words_that_do_not_spell_the_text(text, forms, pieces):
    assert spelled(text, forms) == pieces
    assert "".join(pieces) == text


@settings(deadline=None)
@given(TEXTS, st.lists(st.text(alphabet="甲乙aB1 。\u3000", max_size=3)))
def test_pieces_always_spell_the_text(text, forms):
    pieces = spelled(text, forms)
    assert "".join(pieces) == text and "" not in pieces
    assert all(p.isspace() or not any(c.isspace() for c in p) for p in pieces)
    own = ["".join(f.split()) for f in text.split()]
    assert [p for p in spelled(text, own) if not p.isspace()] == own


def test_a_segmenter_that_changes_characters_cannot_move_offsets():
    lowered = ChineseWords(lambda text: [c for c in text.casefold() if not c.isspace()])
    text = "我İＡ b。\n北京ﬁ"
    found = lowered.segment([text], sentences_of([text], "zh"))
    check_spans(text, found.starts.tolist(), found.stops.tolist())
    assert [text[a:b] for a, b in zip(found.starts, found.stops, strict=True)] == [
        "我",
        "İＡ",
        "b",
        "。",
        "北",
        "京",
        "ﬁ",
    ]


# --- words ------------------------------------------------------------------------------------


def test_they_find_words(segmenters):
    text = "我爱北京天安门。"
    assert (
        words(text, segmenters["rjieba"])
        == words(text, segmenters["jieba"])
        == ["我", "爱", "北京", "天安门", "。"]
    )
    found = words("我们的，我们的", segmenters["pkuseg"])
    assert "，" in found and len(found) < 7


def test_rjieba_is_jieba_for_real_text(real_data, segmenters):
    lines = (real_data / "kbert/chnsenticorp/dev.tsv").read_text(encoding="utf-8").split("\n")[1:200]
    same = [
        words(t, segmenters["jieba"]) == words(t, segmenters["rjieba"])
        for t in (x.split("\t")[1] for x in lines)
    ]
    assert sum(same) / len(same) > 0.9


DICTIONARY = "打底裤 10000\nEdu Trust认证 2000\n云计算\n天安门广场上看\n"
DRESSED = "去天安门广场上看打底裤，通过Edu Trust认证，用云计算。"


@pytest.mark.parametrize("name", ["jieba", "rjieba", "pkuseg"])
def test_c30_a_user_dictionary_is_heeded_and_does_not_leak(tmp_path, model, segmenters, name):
    path = tmp_path / "user.txt"
    path.write_text(DICTIONARY, encoding="utf-8")
    made: dict[str, Any] = {
        "jieba": JiebaWords,
        "rjieba": RjiebaWords,
        "pkuseg": lambda p: PkusegWords(model, p),
    }
    wanted = {"打底裤", "Edu Trust认证", "云计算", "天安门广场上看"}
    assert wanted <= set(words(DRESSED, made[name](str(path))))
    assert not wanted <= set(words(DRESSED, segmenters[name]))


# --- the stage --------------------------------------------------------------------------------


def stage(language: str = "zh", path: str = HERE, **annotate: Any) -> Annotate:
    made = Annotate(config(language, annotate=annotate), path)
    made.setup()
    return made


@pytest.mark.parametrize("name", ["jieba", "rjieba", "pkuseg"])
def test_the_config_names_the_segmenter(model, name):
    made = stage(segmenter=f"pkuseg:{model}" if name == "pkuseg" else name)
    [row] = made.annotate_table(raw(["我爱 北京👨‍👩‍👧天安门。你呢？"]), print)[0].to_pylist()
    check_document(row)
    assert made.identities()["segmenter"]["name"] == name


def test_identity_and_fingerprint_follow_segmenter_model_and_dictionary(model, tmp_path):
    for name in ("one", "two"):
        shutil.copytree(model, tmp_path / name)
    with (tmp_path / "two/weights.npz").open("ab") as weights:
        weights.write(b"x")
    (tmp_path / "user.txt").write_text("云计算\n", encoding="utf-8")
    path = str(tmp_path / "c.yaml")
    choices = [
        {},
        {"segmenter": "rjieba"},
        {"segmenter": "rjieba", "user_dict": "user.txt"},
        {"segmenter": "pkuseg:one"},
        {"segmenter": "pkuseg:two"},
        {"segmenter": "pkuseg:one", "user_dict": "user.txt"},
    ]
    made = [Annotate(config("zh", annotate=choice), path) for choice in choices]
    assert len({m.fingerprint for m in made}) == len(made)
    assert len({str(m.identities()["segmenter"]) for m in made}) == len(made)
    moved = Annotate(config("zh", annotate={"segmenter": f"pkuseg:{model}"}), HERE)
    assert moved.fingerprint == made[3].fingerprint  # content counts, not where it lies


def test_a_dictionary_that_was_written_anew_is_read_anew(tmp_path):
    settings_ = config("zh", annotate={"segmenter": "rjieba", "user_dict": "user.txt"})
    for word in ("爱北京", "我爱"):
        (tmp_path / "user.txt").write_text(f"{word} 1000000\n", encoding="utf-8")
        assert word in own(settings_, str(tmp_path / "c.yaml"), "我爱北京")


def test_in_a_mixed_corpus_they_segment_chinese_alone():
    made = Annotate(config("en", mixed=True, annotate={"segmenter": "rjieba"}), HERE)
    made.setup()
    table = raw(["Don't go.", "我爱北京天安门"], language=["en", "zh"])
    english, chinese = made.annotate_table(table, print)[0].to_pylist()
    assert english["word_stops"] == [2, 5, 8, 9] and chinese["word_stops"] == [1, 2, 4, 7]
    assert made.identities()["segmenter"]["name"] == "spacy+rjieba"


@pytest.mark.parametrize("name", ["jieba", "rjieba", "pkuseg"])
def test_segmenters_of_chinese_are_refused_for_other_languages(name):
    with pytest.raises(ConfigError, match=f"{name} segments Chinese, but `language` is 'en'"):
        Annotate(config("en", annotate={"segmenter": name}), HERE)


def test_an_unknown_segmenter_names_those_there_are():
    with pytest.raises(ValueError, match=r"default\|jieba\|rjieba\|pkuseg"):
        config("zh", annotate={"segmenter": "jeiba"})


# --- models and packages ----------------------------------------------------------------------


def test_pkuseg_without_a_model_says_how_to_get_one_and_downloads_nothing(tmp_path, monkeypatch):
    from spacy_pkuseg.config import config as settings_

    monkeypatch.setattr(settings_, "pkuseg_home", str(tmp_path / "none"))
    monkeypatch.setattr("spacy_pkuseg.download_model", lambda *a, **k: pytest.fail("downloads"))
    with pytest.raises(
        ConfigError, match=r"spacy_ontonotes is missing.*spacy_pkuseg.pkuseg\(\).*pkuseg:FOLDER"
    ):
        Annotate(config("zh", annotate={"segmenter": "pkuseg"}), HERE)
    assert not (tmp_path / "none").exists()


def test_pkusegs_own_model_is_taken_where_it_lies(tmp_path, monkeypatch, model):
    from spacy_pkuseg.config import config as settings_

    shutil.copytree(model, tmp_path / "spacy_ontonotes")
    monkeypatch.setattr(settings_, "pkuseg_home", str(tmp_path))
    monkeypatch.setattr("spacy_pkuseg.download_model", lambda *a, **k: pytest.fail("downloads"))
    made = stage(segmenter="pkuseg")
    assert made.annotate_table(raw(["我爱北京"]), print)[0].num_rows == 1
    assert made.identities()["segmenter"] == stage(segmenter=f"pkuseg:{model}").identities()["segmenter"]


def test_a_pickled_model_is_never_read(tmp_path, model):
    shutil.copytree(model, tmp_path / "old")
    (tmp_path / "old/features.msgpack").rename(tmp_path / "old/features.pkl")
    with pytest.raises(ConfigError, match=r"no model of pkuseg: it lacks features.msgpack.*can run code"):
        Annotate(config("zh", annotate={"segmenter": "pkuseg:old"}), str(tmp_path / "c.yaml"))


@pytest.mark.parametrize(("name", "module"), [("rjieba", jieba_words), ("pkuseg:x", pkuseg_words)])
def test_a_missing_package_names_the_extra(monkeypatch, name, module):
    def missing(package: str) -> str:
        raise PackageNotFoundError(package)

    monkeypatch.setattr(module, "version", missing)
    with pytest.raises(ConfigError, match=r"pip install 'treegraft\[segmenters\]'"):
        Annotate(config("zh", annotate={"segmenter": name}), HERE)


# --- the parser's own -------------------------------------------------------------------------


def chinese_pipeline(folder: Path, segmenter: str, model: Path | None = None) -> Path:
    """The embedded Chinese parser with a tokenizer of spaCy's."""
    nlp = spacy.load(find_pipeline("default", "zh", HERE))
    tokenizer = {"@tokenizers": "spacy.zh.ChineseTokenizer", "segmenter": segmenter}
    made = spacy.blank("zh", config={"nlp": {"tokenizer": tokenizer}}, vocab=nlp.vocab)
    if model is not None:
        made.tokenizer.initialize(pkuseg_model=str(model), pkuseg_user_dict="default")
        made.tokenizer.pkuseg_update_user_dict(["爱北京"])
    for pipe in nlp.pipe_names:
        made.add_pipe(pipe, source=nlp)
    made.to_disk(folder)
    return folder


def own(settings_: Config, path: str, text: str) -> list[str]:
    made = Annotate(settings_, path)
    made.setup()
    [row] = made.annotate_table(raw([text]), print)[0].to_pylist()
    check_document(row)
    return [text[a:b] for a, b in zip(row["word_starts"], row["word_stops"], strict=True)]


@pytest.mark.parametrize("kind", ["char", "jieba", "pkuseg"])
def test_a_chinese_pipelines_own_tokenizer(tmp_path, model, segmenters, kind, monkeypatch):
    chinese_pipeline(tmp_path / "zh", kind, model if kind == "pkuseg" else None)
    monkeypatch.setattr(jieba.dt, "initialized", False)
    monkeypatch.setattr(
        jieba, "cut", lambda *a, **k: pytest.fail("jieba's own dictionary, from a cache anyone may write")
    )
    settings_ = config("zh", annotate={"parser": "zh", "segmenter": "parser"})
    text = "我爱北京 天安门。我们去"
    found = own(settings_, str(tmp_path / "c.yaml"), text)
    if kind == "char":
        assert found == [c for c in text if c != " "]
    elif kind == "jieba":
        assert found == words(text, segmenters["jieba"])
    else:
        assert "爱北京" in found  # the word that the pipeline's own tokenizer was told
        nlp = spacy.load(tmp_path / "zh")
        assert found == [
            t.text for half in ("我爱北京 天安门。", "我们去") for t in nlp.tokenizer(half) if not t.is_space
        ]
    names = {"char": "spacy", "jieba": "jieba", "pkuseg": "pkuseg"}
    assert Annotate(settings_, str(tmp_path / "c.yaml")).identities()["segmenter"]["name"] == names[kind]


def test_the_dictionary_of_a_user_and_the_parsers_own_tokenizer(tmp_path):
    (tmp_path / "user.txt").write_text("爱北京 100000\n", encoding="utf-8")
    path = str(tmp_path / "c.yaml")
    for kind in ("char", "jieba"):
        chinese_pipeline(tmp_path / kind, kind)
    settings_ = config("zh", annotate={"parser": "jieba", "segmenter": "parser", "user_dict": "user.txt"})
    assert own(settings_, path, "我爱北京") == ["我", "爱北京"]
    with pytest.raises(ConfigError, match="takes no further words"):
        Annotate(
            config("zh", annotate={"parser": "char", "segmenter": "parser", "user_dict": "user.txt"}), path
        )


def test_parser_is_the_tokenizer_of_a_spaced_pipeline(tmp_path):
    nlp = spacy.load(find_pipeline("default", "en", HERE))
    nlp.tokenizer.add_special_case("gohome", [{"ORTH": "go"}, {"ORTH": "home"}])
    nlp.to_disk(tmp_path / "en")
    settings_ = config("en", annotate={"parser": "en", "segmenter": "parser"})
    assert own(settings_, str(tmp_path / "c.yaml"), "They gohome") == ["They", "go", "home"]


def test_the_embedded_chinese_parser_goes_with_jieba(segmenters):
    text = "我爱北京天安门。"
    assert own(config("zh", annotate={"segmenter": "parser"}), HERE, text) == words(text, segmenters["jieba"])


def test_without_a_parser_there_is_no_tokenizer_of_its_own():
    with pytest.raises(ConfigError, match="no parser is named that has a tokenizer"):
        Annotate(config("zh", annotate={"segmenter": "parser", "parser": "none"}), HERE)


def test_a_tokenizer_of_another_kind_is_refused(tmp_path):
    folder = chinese_pipeline(tmp_path / "zh", "char")
    text = (folder / "config.cfg").read_text()
    (folder / "config.cfg").write_text(text.replace("spacy.zh.ChineseTokenizer", "mine.Tokenizer.v1"))
    with pytest.raises(ConfigError, match=r"a tokenizer of its own kind \(mine.Tokenizer.v1\)"):
        Annotate(config("zh", annotate={"parser": "zh", "segmenter": "parser"}), str(tmp_path / "c.yaml"))


def test_segmenters_that_are_not_named_are_not_imported():
    import subprocess

    script = (
        "import sys; from pipelines.annotate.stage import Annotate; from tests.pipelines.raw import config;"
        "Annotate(config('zh'), 'x.yaml');"
        "print([m for m in ('rjieba', 'spacy_pkuseg', 'stanza', 'torch') if m in sys.modules])"
    )
    root = Path(__file__).parents[2]
    command = [sys.executable, "-W", "ignore", "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=root)
    assert done.stdout.strip() == "[]"


def test_the_gpu_is_asked_for_only_where_the_config_says_so(monkeypatch):
    from pipelines.annotate.parsers import load_parser

    asked: list[bool] = []
    monkeypatch.setattr(spacy, "prefer_gpu", lambda: asked.append(True))
    found = find_parser("default", "en", HERE)
    load_parser(found, batch_words=10, gpu=False)
    assert asked == []
    load_parser(found, batch_words=10, gpu=True)
    assert asked == [True]
