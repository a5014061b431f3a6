"""Scores of parses: against an example worked by hand, the official evaluation, and what users type and read."""

import bz2
import contextlib
import gzip
import hashlib
import io
import json
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from corpora.conllu import ConlluSentence, parse_conllu
from pipelines.annotate.tools import UPOS, Parse
from pipelines.annotate.words import Spans, Words
from pipelines.cli import app
from pipelines.config import ConfigError
from pipelines.parse_eval.evaluate import evaluate, gold_words, gold_words_merged, same_words
from pipelines.parse_eval.score import Counts, Trees, count, not_punctuation, strings
from tests import treebanks

GOLD = """\
# text = Go to the big city center, now.
1\tGo\t_\tVERB\t_\t_\t0\troot\t_\t_
2\tto\t_\tADP\t_\t_\t6\tcase\t_\t_
3\tthe\t_\tDET\t_\t_\t6\tdet\t_\t_
4\tbig\t_\tADJ\t_\t_\t6\tamod\t_\t_
5\tcity\t_\tNOUN\t_\t_\t6\tnmod:poss\t_\t_
6\tcenter\t_\tNOUN\t_\t_\t1\tobl\t_\tSpaceAfter=No
7\t,\t_\tPUNCT\t_\t_\t1\tpunct\t_\t_
8\tnow\t_\tADV\t_\t_\t1\tadvmod\t_\tSpaceAfter=No
9\t.\t_\tPUNCT\t_\t_\t1\tpunct\t_\t_

"""
# Go: right; to: wrong head; the: right; big: wrong part of speech; city: subtype missing; center: wrong
# relation, a functional one; `,`: wrong head; now: right; `.`: right.
GUESS = [
    ("VERB", 0, "root"),
    ("ADP", 0, "case"),
    ("DET", 5, "det"),
    ("VERB", 5, "amod"),
    ("NOUN", 5, "nmod"),
    ("NOUN", 0, "mark"),
    ("PUNCT", 5, "punct"),
    ("ADV", 0, "advmod"),
    ("PUNCT", 0, "punct"),
]


def read(text: str) -> list[ConlluSentence]:
    return list(parse_conllu(text.split("\n")))


class Fixed:
    """A parser that answers what it is told, whatever the words."""

    name = "fixed"

    def __init__(self, trees: Trees) -> None:
        self._trees = trees
        self.deprels = tuple(sorted({*trees.deprels.tolist(), "root", "dep"}))

    def zone(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def parse(self, words: Words, *, max_sentence_words: int, find_sentences: bool = False) -> Parse:
        codes = [self.deprels.index(label) for label in self._trees.deprels]
        pos = [UPOS.index(tag) for tag in self._trees.pos]
        none = np.zeros(0, np.int64)
        size = len(words.starts)
        return Parse(
            words,
            self._trees.heads,
            np.array(codes, np.int16),
            np.array(pos, np.int16),
            np.zeros(size, bool),
            none,
        )


class FixedWords:
    """A segmenter that finds the words between blanks, and `joined` ones together."""

    def __init__(self, words: Words) -> None:
        self._words = words

    def zone(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def segment(self, texts: Sequence[str], sentences: Spans) -> Words:
        return self._words


def guessed(rows: Sequence[tuple[str, int, str]]) -> Trees:
    return Trees(
        np.array([head for _, head, _ in rows]),
        strings([label for *_, label in rows]),
        strings([tag for tag, *_ in rows]),
    )


def test_an_example_worked_by_hand(tmp_path: Path) -> None:
    path = tmp_path / "t.conllu"
    path.write_text(GOLD, encoding="utf-8")
    result = evaluate(path, Fixed(guessed(GUESS)))
    # UPOS 8 of 9. Heads: all but `to` and `,`: 7 of 9. Relations of those: city and center wrong: 5 of 9.
    # Content by the treebank: Go big city center now (5); by the parser: Go big city now (4); right, with
    # main relations: Go big city now (4): 2 * 4 / 9.
    assert result.counts == Counts(9, 8, 9, 7, 5, 5, 4, 4)
    assert result.counts.percents() == pytest.approx(
        {"upos": 800 / 9, "uas": 700 / 9, "las": 500 / 9, "clas": 800 / 9}
    )
    assert (result.sentences, result.gold_words, result.found, result.same) == (1, 9, 9, 9)
    main = evaluate(path, Fixed(guessed(GUESS)), main_relations=True)
    assert main.counts == Counts(9, 8, 9, 7, 6, 5, 4, 4)
    without = evaluate(path, Fixed(guessed(GUESS)), punctuation=False)
    assert without.counts == Counts(7, 6, 7, 6, 4, 5, 4, 4)


def test_own_words_are_scored_where_they_are_the_same(tmp_path: Path) -> None:
    path = tmp_path / "t.conllu"
    path.write_text(GOLD, encoding="utf-8")
    gold, _ = gold_words(read(GOLD))
    # `city center` is one word: 8 words, 7 of them the treebank's. Heads at `center` cannot be right.
    starts, stops = np.delete(gold.starts, 5), np.delete(gold.stops, 4)
    forms = [*gold.forms[:4], "city center", *gold.forms[6:]]
    own = Words(starts, stops, np.array([0, 8]), forms, np.array([0, 8]))
    rows = [
        ("VERB", 0, "root"),
        *[(UPOS[0], 4, "case")] * 3,
        ("NOUN", 0, "obl"),
        *[("PUNCT", 0, "punct")] * 3,
    ]
    result = evaluate(path, Fixed(guessed(rows)), FixedWords(own))
    assert (result.gold_words, result.found, result.same) == (9, 8, 7)
    # Scored: Go to the big , now . ; heads right: Go , now . ; relations: Go , .
    assert (result.counts.words, result.counts.heads, result.counts.labelled) == (7, 4, 3)
    assert result.as_dict()["words_f1"] == pytest.approx(100 * 14 / 17)


@pytest.mark.parametrize("language", ["en", "fr", "zh"])
@pytest.mark.parametrize("own", [False, True])
def test_the_treebank_itself_scores_100(tmp_path: Path, language: str, own: bool) -> None:
    path = treebanks.write(tmp_path, language, 30)
    words, gold = (gold_words_merged if own else gold_words)(read(path.read_text("utf-8")))
    result = evaluate(path, Fixed(gold), FixedWords(words) if own else None)
    assert set(result.counts.percents().values()) == {100.0}
    assert result.same == result.gold_words == len(words.forms) == result.found
    spans = list(
        zip(
            words.starts.tolist(),
            words.stops.tolist(),
            words.offsets.searchsorted(range(len(words.forms)), "right"),
            strict=True,
        )
    )
    assert not own or len(set(spans)) == len(spans)


def test_what_is_no_tree_is_left_out_and_said(tmp_path: Path) -> None:
    bare = "1\tA\t_\tX\t_\t_\t_\t_\t_\t_\n2\tb\t_\tX\t_\t_\t1\tdep\t_\t_\n\n"
    path = tmp_path / "t.conllu"
    path.write_text(bare + GOLD + bare, encoding="utf-8")
    result = evaluate(path, Fixed(guessed(GUESS)))
    assert (result.sentences, result.unparsed, result.counts.words) == (1, 2, 9)
    path.write_text(bare, encoding="utf-8")
    with pytest.raises(ConfigError, match=r"no sentence has a tree to compare with \(1 without"):
        evaluate(path, Fixed(guessed(GUESS)))


def test_words_without_a_part_of_speech_in_the_treebank_do_not_count() -> None:
    gold = guessed([("", 0, "root"), ("NOUN", 0, "obj")])
    guess = guessed([("X", 0, "root"), ("NOUN", 0, "obj")])
    assert count(gold, guess).percents()["upos"] == 100
    assert count(replace(gold, pos=strings(["", ""])), guess).percents()["upos"] is None
    assert Counts().percents() == dict.fromkeys(("upos", "uas", "las", "clas"))


def test_a_head_that_is_in_neither_is_no_right_one() -> None:
    gold, guess = guessed([("NOUN", 1, "obj"), ("VERB", 1, "root")]), guessed([("NOUN", -1, "obj")])
    assert count(gold, guess, np.array([0, -1])).heads == 0


def test_punctuation_is_what_conll_2007_leaves_out() -> None:
    forms = ["。", "...", "«", "don't", "$", "-", "–2", "（", "＄"]
    assert not_punctuation(forms).tolist() == [False, False, False, True, True, False, True, False, True]


@st.composite
def two_trees(draw: st.DrawFn) -> tuple[list[ConlluSentence], Trees, str]:
    """Sentences, another tree over them, and that as CoNLL-U."""
    tags = ("NOUN", "VERB", "PUNCT")
    labels = ("nsubj", "nsubj:pass", "punct", "aux:pass", "case", "obl:tmod", "obl")

    def tree(size: int) -> list[tuple[str, int, str]]:
        order = draw(st.permutations(range(size)))
        rows = {order[0]: (draw(st.sampled_from(tags)), 0, "root")}
        for place in range(1, size):
            head = order[draw(st.integers(0, place - 1))]
            rows[order[place]] = (draw(st.sampled_from(tags)), head + 1, draw(st.sampled_from(labels)))
        return [rows[i] for i in range(size)]

    def text(trees: list[list[tuple[str, int, str]]]) -> str:
        return "".join(
            "".join(f"{i}\tw{i}\t_\t{t}\t_\t_\t{h}\t{r}\t_\t_\n" for i, (t, h, r) in enumerate(rows, 1))
            + "\n"
            for rows in trees
        )

    sizes = draw(st.lists(st.integers(1, 6), min_size=1, max_size=4))
    gold, guess = text([tree(n) for n in sizes]), text([tree(n) for n in sizes])
    return read(gold), gold_words(read(guess))[1], guess


@settings(deadline=None)
@given(two_trees())
def test_counts_are_those_of_the_official_evaluation(case: tuple[list[ConlluSentence], Trees, str]) -> None:
    """With main relations, as CoNLL 2018; `udtools` comes with Stanza."""
    udeval = pytest.importorskip("udtools.udeval")
    sentences, guess, written = case
    _, gold = gold_words(sentences)
    gold_text = "".join(
        "".join(
            f"{i + 1}\tw{i + 1}\t_\t{s.upos[i]}\t_\t_\t{0 if s.heads[i] == i else s.heads[i] + 1}\t{s.deprels[i]}\t_\t_\n"
            for i in range(len(s.forms))
        )
        + "\n"
        for s in sentences
    )
    official = udeval.evaluate(
        udeval.load_conllu(io.StringIO(gold_text), "", {}), udeval.load_conllu(io.StringIO(written), "", {})
    )
    scores = count(gold, guess, main_relations=True).percents()
    for name in ("UPOS", "UAS", "LAS", "CLAS"):
        ours = scores[name.lower()]
        assert (0 if ours is None else ours) == pytest.approx(100 * official[name].f1)


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 9), st.integers(1, 3)), max_size=20), st.randoms()
)
def test_same_words_against_a_dictionary(spans: list[tuple[int, int, int]], random: object) -> None:
    def words(chosen: list[tuple[int, int, int]]) -> Words:
        kept = {(text, start): size for text, start, size in chosen}  # one word begins at a place
        rows = sorted((text, start, start + size) for (text, start), size in kept.items())
        offsets = np.searchsorted([text for text, *_ in rows], [0, 1, 2, 3])
        return Words(
            np.array([a for _, a, _ in rows], np.int64), np.array([b for *_, b in rows], np.int64), offsets,
            [""] * len(rows), offsets,
        )  # fmt: skip

    gold, own = words(spans[::2]), words(spans[1::2] + spans[:6:2])
    place = {}
    for text in range(3):
        for i in range(own.offsets[text], own.offsets[text + 1]):
            place[text, own.starts[i], own.stops[i]] = i
    expected = [
        place.get((text, gold.starts[i], gold.stops[i]), -1)
        for text in range(3)
        for i in range(gold.offsets[text], gold.offsets[text + 1])
    ]
    assert same_words(gold, own).tolist() == expected


# --- the command ------------------------------------------------------------------------------------


def run(*words: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["parse-eval", *map(str, words)], env={"COLUMNS": "160"})
    return result.exit_code, result.output + (str(result.exception) if result.exception else "")


def test_the_command_names_what_is_compared(tmp_path: Path) -> None:
    paths = [treebanks.write(tmp_path, "en", 12), treebanks.write(tmp_path, "en", 5, seed=1)]
    status, shown = run(*paths, "--language", "en")
    assert status == 0, shown
    assert "en_ud_small" in shown and "words:     the treebank's" in shown
    assert "punctuation counted; relations with subtypes" in shown
    assert "all" in shown and "words a second" in shown
    status, shown = run(
        paths[0], "--language", "en", "--words", "own", "--no-punct", "--main-relations", "--json"
    )
    assert status == 0, shown
    facts = json.loads(shown)
    assert facts["parser"]["name"] == "en_ud_small" and facts["segmenter"]["name"] == "spacy"
    assert (facts["words"], facts["punctuation"], facts["relations"]) == ("own", "left out", "main")
    assert facts["all"] == {**facts["files"][0], "file": "all"}
    assert facts["all"]["words_f1"] == 100, "spaCy makes `do` and `n't` of `don't`, as the treebank does"
    assert facts["all"]["words_scored"] < facts["all"]["words"]
    assert facts["all"]["uas"] > 50


def test_a_config_gives_parser_and_language(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(
        "task: pretrain\nlanguage: zh\ninput: {format: text, files: x.txt}\n"
        "annotate: {parser: default}\nencode: {tokenizer: v.txt}\n",
        encoding="utf-8",
    )
    path = treebanks.write(tmp_path, "zh", 8)
    status, shown = run(path, "--config", tmp_path / "c.yaml", "--words", "own", "--json")
    assert status == 0, shown
    facts = json.loads(shown)
    assert (facts["parser"]["name"], facts["segmenter"]["name"]) == ("zh_ud_small", "jieba")


def test_a_treebank_may_be_compressed(tmp_path: Path) -> None:
    path = treebanks.write(tmp_path, "en", 12)
    for compress in (gzip.compress, bz2.compress):
        packed = tmp_path / f"t.conllu.{'gz' if compress is gzip.compress else 'bz2'}"
        packed.write_bytes(compress(path.read_bytes()))
        found = [json.loads(run(p, "--language", "en", "--json")[1])["all"] for p in (path, packed)]
        assert {k: v for k, v in found[0].items() if k != "words_per_second"} == {
            k: v for k, v in found[1].items() if k != "words_per_second"
        }
    packed.write_bytes(packed.read_bytes()[:-9])
    status, shown = run(packed, "--language", "en")
    assert status != 0 and "t.conllu.bz2 is truncated or damaged" in shown


def test_a_treebank_that_the_parser_was_trained_on_is_told(tmp_path: Path) -> None:
    """A copy of the embedded parser that says so of one of two treebanks, whatever its name or compression."""
    seen, new = treebanks.write(tmp_path, "en", 5), treebanks.write(tmp_path, "en", 5, seed=1)
    parser = tmp_path / "parser"
    shutil.copytree(Path(__file__).parents[2] / "models/parsers/en_ud_small", parser)
    meta = json.loads((parser / "meta.json").read_text("utf-8"))
    meta["trained_on"] = {"train.conllu": hashlib.sha256(seen.read_bytes()).hexdigest()}
    (parser / "meta.json").write_text(json.dumps(meta), "utf-8")
    packed = tmp_path / "other.conllu.gz"
    packed.write_bytes(gzip.compress(seen.read_bytes()))
    given = (new, packed, "--language", "en", "--parser", parser)
    shown = run(*given)[1]
    assert f"warning: en_ud_small was trained on sentences of {packed}" in " ".join(shown.split())
    assert shown.count("warning") == 1
    assert json.loads(run(*given, "--json")[1])["trained_on"] == [str(packed)]
    assert "warning" not in run(seen, "--language", "en")[1]


def test_mistakes_are_named(tmp_path: Path) -> None:
    path = treebanks.write(tmp_path, "en", 3)
    assert "--language: name the language" in run(path)[1]
    assert "is no file" in run(tmp_path / "none.conllu", "--language", "en")[1]
    assert "names no parser" in run(path, "--language", "en", "--parser", "none")[1]
    assert "expected gold or own, found 'mine'" in run(path, "--language", "en", "--words", "mine")[1]
    assert "add --words own" in run(path, "--language", "en", "--segmenter", "parser")[1]
    assert "there is no embedded parser for 'fr'" in run(path, "--language", "fr")[1]
    (tmp_path / "bad.conllu").write_text("1\tonly\n\n", encoding="utf-8")
    assert "expected 10 columns" in run(tmp_path / "bad.conllu", "--language", "en")[1]
    assert all(run(path, *words)[0] != 0 for words in ((), ("--language", "en", "--parser", "none")))
