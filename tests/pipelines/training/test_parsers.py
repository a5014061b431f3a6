"""The embedded parsers: they load alone, are small, parse what they are given, and can be trained again."""

import hashlib
import json
import random
import re
from dataclasses import replace
from pathlib import Path

import pytest
import spacy
from spacy.tokens import Doc
from typer.testing import CliRunner

from corpora.conllu import read_conllu
from pipelines.annotate.spacy_models import trained_on
from pipelines.training import treebanks as sources
from pipelines.training.network import RECIPES, build
from pipelines.training.parsers import app, batches, example, fit, save, score_text, score_words
from pipelines.training.treebanks import HELD_OUT, Sentence, load
from tests.pipelines.training.handmade import conllu

ROOT = Path(__file__).parents[3]
PARSERS = ROOT / "models" / "parsers"
UD = ROOT.parent / "shared/data/ud"
needs_treebanks = pytest.mark.skipif(not UD.is_dir(), reason=f"real treebanks are not at {UD}")

TEXTS = {
    "en": "The old dog, which had slept all day, did not see the cat. It ran away!",
    "zh": "北京是中国的首都。他昨天在学校买了三本有意思的书，但是没有看。",
}


@pytest.fixture(scope="module", params=["en", "zh"])
def shipped(request: pytest.FixtureRequest) -> spacy.language.Language:
    return spacy.load(PARSERS / f"{request.param}_ud_small")


def test_folders_are_small_and_say_what_they_are(shipped: spacy.language.Language) -> None:
    folder = PARSERS / f"{shipped.lang}_ud_small"
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) <= 6_000_000
    assert not {path.name for path in files} & {"lookups.bin", "vectors", "key2row"}
    assert not [path for path in files if path.suffix in (".pkl", ".pickle", ".pt")]
    card = (folder / "README.md").read_text("utf-8")
    meta = json.loads((folder / "meta.json").read_text("utf-8"))
    assert "CC BY-SA 4.0" in card and "make parsers" in card
    assert meta["license"] == "CC BY-SA 4.0" and (folder / "LICENSE").is_file()
    assert f"{meta['performance']['dep_uas']:.1f}" in card, "the card must show the figures of these weights"
    assert shipped.pipe_names == ["tok2vec", "morphologizer", "parser"]


def test_raw_text_becomes_trees(shipped: spacy.language.Language) -> None:
    doc = shipped(TEXTS[shipped.lang])
    assert len(list(doc.sents)) == 2
    for sentence in doc.sents:
        assert sum(token.head == token for token in sentence) == 1
        for token in sentence:
            assert sentence.root in (token, *token.ancestors)
    assert all(token.pos_ and token.dep_ for token in doc)


def test_documents_of_given_words_and_sentences(shipped: spacy.language.Language) -> None:
    """As annotation calls it: words and sentence starts are given, several documents in one `pipe`."""
    words = [token.text for token in shipped.tokenizer(TEXTS[shipped.lang])]
    starts = [i in (0, 3, 7) for i in range(len(words))]
    docs = [Doc(shipped.vocab, words=words, sent_starts=starts) for _ in range(3)]
    for doc in shipped.pipe(docs, batch_size=2):
        assert [token.text for token in doc] == words
        assert [token.i for token in doc if token.is_sent_start] == [0, 3, 7]
        assert all(token.sent.start <= token.head.i < token.sent.end for token in doc)
        assert all(token.pos_ and token.dep_ for token in doc)


def test_chinese_words_come_from_jieba() -> None:
    nlp = spacy.load(PARSERS / "zh_ud_small")
    assert nlp.tokenizer.segmenter == "jieba"
    assert [token.text for token in nlp("我来到北京清华大学")] == ["我", "来到", "北京", "清华大学"]


@needs_treebanks
@pytest.mark.parametrize(("lang", "upos", "uas", "las"), [("en", 93, 84, 80), ("zh", 87, 67.5, 60)])
def test_scores_on_sentences_not_trained_on(lang: str, upos: float, uas: float, las: float) -> None:
    held_out = {"en": "en_ewt/dev.conllu", "zh": "zh/gsdsimp-dev.conllu"}[lang]
    gold = list(read_conllu(UD / held_out))[:: HELD_OUT if lang == "zh" else 1]
    nlp = spacy.load(PARSERS / f"{lang}_ud_small")
    scores = score_words(nlp, gold)
    assert scores.upos >= upos and scores.uas >= uas and scores.las >= las, str(scores)
    performance = nlp.meta["performance"]
    assert scores.uas == pytest.approx(performance["dep_uas"], abs=0.5)
    assert scores.las == pytest.approx(performance["dep_las"], abs=0.5)


EN = conllu(
    "Dogs/NOUN/2/nsubj bark/VERB/0/root ./PUNCT/2/punct",
    "The/DET/2/det cat/NOUN/3/nsubj sleeps/VERB/0/root ./PUNCT/3/punct",
    "Birds/NOUN/2/nsubj sing/VERB/0/root loudly/ADV/2/advmod ./PUNCT/2/punct",
)
ZH = conllu("我/PRON/2/nsubj 看/VERB/0/root 書/NOUN/2/obj 。/PUNCT/2/punct", "他/PRON/2/nsubj 來/VERB/0/root")


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    for name, text in {"en_ewt/train": EN * 8, "en_ewt/dev": EN}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / f"{name}.conllu").write_text(text, "utf-8")
    (tmp_path / "zh").mkdir()
    for name in ("gsdsimp-dev", "pud", "hk", "cfl"):
        (tmp_path / "zh" / f"{name}.conllu").write_text(ZH * 5, "utf-8")
    return tmp_path


@needs_treebanks
@pytest.mark.parametrize("lang", ["en", "zh"])
def test_shipped_parsers_say_what_they_learnt_from(lang: str) -> None:
    """Fails where other releases of the treebanks lie there than the parsers were trained on."""
    assert trained_on(PARSERS / f"{lang}_ud_small") == set(sources.trained_on(UD, lang).values())


def test_training_end_to_end_learns_and_repeats_itself(tiny: Path, tmp_path: Path) -> None:
    treebanks, gold = load(tiny, "en")
    sizes = {"rows": (200, 50, 100, 50), "width": 32, "hidden": 32}
    recipe = replace(RECIPES["en"], epochs=12, batch_words=20, learn_rate=0.01, **sizes)
    reported: list[bytes] = []
    first = fit(treebanks, recipe, seed=3, report=lambda epoch, nlp: reported.append(nlp.to_bytes()))
    short = replace(recipe, epochs=2)
    one, again, other = (fit(treebanks, short, seed=seed).to_bytes() for seed in (3, 3, 4))
    assert len(reported) == 12 and reported[-1] == first.to_bytes(), "the averaged weights are the result"
    assert one == again != other
    assert score_words(first, gold).las > 90  # its own training sentences
    save(first, recipe, tmp_path / "saved", {}, {})
    loaded = spacy.load(tmp_path / "saved")
    assert score_words(loaded, gold) == score_words(first, gold)
    assert score_text(loaded, gold)[1] == 100
    strings = (tmp_path / "saved/vocab/strings.json").read_text("utf-8")
    assert "nsubj" in strings and "loudly" not in strings


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_command_writes_a_folder_that_loads(
    tiny: Path, tmp_path: Path, lang: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if lang == "zh":  # of the dictionary only what shows that it is used
        monkeypatch.setitem(RECIPES, lang, replace(RECIPES[lang], tag_updates=3))
    result = CliRunner().invoke(
        app, ["--ud", str(tiny), "--out", str(tmp_path / "out"), "--lang", lang, "--epochs", "1"]
    )
    assert result.exit_code == 0, result.output
    assert re.search(rf"{lang} epoch 1: UPOS [\d.]+, UAS [\d.]+, LAS", result.output)
    assert [path.name for path in (tmp_path / "out").iterdir()] == [f"{lang}_ud_small"]
    nlp = spacy.load(tmp_path / "out" / f"{lang}_ud_small")
    assert all(token.pos_ for token in nlp(TEXTS[lang]))
    expected = {
        "en": ["en_ewt/train.conllu"],
        "zh": [f"zh/{n}.conllu" for n in ("gsdsimp-dev", "pud", "hk", "cfl")],
    }
    assert list(nlp.meta["trained_on"]) == expected[lang]
    hashes = {hashlib.sha256((tiny / name).read_bytes()).hexdigest() for name in expected[lang]}
    assert trained_on(tmp_path / "out" / f"{lang}_ud_small") == hashes


def test_tags_of_the_dictionary_are_learned_before_and_beside_the_trees(tiny: Path) -> None:
    recipe = replace(RECIPES["zh"], epochs=1, rows=(50, 50, 50, 50), width=32, hidden=32, exchanged=0.0)
    treebanks, _ = load(tiny, "zh")

    def weights(updates: int, words: int) -> bytes:
        return fit(treebanks, replace(recipe, tag_updates=updates, tag_words=words)).to_bytes()

    never = weights(0, 9)
    assert never == weights(0, 90), "without lessons before there are none beside"
    assert len({never, weights(2, 9), weights(5, 9), weights(2, 90)}) == 4


def test_command_names_every_missing_file(tiny: Path) -> None:
    (tiny / "zh/hk.conllu").unlink()
    (tiny / "zh/cfl.conllu").unlink()
    result = CliRunner().invoke(app, ["--ud", str(tiny), "--lang", "zh"])
    assert result.exit_code == 2
    assert (
        "hk.conllu" in result.output and "cfl.conllu" in result.output and "--ud must name" in result.output
    )
    bad = CliRunner().invoke(app, ["--ud", str(tiny), "--lang", "de"])
    assert bad.exit_code == 2 and "expected en, zh or all, found 'de'" in re.sub(r"\s+", " ", bad.output)


def test_command_names_the_malformed_line(tiny: Path) -> None:
    path = tiny / "en_ewt/dev.conllu"
    path.write_text(EN.replace("2\tbark", "7\tbark"), "utf-8")
    result = CliRunner().invoke(app, ["--ud", str(tiny), "--lang", "en"])
    assert result.exit_code == 2 and f"{path}, line 3: expected word ID 2, found 7" in result.output


def test_an_epoch_holds_every_sentence_once_and_keeps_documents_apart() -> None:
    recipe = replace(RECIPES["en"], several=0.9, batch_words=1)
    bank = [
        Sentence(f"d{i // 4}", (f"w{i}", "."), (True, True), ("X", "PUNCT"), (0, 0), ("root", "punct"))
        for i in range(20)
    ]
    nlp = build(recipe)
    runs = [
        [t.text for t in e.reference if t.text != "."]
        for b in batches(nlp, [bank], recipe, random.Random(1))
        for e in b
    ]
    assert sorted(word for run in runs for word in run) == sorted(f"w{i}" for i in range(20))
    assert max(map(len, runs)) > 1
    assert all(len({int(word[1:]) // 4 for word in run}) == 1 for run in runs)


def test_sentences_say_their_treebank_to_the_network_unless_it_is_the_one_to_follow() -> None:
    words = {"words": ("看", "书"), "spaces": (False, False), "upos": ("VERB", "NOUN"), "heads": (0, 0)}
    own = Sentence("gsd/1", **words, deprels=("root", "obj"))
    nlp = build(RECIPES["zh"])
    nlp.initialize(lambda: [example(nlp, [own])])

    def vectors(s: Sentence) -> bytes:
        return bytes(nlp.get_pipe("tok2vec").predict([example(nlp, [s]).x])[0].tobytes())

    text = Doc(nlp.vocab, words=["看", "书"])
    assert vectors(own) == bytes(nlp.get_pipe("tok2vec").predict([text])[0].tobytes()), "as text in use"
    assert len({vectors(replace(own, treebank=name)) for name in ("", "pud", "hk", "cfl")}) == 4
    both = example(nlp, [own, replace(own, treebank="hk")]).x
    assert [token.ent_kb_id_ for token in both] == ["", "", "hk", "hk"]


def test_batches_are_full_but_for_an_epoch_of_less_than_one() -> None:
    bank = [
        Sentence("d", (f"w{i}", "."), (True, True), ("X", "PUNCT"), (0, 0), ("root", "punct"))
        for i in range(7)
    ]
    nlp = build(RECIPES["en"])

    def sizes(batch_words: int) -> list[int]:
        recipe = replace(RECIPES["en"], several=0.0, batch_words=batch_words)
        return [sum(len(e.x) for e in batch) for batch in batches(nlp, [bank], recipe, random.Random(1))]

    assert sizes(4) == [4, 4, 4]
    assert sizes(100) == [14]


def test_words_are_exchanged_anew_in_each_epoch() -> None:
    bank = [Sentence("d", ("学校", "的"), (False, False), ("NOUN", "PART"), (0, 0), ("root", "case"))]
    nlp = build(RECIPES["zh"])

    def texts(exchanged: float) -> set[str]:
        recipe = replace(RECIPES["zh"], several=0.0, upsample=1, exchanged=exchanged)
        rng = random.Random(1)
        return {e.x.text for _ in range(9) for batch in batches(nlp, [bank], recipe, rng) for e in batch}

    assert texts(0.0) == {"学校的"}
    assert len(texts(1.0)) > 5 and all(len(text) == 3 and text[2] == "的" for text in texts(1.0))


def test_the_first_treebank_counts_several_times_and_variants_replace_sentences() -> None:
    variant = Sentence("d", ("ab",), (True,), ("X",), (0,), ("root",))
    first = [Sentence("d", ("a", "b"), (False, True), ("X", "X"), (0, 0), ("root", "x"), variant)]
    second = [Sentence("e", ("c",), (True,), ("X",), (0,), ("root",))]
    nlp = build(RECIPES["zh"])

    def texts(variants: float) -> list[str]:
        recipe = replace(RECIPES["zh"], several=0.0, batch_words=1, upsample=3, variants=variants)
        rng = random.Random(1)
        return sorted(
            " ".join(t.text for t in e.x)
            for batch in batches(nlp, [first, second], recipe, rng)
            for e in batch
        )

    assert texts(0.0) == ["a b", "a b", "a b", "c"]
    assert texts(1.0) == ["ab", "ab", "ab", "c"]
