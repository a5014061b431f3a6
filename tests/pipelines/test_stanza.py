"""Stanza behind the one interface: finding and refusing models, parsing given words, its own words in raw text."""

import json
import os
import pickle
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from corpora.conllu import ConlluSentence, parse_conllu, read_conllu
from pipelines.annotate.stanza_models import find_stanza, stanza_identity
from pipelines.annotate.words import Spans, Words, sentences_of
from pipelines.config import ConfigError
from pipelines.parse_eval.evaluate import evaluate, gold_words
from pipelines.ragged import bounds
from tests import treebanks

stanza = pytest.importorskip("stanza", reason="pip install 'treegraft[stanza]'")
torch = pytest.importorskip("torch")

from pipelines.annotate import stanza as ours  # noqa: E402
from pipelines.annotate.stanza_pipeline import steady  # noqa: E402
from pipelines.annotate.stanza_words import Several, StanzaWords, spelled  # noqa: E402

ROOT = Path(__file__).parents[2]


def made_up(language: str, count: int) -> list[ConlluSentence]:
    return list(parse_conllu(treebanks.conllu(language, count, seed=2).split("\n")))


def words_of(sentences: Sequence[Sequence[str]]) -> Words:
    """Each sentence a text of its own, words a space apart."""
    lengths = [len(s) for s in sentences]
    offsets = bounds(lengths)
    stops = [np.cumsum([len(form) + 1 for form in s]) - 1 for s in sentences]
    starts = [stop - [len(form) for form in s] for stop, s in zip(stops, sentences, strict=True)]
    forms = [form for s in sentences for form in s]
    return Words(np.concatenate(starts), np.concatenate(stops), offsets, forms, offsets)


@pytest.fixture(scope="module")
def parsers(stanza_models: Path) -> dict[str, ours.StanzaParser]:
    return {
        language: ours.StanzaParser(find_stanza(f"stanza:{stanza_models}", language, "x.yaml"))
        for language in ("en", "fr", "zh")
    }


@pytest.fixture(scope="module")
def segmenters(stanza_models: Path) -> dict[tuple[str, bool], StanzaWords]:
    return {
        (language, own): StanzaWords(
            find_stanza(f"stanza:{stanza_models}", language, "x.yaml"), find_sentences=own
        )
        for language in ("en", "fr", "zh")
        for own in (False, True)
    }


# --- what is trained --------------------------------------------------------------------------------


@pytest.mark.parametrize("language", ["en", "fr", "zh"])
def test_the_folder_loads_in_stanza_alone(stanza_models: Path, language: str) -> None:
    nlp = stanza.Pipeline(
        language, dir=str(stanza_models), download_method=None, use_gpu=False, verbose=False
    )
    text = {"en": "The dog sees a cat.", "fr": "Le chat du voisin voit le chien.", "zh": "这老师喜欢猫。"}[
        language
    ]
    document = nlp(text)
    words = [word for sentence in document.sentences for word in sentence.words]
    assert all(word.upos and word.deprel and word.head is not None for word in words)
    assert "".join(token.text for s in document.sentences for token in s.tokens) == text.replace(" ", "")
    if language == "fr":
        assert " ".join(word.text for word in words) == "Le chat de le voisin voit le chien ."


def test_the_tiny_parser_has_learnt_its_grammar(
    parsers: dict[str, ours.StanzaParser], segmenters: dict, tmp_path: Path
) -> None:
    treebank = treebanks.write(tmp_path, "fr", 60, seed=2)
    given_words = evaluate(treebank, parsers["fr"])
    found = evaluate(treebank, parsers["fr"], segmenters["fr", False])
    for result in (given_words, found):
        scores = result.counts.percents()
        assert scores["upos"] >= 90 and scores["uas"] >= 85 and scores["las"] >= 75, result
    assert found.same >= 0.95 * found.gold_words


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_tiny_parsers_are_better_than_a_guess(
    parsers: dict[str, ours.StanzaParser], segmenters: dict, tmp_path: Path, language: str
) -> None:
    """The guess: every word's head is the word before it, or after it, whichever is right more often."""
    treebank = treebanks.held_out(tmp_path, language, 100)
    words, gold = gold_words(list(read_conllu(treebank)))
    place = np.arange(len(gold.heads))
    ends = np.isin(place, [words.offsets[:-1], words.offsets[1:] - 1])
    guesses = [100 * float((np.where(ends, place, place + way) == gold.heads).mean()) for way in (-1, 1)]
    scores = evaluate(treebank, parsers[language]).counts.percents()
    assert scores["uas"] > max(guesses) + 4 and scores["upos"] > 40, (scores, guesses)
    found = evaluate(treebank, parsers[language], segmenters[language, False])
    assert found.same >= 0.5 * found.gold_words


def test_training_twice_gives_the_same_models(tmp_path: Path) -> None:
    from pipelines.training.stanza import Recipe, train
    from pipelines.training.stanza_data import read_trees

    trees = read_trees(treebanks.write(tmp_path, "fr", 12))
    recipe = Recipe(tokenize_steps=2, tag_steps=2, parse_steps=2, hidden=8, scorer=8, word_cutoff=1)
    assert recipe.evaluate > 2, "a training that ends before it would be measured is measured at its end"
    identities = []
    for name in ("a", "b"):
        train("fr", trees, trees[:4], tmp_path / name, recipe)
        identities.append(stanza_identity(find_stanza(f"stanza:{tmp_path / name}", "fr", "x.yaml")))
    assert identities[0] == identities[1]


def test_what_training_cannot_work_with_is_said_before_the_work(tmp_path: Path) -> None:
    from pipelines.training.stanza import app

    def said(*words: object) -> str:
        result = CliRunner().invoke(app, [str(word) for word in words], env={"COLUMNS": "200"})
        assert result.exit_code == 2 and not isinstance(result.exception, AssertionError)
        return result.output

    treebank = treebanks.write(tmp_path, "fr", 12)
    given = ("--lang", "fr", "--train", treebank, "--dev", treebank, "--out", tmp_path / "out")
    (tmp_path / "out").mkdir()
    for damaged in ("{", "[]"):
        (tmp_path / "out/resources.json").write_text(damaged)
        assert f"error: {tmp_path}/out/resources.json cannot be read" in said(*given)
    assert "expected small or tiny, found 'huge'" in said(*given, "--size", "huge")
    assert "missing" in said("--ud", tmp_path) and "zh/hk.conllu" in said("--ud", tmp_path, "--lang", "zh")
    assert "give --ud" in said("--lang", "fr")
    treebank.write_text("1\tonly\n\n")
    assert "expected 10 columns" in said(*given)


def test_treebanks_become_training_files(tmp_path: Path) -> None:
    from pipelines.training.stanza_data import read_trees, to_conllu, to_labels

    lines = [
        "# text = Va au lit.",
        "1\tVa\taller\tVERB\tV\tMood=Imp\t0\troot\t_\t_",
        "2-3\tau\t_\t_\t_\t_\t_\t_\t_\t_",
        "2\tà\t_\tADP\t_\t_\t4\tcase\t_\t_",
        "3\tle\t_\tDET\t_\t_\t4\tdet\t_\t_",
        "3.1\tx\t_\t_\t_\t_\t_\t_\t_\t_",
        "4\tlit\t_\tNOUN\t_\t_\t1\tobl\t_\tSpaceAfter=No",
        "5\t.\t_\tPUNCT\t_\t_\t1\tpunct\t_\t_",
        "",
        "1\tNon\t_\tINTJ\t_\t_\t_\t_\t_\t_",
        "",
    ]
    path = tmp_path / "t.conllu"
    path.write_bytes("\r\n".join(lines).encode())
    trees = read_trees(path)
    assert len(trees) == 1, "the sentence without a tree is left out"
    text, labels = to_labels([*trees, *trees], " ")
    assert (text, labels) == ("Va au lit. Va au lit.", "0100300012" + "0" + "0100300012")
    (again,) = parse_conllu(to_conllu(trees).split("\n"))
    assert (again.text, again.forms) == ("Va au lit.", ("Va", "à", "le", "lit", "."))
    assert (again.heads, again.lemmas) == ((0, 3, 3, 0, 0), again.forms)


# --- finding and refusing ---------------------------------------------------------------------------


def test_models_are_found_without_torch(stanza_models: Path) -> None:
    code = (
        "import sys; from pipelines.annotate.stanza_models import *; "
        f"m = find_stanza('stanza:{stanza_models}', 'zh', 'x.yaml'); print(m.name, stanza_identity(m)['version']); "
        "assert not {'torch', 'stanza'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("stanza_zh-hans_treegraft 1.")


def test_identity_is_of_the_files(stanza_models: Path, tmp_path: Path) -> None:
    copy = tmp_path / "models"
    shutil.copytree(stanza_models, copy)
    found = find_stanza("stanza:models", "fr", str(tmp_path / "c.yaml"))
    assert found.folder == str(copy), "relative to the config"
    before = stanza_identity(found)
    assert before == stanza_identity(find_stanza(f"stanza:{stanza_models}", "fr", "elsewhere.yaml"))
    weights = copy / "fr/pos/treegraft.pt"
    weights.write_bytes(weights.read_bytes() + b"!")
    assert stanza_identity(found)["sha256"] != before["sha256"]
    assert dict(found.packages) == {
        "tokenize": "treegraft", "mwt": "treegraft", "pos": "treegraft", "lemma": "identity", "depparse": "treegraft",
    }  # fmt: skip


def test_what_is_missing_is_named(
    stanza_models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(name: str, language: str = "en") -> str:
        with pytest.raises(ConfigError) as error:
            find_stanza(name, language, str(tmp_path / "c.yaml"))
        return str(error.value)

    assert "no resources.json" in refused("stanza:nowhere") and "make stanza" in refused("stanza:nowhere")
    assert "no Stanza models of 'de', only of en, fr, zh" in refused(f"stanza:{stanza_models}", "de")
    assert "names no folder" in refused("stanza:") and "local folders" in refused("stanza:s3://b/models")
    copy = tmp_path / "models"
    shutil.copytree(stanza_models, copy)
    (copy / "en/depparse/treegraft.pt").unlink()
    assert "lacks the Stanza models en/depparse/treegraft.pt" in refused("stanza:models")
    resources = json.loads((copy / "resources.json").read_text())
    del resources["fr"]["packages"]["default"]["depparse"]
    (copy / "resources.json").write_text(json.dumps(resources))
    assert "lack depparse" in refused("stanza:models", "fr")
    for damaged in ("{", "[]", "[" * 100_000):
        (copy / "resources.json").write_text(damaged)
        assert "cannot be read" in refused("stanza:models")
    from pipelines.annotate import stanza_models as module

    def absent(name: str) -> str:
        raise module.PackageNotFoundError(name)

    monkeypatch.setattr(module, "version", absent)
    assert "pip install 'treegraft[stanza]'" in refused(f"stanza:{stanza_models}")


def _with(resources: dict, place: str, value: object) -> str:
    """`resources.json` with another value at `place`, whose names are parted by a space."""
    *path, last = place.split()
    changed = json.loads(json.dumps(resources))
    entry = changed
    for name in path:
        entry = entry[name]
    entry[last] = value
    return json.dumps(changed)


@pytest.mark.parametrize(
    ("place", "value", "said"),
    [
        ("packages", [], 'packages: expected an object, found []'),
        ("packages default", "treegraft", 'packages.default: expected an object, found "treegraft"'),
        ("packages default pos", ["treegraft"], 'packages.default.pos: expected a name, found ["treegraft"]'),
        ("packages default pos", "../../pos/x", 'packages.default.pos: expected a name, found "../../pos/x"'),
        ("packages default pos", "a\0b", 'packages.default.pos: expected a name'),
        ("pos", ["treegraft"], 'pos: expected an object, found ["treegraft"]'),
        ("pos treegraft", None, 'pos.treegraft: expected an object, found null'),
        ("pos treegraft", {"dependencies": "x"}, 'pos.treegraft.dependencies: expected a list, found "x"'),
        ("pos treegraft", {"dependencies": [1]}, 'pos.treegraft.dependencies[0]: expected an object, found 1'),
        ("pos treegraft", {"dependencies": [{"model": "x"}]}, 'dependencies[0].package: expected a name, found null'),
        ("alias", ["en"], 'alias: expected a name, found ["en"]'),
    ],
)  # fmt: skip
def test_descriptions_of_another_shape_are_refused(
    stanza_models: Path, tmp_path: Path, place: str, value: object, said: str
) -> None:
    resources = json.loads((stanza_models / "resources.json").read_text("utf-8"))
    (tmp_path / "resources.json").write_text(_with(resources, f"en {place}", value), "utf-8")
    with pytest.raises(ConfigError) as error:
        find_stanza(f"stanza:{tmp_path}", "en", "x.yaml")
    assert str(error.value).startswith(
        f"annotate.parser: {tmp_path}/resources.json cannot be read: of 'en', "
    )
    assert said in str(error.value)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["treegraft", "en", "..", "a/b"]),
    lambda inner: st.lists(inner, max_size=2)
    | st.dictionaries(st.sampled_from(["dependencies", "model", "package", "default", "pos"]), inner, max_size=3),
    max_leaves=6,
)  # fmt: skip


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    place=st.sampled_from(
        ["en", "en alias", "en packages", "en packages default", "en packages default pos", "en pos",
         "en pos treegraft", "en pos treegraft dependencies", "en depparse"]
    ),
    value=JSON,
)  # fmt: skip
def test_no_description_ends_in_another_error(
    stanza_models: Path, tmp_path: Path, place: str, value: object
) -> None:
    resources = json.loads((stanza_models / "resources.json").read_text("utf-8"))
    (tmp_path / "resources.json").write_text(_with(resources, place, value), "utf-8")
    with pytest.raises(ConfigError, match=re.escape(str(tmp_path))):  # the weights are not there
        find_stanza(f"stanza:{tmp_path}", "en", "x.yaml")


def test_a_parser_needs_no_tokenizer(stanza_models: Path, tmp_path: Path) -> None:
    copy = tmp_path / "models"
    shutil.copytree(stanza_models, copy)
    shutil.rmtree(copy / "fr/tokenize")
    shutil.rmtree(copy / "fr/mwt")
    models = find_stanza("stanza:models", "fr", str(tmp_path / "c.yaml"))
    parse = ours.StanzaParser(models).parse(
        words_of([["Le", "chat", "aime", "mon", "chien", "."]]), max_sentence_words=9
    )
    assert len(parse.heads) == 6
    with pytest.raises(ConfigError, match="has no Stanza tokenizer of 'fr'"):
        StanzaWords(models)


def test_stanzas_own_folder_and_its_download(
    stanza_models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "own"
    monkeypatch.setenv("STANZA_RESOURCES_DIR", str(folder))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(ConfigError, match=r"stanza.download\('zh-hans'\).*not tried here: HF_HUB_OFFLINE"):
        find_stanza("stanza", "zh", "x.yaml")
    monkeypatch.delenv("HF_HUB_OFFLINE")
    asked = []

    def no_network(code: str, model_dir: str, **_: object) -> None:
        asked.append((code, model_dir))
        raise ConnectionError("Max retries exceeded")

    monkeypatch.setattr(stanza, "download", no_network)
    with pytest.raises(ConfigError, match="download failed: Max retries exceeded"):
        find_stanza("stanza", "zh", "x.yaml")
    assert asked == [("zh-hans", str(folder))]
    monkeypatch.setattr(
        stanza, "download", lambda *_, model_dir, **__: shutil.copytree(stanza_models, model_dir)
    )
    assert find_stanza("stanza", "zh", "x.yaml").code == "zh-hans"
    monkeypatch.setattr(stanza, "download", no_network)
    assert find_stanza("stanza", "en", "x.yaml").folder == str(folder), "what is there is not fetched"


class _Payload:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple:
        return os.mkdir, (str(self.path),)


def refused(models: Path, processor: str, language: str = "fr") -> str:
    """What is said of the tokenizer or the parser, whose file is wrong."""
    load = StanzaWords if processor in ("tokenize", "mwt") else ours.StanzaParser
    with pytest.raises(ConfigError) as error:
        load(find_stanza(f"stanza:{models}", language, "x.yaml"))
    assert error.value.__suppress_context__, "torch's advice to trust the file is nowhere to be read"
    return str(error.value)


@pytest.mark.parametrize("processor", ["tokenize", "mwt", "pos", "depparse"])
def test_weights_that_run_code_are_refused(
    stanza_models: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], processor: str
) -> None:
    copy = tmp_path / "models"
    shutil.copytree(stanza_models, copy)
    trap = tmp_path / "ran"
    weights = copy / f"fr/{processor}/treegraft.pt"
    torch.save({"model": _Payload(trap)}, weights)
    assert refused(copy, processor) == (
        f"annotate.parser: {weights} holds more than weights, or is damaged, and is not read; "
        "fetch it again, or train it again (`make stanza`)"
    )
    assert not trap.exists()
    assert capfd.readouterr().err == ""


KINDS = {"tokenize": "tokenizer", "mwt": "multiword expander", "pos": "tagger", "depparse": "parser"}


@pytest.mark.parametrize(
    ("processor", "other"),
    [(p, other) for p in KINDS for other in (*KINDS, "tensor", "mapping") if other != p],
)
def test_weights_of_another_kind_are_named(
    stanza_models: Path,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    processor: str,
    other: str,
) -> None:
    copy = tmp_path / "models"
    shutil.copytree(stanza_models, copy)
    weights = copy / f"fr/{processor}/treegraft.pt"
    if other in ("tensor", "mapping"):
        torch.save(torch.zeros(3) if other == "tensor" else {"a": 1}, weights)
    else:
        shutil.copy(stanza_models / f"fr/{other}/treegraft.pt", weights)
    assert refused(copy, processor).startswith(
        f"annotate.parser: {weights} is no {KINDS[processor]} of Stanza"
    )
    assert capfd.readouterr().err == ""


def test_no_weights_run_code_even_where_stanza_would_let_them(tmp_path: Path) -> None:
    from pipelines.annotate.stanza_pipeline import _weights_only

    torch.save(_Payload(tmp_path / "ran"), tmp_path / "w.pt")
    with _weights_only(), pytest.raises(pickle.UnpicklingError):
        torch.load(tmp_path / "w.pt", weights_only=False)
    assert not (tmp_path / "ran").exists()
    assert "TORCH_FORCE_WEIGHTS_ONLY_LOAD" not in os.environ


def test_a_damaged_file_is_named(
    stanza_models: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    copy = tmp_path / "models"
    shutil.copytree(stanza_models, copy)
    weights = copy / "en/pos/treegraft.pt"
    for content in (weights.read_bytes()[:2000], b"", b"no weights"):
        weights.write_bytes(content)
        assert f"{weights} holds more than weights, or is damaged" in refused(copy, "pos", "en")
    assert capfd.readouterr().err == ""


def test_a_damaged_file_that_a_model_builds_on_is_named(stanza_models: Path, tmp_path: Path) -> None:
    copy = tmp_path / "models"
    shutil.copytree(stanza_models, copy)
    resources = json.loads((copy / "resources.json").read_text("utf-8"))
    resources["en"]["pos"]["treegraft"]["dependencies"] = [{"model": "pretrain", "package": "words"}]
    resources["en"]["pretrain"] = {"words": {}}
    (copy / "resources.json").write_text(json.dumps(resources), "utf-8")
    vectors = copy / "en/pretrain/words.pt"
    vectors.parent.mkdir()
    vectors.write_bytes(b"no vectors")
    tagger = torch.load(copy / "en/pos/treegraft.pt", weights_only=True)
    tagger["config"]["pretrain"] = True
    torch.save(tagger, copy / "en/pos/treegraft.pt")
    assert f"{vectors} holds more than weights, or is damaged" in refused(copy, "pos", "en")


# --- given words ------------------------------------------------------------------------------------


def test_given_words_come_back_one_to_one(parsers: dict[str, ours.StanzaParser]) -> None:
    sentences = [
        ["The", "dog", "sees", "New York", "."],  # a word with a space in it
        ["A" * 5_000, "sees", "\u200b", "du", "\u00a0x", "don't"],
        ["😀"],
    ]
    words = words_of(sentences)
    parse = parsers["en"].parse(words, max_sentence_words=100)
    assert parse.words is words and len(parse.heads) == len(parse.deprels) == len(parse.pos) == 12
    assert parse.deprels.dtype == parse.pos.dtype == np.int16
    roots = parse.heads == np.arange(12)
    assert [int(roots[a:b].sum()) for a, b in ((0, 5), (5, 11), (11, 12))] == [1, 1, 1]
    assert {parsers["en"].deprels[code] for code in parse.deprels[roots]} == {"root"}


def test_other_words_in_return_are_refused(
    parsers: dict[str, ours.StanzaParser], monkeypatch: pytest.MonkeyPatch
) -> None:
    nlp = parsers["en"]._nlp
    monkeypatch.setattr(parsers["en"], "_nlp", lambda sentences: nlp([s[:-1] for s in sentences]))
    with pytest.raises(
        ConfigError, match=r"merges or splits words \(3 given in 1 sentences, 2 in 1 returned\)"
    ):
        parsers["en"].parse(words_of([["My", "cat", "sees"]]), max_sentence_words=9)


def test_trees_do_not_depend_on_what_else_is_parsed(stanza_models: Path) -> None:
    models = find_stanza(f"stanza:{stanza_models}", "en", "x.yaml")
    sentences = [list(s.forms) for s in made_up("en", 80)]
    sentences += [a[:-1] + b for a, b in zip(sentences[:20], sentences[20:40], strict=True)]
    together = ours.StanzaParser(models).parse(words_of(sentences), max_sentence_words=99)
    small = ours.StanzaParser(models, batch_words=30)
    few = small.parse(words_of(sentences), max_sentence_words=99)
    turned = small.parse(words_of(sentences[::-1]), max_sentence_words=99)
    offsets = bounds([len(s) for s in sentences])
    turned_offsets = bounds([len(s) for s in sentences[::-1]])
    for number, sentence in enumerate(sentences):
        alone = small.parse(words_of([sentence]), max_sentence_words=99)
        a, b = offsets[number], offsets[number + 1]
        c = turned_offsets[len(sentences) - 1 - number]
        for parse, at in ((together, a), (few, a), (turned, c)):
            own = slice(at, at + b - a)
            assert (parse.heads[own] - at).tolist() == alone.heads.tolist()
            assert parse.deprels[own].tolist() == alone.deprels.tolist()
            assert parse.pos[own].tolist() == alone.pos.tolist()


@given(st.lists(st.integers(1, 60), max_size=40), st.integers(1, 100))
def test_batches_hold_every_sentence_once_and_no_more_words_than_asked(
    lengths: list[int], limit: int
) -> None:
    sizes = np.array(lengths, np.int64)
    found = list(ours._batches(sizes, limit))
    assert sorted(np.concatenate([[], *found]).tolist()) == list(range(len(lengths)))
    assert all(len(batch) == 1 or sizes[batch].sum() <= limit for batch in found)
    assert [n for batch in found for n in sizes[batch]] == sorted(lengths)


def test_long_sentences_are_cut_before_they_are_parsed(parsers: dict[str, ours.StanzaParser]) -> None:
    words = words_of([["the", "dog", "sees", "a", "cat", "."] * 4])
    parse = parsers["en"].parse(words, max_sentence_words=12, find_sentences=True)
    assert np.diff(parse.words.of_sentence).tolist() == [12, 12] and parse.cuts.tolist() == [12]
    assert (parse.heads == np.arange(24)).sum() == 2


def test_torch_is_left_as_it_was(parsers: dict[str, ours.StanzaParser]) -> None:
    torch.set_num_threads(2)
    before = torch.get_num_threads(), torch.get_deterministic_debug_mode()
    with steady():
        assert torch.get_num_threads() == 1 and torch.get_deterministic_debug_mode() > 0
    assert (torch.get_num_threads(), torch.get_deterministic_debug_mode()) == before
    parsers["en"].parse(words_of([["a", "dog", "."]]), max_sentence_words=9)  # whatever ran before this
    assert not any(
        processor.trainer.model.training for name, processor in parsers["en"]._nlp.processors.items()
        if name in ("pos", "depparse")
    )  # fmt: skip


# --- its own words ----------------------------------------------------------------------------------


def test_words_that_spell_their_token_stand_in_it_and_others_are_one(
    parsers: dict[str, ours.StanzaParser], segmenters: dict
) -> None:
    text = "\n  Le chat  voit lui-même le chien.\tMon voisin aime un cheval."
    words = segmenters["fr", False].segment([text], sentences_of([text], "fr"))
    spans = [text[a:b] for a, b in zip(words.starts, words.stops, strict=True)]
    assert " ".join(spans) == "Le chat voit lui -même le chien . Mon voisin aime un cheval ."
    text = "Le chat du voisin voit le chien au jardin."
    words = segmenters["fr", False].segment([text], sentences_of([text], "fr"))
    assert [text[a:b] for a, b in zip(words.starts, words.stops, strict=True)] == [*text[:-1].split(), "."]
    assert [form.words for form in words.forms if isinstance(form, Several)] == [("de", "le"), ("à", "le")]

    # The tree is the one of all words, `de` and `le` made one: both hang from the noun, so the first governs.
    parse = parsers["fr"].parse(words, max_sentence_words=99)
    inner = text.replace("du", "de le").replace("au", "à le").replace(".", " .").split()
    whole = parsers["fr"].parse(words_of([inner]), max_sentence_words=99)
    token = np.array([0, 1, 2, 2, 3, 4, 5, 6, 7, 7, 8, 9])
    first = np.searchsorted(token, np.arange(10))
    assert parse.heads.tolist() == token[whole.heads[first]].tolist()
    assert parse.deprels.tolist() == whole.deprels[first].tolist()
    assert parse.pos.tolist() == whole.pos[first].tolist()


def test_spelled() -> None:
    assert spelled(["do", "n't"], "don't") == (2, 5)
    assert spelled(["do", "n't"], "DON'T") == (2, 5)
    assert spelled(["de", "le"], "du") is None
    assert spelled(["do", "n't"], "don'ts") is None
    assert spelled(["do", ""], "do") is None


def test_sentences_are_ours_or_stanzas(segmenters: dict) -> None:
    texts = ["Le chat voit le chien. Mon voisin aime le cheval.", "", "Ce garçon trouve le jardin."]
    ours_ = segmenters["fr", False].segment(texts, sentences_of(texts, "fr"))
    own = segmenters["fr", True].segment(texts, sentences_of(texts, "fr"))
    one = np.zeros(1, np.int64)
    whole = segmenters["fr", False].segment(texts[:1], Spans(one, one + len(texts[0]), np.array([0, 1])))
    assert len(ours_.of_sentence) - 1 == len(own.of_sentence) - 1 == 3
    assert len(whole.of_sentence) - 1 == 1, "the sentence is the one that is given"
    assert whole.forms == own.forms[: len(whole.forms)]
    assert [len(set(s)) for s in (ours_.offsets.tolist(), own.offsets.tolist())] == [3, 3]


ODD = st.sampled_from(
    ["\n", "\n\n", " ", "\t", "\x97", "\u200b", "\n\x97\n", "\u2028", "\x85", "e\u0301", "👩‍👩‍👧", "<PAD>", "北京", "。", "don't",
     "du ", "Du", "\ufeff", "\r\n", "1 000", "?!", "\x00", "x" * 60, "The dog ", "le chat ", "这老师", ". "]
)  # fmt: skip


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    texts=st.lists(st.lists(ODD | st.text(max_size=3), max_size=12).map("".join), max_size=4),
    language=st.sampled_from(["fr", "zh"]),
    own=st.booleans(),
)
def test_every_character_that_is_no_blank_is_in_one_word(
    segmenters: dict, texts: list[str], language: str, own: bool
) -> None:
    texts = [text.encode("utf-8", "ignore").decode() for text in texts]
    sentences = sentences_of(texts, language)
    words = segmenters[language, own].segment(texts, sentences)
    assert len(words.forms) == len(words.starts) == words.of_sentence[-1] == words.offsets[-1]
    assert (np.diff(words.of_sentence) > 0).all() and set(words.offsets) <= set(words.of_sentence.tolist())
    for number, text in enumerate(texts):
        at = 0
        for i in range(words.offsets[number], words.offsets[number + 1]):
            start, stop = words.starts[i], words.stops[i]
            assert at <= start < stop and text[start:stop].strip() and not text[at:start].strip()
            at = stop
        assert not text[at:].strip()
    if not own:
        found = words.sentences
        assert found.starts.tolist() == sentences.starts.tolist()
        assert found.stops.tolist() == sentences.stops.tolist()
        assert found.offsets.tolist() == sentences.offsets.tolist()


def test_words_do_not_depend_on_the_texts_beside_them(segmenters: dict) -> None:
    texts = [s.text for s in made_up("fr", 30)] + ["", "  ", "du " * 400]
    for own in (False, True):
        segmenter = segmenters["fr", own]
        together = segmenter.segment(texts, sentences_of(texts, "fr"))
        for number, text in enumerate(texts):
            alone = segmenter.segment([text], sentences_of([text], "fr"))
            mine = slice(together.offsets[number], together.offsets[number + 1])
            assert together.starts[mine].tolist() == alone.starts.tolist()
            assert together.forms[mine] == alone.forms


# --- who may import it ------------------------------------------------------------------------------


def test_nothing_else_imports_torch_or_stanza() -> None:
    allowed = {"pipelines/training/stanza.py"}
    for package in ("corpora", "kg", "pipelines"):
        for path in (ROOT / package).rglob("*.py"):
            name = path.relative_to(ROOT).as_posix()
            if name in allowed or name.startswith("pipelines/annotate/stanza"):
                continue
            lines = path.read_text("utf-8").split("\n")
            assert not [
                x
                for x in lines
                if x.strip().startswith(("import torch", "from torch", "import stanza", "from stanza"))
            ], name
