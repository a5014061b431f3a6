"""Parses: trees of spaCy pipelines as flat arrays, whatever the pipeline does."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import spacy
from hypothesis import given
from hypothesis import strategies as st
from spacy.language import Language
from spacy.tokens import Doc

from pipelines import forest
from pipelines.annotate import spacy_words
from pipelines.annotate.parse import Answer, TreeParser, batches, cut_long_sentences, parse_units
from pipelines.annotate.spacy_models import declared_deprels, find_pipeline, load_pipeline, pipeline_identity
from pipelines.annotate.spacy_parser import SpacyParser
from pipelines.annotate.spacy_words import SpacyWords
from pipelines.annotate.tools import UPOS
from pipelines.annotate.words import Words, sentences_of
from pipelines.config import ConfigError

CONFIG = str(Path(__file__))
DEPRELS = sorted(declared_deprels(find_pipeline("default", "en", CONFIG)) | {"root", "dep"})


@pytest.fixture(scope="module")
def parser() -> SpacyParser:
    return SpacyParser(find_pipeline("default", "en", CONFIG))


def segment(parser: SpacyParser, *texts: str) -> Words:
    return SpacyWords(parser.nlp).segment(texts, sentences_of(texts, "en"))


def plain(counts: list[list[int]]) -> Words:
    """Words `w` of texts whose sentences have these many words; offsets do not matter."""
    per_sentence = [n for text in counts for n in text]
    total = sum(per_sentence)
    starts = np.arange(total) * 2
    bounds = np.concatenate([[0], np.cumsum(per_sentence)]).astype(np.int64)
    offsets = np.concatenate([[0], np.cumsum([sum(text) for text in counts])]).astype(np.int64)
    return Words(starts, starts + 1, offsets, ["w"] * total, bounds)


# --- trees ------------------------------------------------------------------------------------


def test_c11_no_whitespace_word_and_one_root_a_sentence(parser):
    text = "Well...  pretty good.\n\nNext one."
    found = parser.parse(segment(parser, text), max_sentence_words=256)
    forms = [text[a:b] for a, b in zip(found.words.starts, found.words.stops, strict=True)]
    assert forms == ["Well", "...", "pretty", "good", ".", "Next", "one", "."]
    assert found.words.starts[5:6].tolist() == [23] and found.words.stops[5:6].tolist() == [27]
    assert found.words.of_sentence.tolist() == [0, 5, 8]
    roots = np.flatnonzero(found.heads == np.arange(8))
    assert [np.searchsorted(found.words.of_sentence, r, "right") - 1 for r in roots] == [0, 1]
    assert [DEPRELS[found.deprels[r]] for r in roots] == ["root", "root"]


def test_c11_children_of_a_whitespace_word_go_to_the_nearest_other_ancestor():
    # Well ... SPACE pretty good . -- the space is the head of three words and hangs on `good`
    heads, keep = [2, 2, 4, 2, 4, 4], np.array([True, True, False, True, True, True])
    assert forest.drop_words(heads, keep).tolist() == [3, 3, 3, 3, 3]
    # where the space is the root itself, its children become roots, and the repair keeps one
    orphans = forest.drop_words([1, 1, 1], [True, False, True])
    assert orphans.tolist() == [0, 1]
    assert forest.repair_heads(orphans, [0, 2])[0].tolist() == [0, 0]


@Language.component("heads_across_sentences")
def _heads_across_sentences(doc: Doc) -> Doc:
    """A bad parser: everything hangs on the last word of the document, with no relation for the first."""
    heads = np.array([len(doc) - 1 - i for i in range(len(doc))], dtype=np.int64).astype(np.uint64)
    deps = np.full(len(doc), doc.vocab.strings["nsubj"], dtype=np.uint64)
    deps[-1] = doc.vocab.strings["ROOT"]
    made = Doc(doc.vocab, words=[t.text for t in doc])
    return made.from_array(["HEAD", "DEP"], np.stack([heads, deps], axis=1))


def test_heads_in_other_sentences_are_repaired_and_counted(parser):
    bad = SpacyParser(find_pipeline("default", "en", CONFIG))
    bad.nlp.add_pipe("heads_across_sentences", last=True)
    found = bad.parse(segment(bad, "One two three. Four five."), max_sentence_words=256)
    assert found.words.of_sentence.tolist() == [0, 4, 7]
    assert found.heads.tolist() == [0, 0, 0, 0, 6, 6, 6]
    assert [DEPRELS[d] for d in found.deprels] == ["root", "dep", "dep", "dep", "nsubj", "nsubj", "root"]
    assert found.repaired.sum() == 4
    assert {UPOS[p] for p in found.pos} == {"X"}  # this bad pipeline lost the parts of speech as well


def test_real_sentences_are_parsed_well(parser, real_data):
    """Far from a measure of the parser: only that words, sentences and trees belong together."""
    from corpora.conllu import read_conllu

    right = total = 0
    for number, gold in enumerate(read_conllu(real_data / "ud/en_ewt/dev.conllu")):
        if number == 60:
            break
        size = len(gold.forms)
        given = Words(
            np.array(gold.starts),
            np.array(gold.stops),
            np.array([0, size]),
            list(gold.forms),
            np.array([0, size]),
        )
        found = parser.parse(given, max_sentence_words=256)
        right += int((found.heads == np.array(gold.heads)).sum())
        total += size
    assert right / total > 0.7


def test_parser_finds_sentences(parser):
    texts = ["He came home late. i was asleep! She left; they stayed in the big old house", "", "Yes"]
    given = segment(parser, *texts)
    found = parser.parse(given, max_sentence_words=256, find_sentences=True)
    expected = []
    for begin, end in pairwise(given.offsets.tolist()):
        if begin < end:
            spaced = [*(given.starts[begin + 1 : end] > given.stops[begin : end - 1]).tolist(), False]
            doc = parser.nlp(Doc(parser.nlp.vocab, words=given.forms[begin:end], spaces=spaced))
            expected += [begin + sentence.start for sentence in doc.sents]
    assert found.words.of_sentence.tolist() == [*expected, len(given.forms)]
    rules = parser.parse(given, max_sentence_words=256)
    assert rules.words.of_sentence.tolist() != found.words.of_sentence.tolist()
    for words_, heads in ((rules.words, rules.heads), (found.words, found.heads)):
        assert int((heads == np.arange(len(heads))).sum()) == len(words_.of_sentence) - 1


def test_empty_texts_have_no_words(parser):
    found = parser.parse(segment(parser, "", "  \n"), max_sentence_words=256)
    assert len(found.heads) == 0 and found.words.sentences.offsets.tolist() == [0, 0, 0]


# --- bounds -----------------------------------------------------------------------------------


def test_long_sentences_are_cut_after_punctuation():
    given = plain([[3, 12], [5]])
    given.forms[3 + 3] = "，"  # 4th word of the long sentence
    given.forms[3 + 4] = "（"  # opens: no place to cut after
    found, cuts = cut_long_sentences(given, 5)
    # after the comma, then after five words without any punctuation; the rest is short enough
    assert found.of_sentence.tolist() == [0, 3, 7, 12, 15, 20] and cuts.tolist() == [7, 12]
    same, none = cut_long_sentences(given, 12)
    assert same is given and none.tolist() == []


def test_units_are_whole_sentences_of_one_text():
    given = plain([[4, 4, 4], [], [20, 3], [2]])
    units = parse_units(given, 10).tolist()
    assert units == [0, 8, 12, 32, 35, 37]  # a sentence longer than a unit comes alone
    assert parse_units(given, 100).tolist() == [0, 12, 35, 37]


def test_batches_change_no_parse(parser):
    given = segment(
        parser, *(f"Text {i} is here. It has sentences, {'many ' * i}of them." for i in range(30))
    )
    whole = parser.parse(given, max_sentence_words=256)
    small = SpacyParser(find_pipeline("default", "en", CONFIG), batch_words=50)  # a unit is one text still
    small = small.parse(given, max_sentence_words=256)
    for name in ("heads", "deprels", "pos"):
        assert getattr(whole, name).tolist() == getattr(small, name).tolist()


class Arbitrary(TreeParser):
    """A toolkit that says anything at all: heads and relations by a generator, sentences nowhere or anywhere."""

    name, deprels = "arbitrary", ("dep", "nsubj", "root")

    def __init__(self, seed: int, batch_words: int = 4_000, begins: bool = False) -> None:
        self.batch_words, self._rng, self._begins = batch_words, np.random.default_rng(seed), begins
        self.units: list[int] = []

    def zone(self):
        return contextlib.nullcontext()

    def answer(self, words, units, *, find_sentences, on_words):
        self.units = units.tolist()
        size = len(words.starts)
        heads = self._rng.integers(-2, size + 2, size)
        codes = self._rng.integers(0, 3, size).astype(np.int16)
        begins = self._rng.random(size) < 0.2 if self._begins else None
        return Answer(heads, codes, np.zeros(size, np.int16), begins)


@given(
    st.lists(st.lists(st.integers(1, 9), max_size=4), min_size=1, max_size=4),
    st.integers(1, 8),
    st.integers(1, 20),
    st.booleans(),
    st.booleans(),
    st.integers(0, 9),
)
def test_whatever_a_toolkit_says_there_is_one_tree_a_sentence(counts, limit, batch, find, begins, seed):
    parser = Arbitrary(seed, batch, begins)
    words_ = plain(counts)
    found = parser.parse(words_, max_sentence_words=limit, find_sentences=find)
    bounds = found.words.of_sentence.tolist()
    assert bounds[0] == 0 and bounds[-1] == len(words_.forms) and max(np.diff(bounds), default=0) <= limit
    # A unit is a text, or sentences of one; and it fits the batch unless it is one sentence.
    assert set(words_.offsets.tolist()) <= {0, *parser.units}
    if not find:
        assert set(words_.of_sentence.tolist()) | set(found.cuts.tolist()) == set(bounds)
        assert set(parser.units) <= set(bounds)
        for a, b in pairwise(parser.units):
            assert b - a <= batch or not set(bounds) & set(range(a + 1, b))
    for a, b in pairwise(bounds):
        own = found.heads[a:b]
        roots = [i for i in range(a, b) if found.heads[i] == i]
        assert len(roots) == 1 and ((own >= a) & (own < b)).all()
        assert [i for i in range(a, b) if found.deprels[i] == 2] == roots
        for i in range(a, b):
            for _ in range(b - a):
                i = int(found.heads[i])
            assert i == roots[0]


def test_batches_hold_so_many_words_and_units():
    units = np.array([0, 3, 6, 16, 17, 18])
    assert list(batches(units, 6)) == [[(0, 3), (3, 6)], [(6, 16)], [(16, 17), (17, 18)]]
    assert list(batches(units, 100, 2)) == [[(0, 3), (3, 6)], [(6, 16), (16, 17)], [(17, 18)]]
    assert list(batches(np.array([0, 9]), 6)) == [[(0, 9)]]
    assert list(batches(np.array([0]), 6)) == []


@pytest.mark.parametrize("batch_words", [30, 4_000])
def test_a_spacy_pipeline_is_given_no_more_than_batch_words(batch_words):
    some = SpacyParser(find_pipeline("default", "en", CONFIG), batch_words=batch_words)
    sizes = []
    pipe = some.nlp.pipe

    def spy(docs, **settings):
        docs = list(docs)
        sizes.append(sum(map(len, docs)))
        return pipe(docs, **settings)

    some.nlp.pipe = spy
    some.parse(segment(some, "One two three. " * 40, "Four five."), max_sentence_words=256)
    assert sum(sizes) == 163 and max(sizes) <= batch_words and (len(sizes) > 1) == (batch_words == 30)


SCRIPT = """
import sys
sys.path.insert(0, {root!r})
from tests.pipelines.test_parse import *
p = SpacyParser(find_pipeline("default", "en", CONFIG))
found = p.parse(segment(p, *open({text!r}, encoding="utf-8").read().split("\\n\\n")), max_sentence_words=256)
print(found.heads.tolist(), found.deprels.tolist(), found.pos.tolist())
"""


def test_threads_and_hash_seed_do_not_change_a_parse():
    root = Path(__file__).parents[2]
    script = SCRIPT.format(root=str(root), text=str(root / "corpora/samples/en/pretrain.txt"))
    seen = set()
    for threads, seed in (("1", "0"), ("2", "7")):
        env = {
            **os.environ,
            "OMP_NUM_THREADS": threads,
            "OPENBLAS_NUM_THREADS": threads,
            "PYTHONHASHSEED": seed,
        }
        seen.add(
            subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, check=True).stdout
        )
    assert len(seen) == 1 and len(seen.pop()) > 1000


def test_c12_memory_zones_change_no_result_and_forget_words(parser, monkeypatch):
    texts = [f"The {n:x}zq{n} was seen near {n}." for n in range(200)]

    def run() -> list[list[int]]:
        with parser.zone():
            found = parser.parse(segment(parser, *texts), max_sentence_words=256)
        return [found.heads.tolist(), found.deprels.tolist(), found.pos.tolist(), found.words.starts.tolist()]

    def known() -> tuple[int, int]:
        return sum(1 for _ in parser.nlp.vocab), len(parser.nlp.vocab.strings)

    monkeypatch.setattr(spacy_words, "_WARM_WORDS", 0)
    before = known()
    zoned = run()
    assert known() == before
    monkeypatch.setattr(spacy_words, "_WARM_WORDS", 1_000_000)
    assert run() == zoned
    assert known()[0] > before[0] + 200


# --- finding and loading ----------------------------------------------------------------------


def test_a_missing_pipeline_names_the_line_that_installs_it():
    with pytest.raises(ConfigError, match=r"'en_core_web_xx'.*python -m spacy download en_core_web_xx"):
        find_pipeline("en_core_web_xx", "en", CONFIG)


def test_a_language_without_embedded_parser_names_those_with_one():
    with pytest.raises(ConfigError, match="no embedded parser for 'de', only for en, zh"):
        find_pipeline("default", "de", CONFIG)


def test_a_path_counts_from_the_config(tmp_path):
    shutil.copytree(find_pipeline("default", "en", CONFIG), tmp_path / "mine")
    assert find_pipeline("mine", "en", str(tmp_path / "c.yaml")) == tmp_path / "mine"


def test_the_identity_is_of_the_content(tmp_path):
    shutil.copytree(find_pipeline("default", "en", CONFIG), tmp_path / "mine")
    same = pipeline_identity(tmp_path / "mine")
    assert same == pipeline_identity(find_pipeline("default", "en", CONFIG))
    assert same["name"] == "en_ud_small" and same["version"]
    with (tmp_path / "mine/parser/model").open("ab") as model:
        model.write(b"x")
    assert pipeline_identity(tmp_path / "mine")["sha256"] != same["sha256"]


@pytest.mark.parametrize(
    ("pipes", "lacks"),
    [
        ([], "lacks a dependency parser and a morphologizer"),
        (["sentencizer"], "lacks a dependency parser and"),
        (["parser"], "lacks a morphologizer"),
        (["morphologizer"], "lacks a dependency parser;"),
        (["parser", "tagger"], "lacks a morphologizer"),
    ],
)
def test_a_pipeline_without_parser_or_tags_is_refused(tmp_path, pipes, lacks):
    nlp = spacy.blank("en")
    for pipe in pipes:
        nlp.add_pipe(pipe)
    if "parser" in pipes:
        nlp.get_pipe("parser").add_label("nsubj")
    if "morphologizer" in pipes:
        nlp.get_pipe("morphologizer").add_label("POS=NOUN")
    if "tagger" in pipes:
        nlp.get_pipe("tagger").add_label("NN")
    nlp.initialize()
    nlp.to_disk(tmp_path / "p")
    with pytest.raises(ConfigError, match=lacks):
        load_pipeline(tmp_path / "p")


def test_components_that_nobody_asks_for_are_not_loaded(tmp_path):
    nlp = spacy.load(find_pipeline("default", "en", CONFIG))
    nlp.add_pipe("sentencizer")
    nlp.add_pipe("entity_ruler", name="people")
    nlp.to_disk(tmp_path / "p")
    loaded, _ = load_pipeline(tmp_path / "p")
    assert loaded.pipe_names == ["tok2vec", "morphologizer", "parser"]


@Language.component("merges_words")
def _merges_words(doc: Doc) -> Doc:
    with doc.retokenize() as retokenizer:
        retokenizer.merge(doc[0:2])
    return doc


def test_a_pipeline_that_merges_words_is_refused():
    merging = SpacyParser(find_pipeline("default", "en", CONFIG))
    merging.nlp.add_pipe("merges_words", last=True)
    with pytest.raises(ConfigError, match=r"merges or splits words \(4 given, 3 returned\)"):
        merging.parse(segment(merging, "One two three."), max_sentence_words=256)


def test_a_folder_that_is_no_pipeline(tmp_path):
    (tmp_path / "meta.json").write_text("{")
    with pytest.raises(ConfigError, match="no readable meta"):
        pipeline_identity(tmp_path)


def test_roots_are_written_in_lower_case(tmp_path):
    meta = json.loads((find_pipeline("default", "en", CONFIG) / "meta.json").read_text())
    assert "ROOT" in meta["labels"]["parser"]
    assert "root" in DEPRELS and "ROOT" not in DEPRELS


def test_finding_a_parser_imports_no_models():
    script = (
        "import sys; from pipelines.annotate.parsers import find_parser, load_parser;"
        "load_parser(find_parser('default', 'zh', '.'), batch_words=10, gpu=False);"
        "import jieba; print('models' in sys.modules, jieba.dt.initialized)"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["False", "False"]


def test_words_may_be_replaced_by_other_sentences(parser):
    given = segment(parser, "One two three four.")
    again = replace(given, of_sentence=np.array([0, 2, 5]))
    assert again.sentences.starts.tolist() == [0, 8] and again.sentences.stops.tolist() == [7, 19]


@pytest.mark.heavy
def test_c12_memory_stays_flat_over_200_000_documents():
    """Each document holds one word that no other has. The first 50,000 are kept; then memory is flat."""
    script = """
import os, sys
sys.path.insert(0, {root!r})
from tests.pipelines.raw import config, raw
from pipelines.annotate.stage import Annotate
stage = Annotate(config("en"), {root!r} + "/c.yaml")
stage.setup()
def rss():
    return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20
for begin in range(0, 200_000, 4_000):
    texts = [f"{{n * 7919:x}}q{{n}}z" for n in range(begin, begin + 4_000)]
    stage.annotate_table(raw(texts), print)
    if begin in (16_000, 60_000, 196_000):
        print(rss())
"""
    root = str(Path(__file__).parents[2])
    command = [sys.executable, "-c", script.format(root=root)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    early, warm, late = map(float, done.stdout.split())
    print(f"resident MiB after 20,000 documents: {early:.0f}, 64,000: {warm:.0f}, 200,000: {late:.0f}")
    assert late - early < 150
    assert late - warm < 20  # 53 MiB where nothing is ever freed


@pytest.mark.parametrize(
    ("meta", "config", "message"),
    [("[1]", "", "meta.json"), ("{}", None, "config.cfg"), ("{}", "garbage", "config.cfg")],
)
def test_a_folder_that_is_half_a_pipeline_is_named(
    tmp_path: Path, meta: str, config: str | None, message: str
) -> None:
    (tmp_path / "meta.json").write_text(meta)
    if config is not None:
        (tmp_path / "config.cfg").write_text(config)
    with pytest.raises(ConfigError, match=f"annotate.parser: .*no readable {message}"):
        pipeline_identity(tmp_path)
        declared_deprels(tmp_path)
