"""Equal texts are annotated once, choices one by one; neither changes what is found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given as randomly
from hypothesis import settings as limits
from hypothesis import strategies as st

from corpora.records import RAW_SCHEMA, Reject
from pipelines.annotate.annotations import Annotations, joined
from pipelines.annotate.annotator import Annotator
from pipelines.annotate.stage import Annotate
from pipelines.annotate.words import Spans
from pipelines.config import Config
from pipelines.ragged import bounds
from tests.pipelines.raw import check_document, config, raw
from tests.pipelines.test_given import brought

HERE = str(Path(__file__))
ANNOTATED = (
    "sentence_starts",
    "sentence_stops",
    "word_starts",
    "word_stops",
    "word_heads",
    "word_deprels",
    "word_pos",
)
WORDS_ALONE = ("word_heads", "word_deprels", "word_pos")


def task(name: str, format_: str, language: str = "en", **annotate: Any) -> Config:
    body = config(language).model_dump(include={"language", "encode"}, exclude_unset=True)
    body |= {"task": name, "input": {"format": format_, "files": "f.json"}, "annotate": annotate}
    return Config.model_validate(body)


def choices(passages: Sequence[str], options: Sequence[Sequence[str]], **columns: Any) -> pa.Table:
    """Questions with these options, as readers lay them: a line each."""
    starts = [bounds([len(o) + 1 for o in own])[:-1].tolist() for own in options]
    stops = [
        [s + len(o) for s, o in zip(a, own, strict=True)] for a, own in zip(starts, options, strict=True)
    ]
    pairs = ["\n".join(own) for own in options]
    return raw(passages, text_pair=pairs, choice_starts=starts, choice_stops=stops, **columns)


def annotate(settings: Config, table: pa.Table) -> tuple[list[dict[str, Any]], Counter[str], list[Reject]]:
    rejects: list[Reject] = []
    stage = Annotate(settings, HERE)
    stage.setup()
    found, counts = stage.annotate_table(table, rejects.append)
    found.validate(full=True)
    for row in (rows := found.to_pylist()):
        check_document(row)
        if row["text_pair"] is not None:
            check_document(row, "_pair")
    return rows, counts, rejects


@pytest.fixture
def seen(monkeypatch) -> list[str]:
    """The texts that annotators are given."""
    texts: list[str] = []
    plain = Annotator.annotate

    def spy(self, some, given, relations):
        texts.extend(some)
        return plain(self, some, given, relations)

    monkeypatch.setattr(Annotator, "annotate", spy)
    return texts


# --- equal texts ------------------------------------------------------------------------------

CONTEXTS = ["Dr. Who saw her. She ran; he slept, I think.", "我爱北京。你呢？", "Go home"]


@pytest.mark.parametrize("language", ["en", "zh"])
def test_equal_texts_are_annotated_once_and_as_if_alone(language, seen):
    settings = task("span", "squad", language)
    which = [0, 0, 1, 0, 2, 1, 0]
    questions = ["Who?", "When?", "Who?", "Where?", "Go home", "Why?", "Who?"]
    rows, counts, _ = annotate(settings, raw(questions, text_pair=[CONTEXTS[i] for i in which]))
    assert sorted(seen) == sorted([*set(questions), *CONTEXTS])
    total: Counter[str] = Counter()
    for number, row in enumerate(rows):
        [alone], counted, _ = annotate(
            settings, raw([questions[number]], text_pair=[CONTEXTS[which[number]]])
        )
        assert {**alone, "doc_id": row["doc_id"], "source": row["source"]} == row
        total.update(counted)
    assert counts == total


def test_equal_texts_of_two_languages_are_two(seen):
    settings = config("zh", mixed=True)
    rows, _, _ = annotate(settings, raw(["Go home"] * 4, language=["en", "zh", "en", "zh"]))
    assert seen == ["Go home", "Go home"]
    assert (
        rows[0]["word_deprels"]
        == rows[2]["word_deprels"]
        != rows[1]["word_deprels"]
        == rows[3]["word_deprels"]
    )


def test_repairs_and_cuts_count_once_a_document():
    text = "one two, three four five six seven eight nine"
    settings = config(annotate={"max_sentence_words": 4})
    _, once, _ = annotate(settings, raw([text]))
    _, thrice, _ = annotate(settings, raw([text] * 3))
    assert (
        thrice == Counter({name: 3 * number for name, number in once.items()}) and once["sentences_cut"] == 2
    )


def test_equal_texts_with_other_given_words_are_two(seen):
    words = {"sentence_starts": [0], "sentence_stops": [7], "word_starts": [0, 3], "word_stops": [2, 7]}
    whole = {**words, "word_starts": [0], "word_stops": [7]}
    rows, _, _ = annotate(
        config(), raw(["Go home"] * 5, **brought(words, None, whole, words, None, without=WORDS_ALONE))
    )
    assert [row["word_stops"] for row in rows] == [[2, 7], [2, 7], [7], [2, 7], [2, 7]]
    assert len(seen) == 3


# --- choices ----------------------------------------------------------------------------------

PASSAGES = ["He came home late. She was asleep.", "The cat sat."]
OPTIONS = [
    ["Who came? he. did", "Who came? nobody", "Who came? The U.S. It did!", "Who came? he. did"],
    ["It sat", "", "It ran. So what", "He came home late. She was asleep."],
]


@pytest.mark.parametrize("sentences", ["rules", "parser", "lines"])
def test_choices_are_texts_of_their_own(sentences, seen):
    settings = task("choice", "race", sentences=sentences)
    rows, counts, _ = annotate(settings, choices(PASSAGES, OPTIONS))
    assert sorted(seen) == sorted([*PASSAGES, *{*OPTIONS[0], *OPTIONS[1]}])
    seen.clear()
    for row, options in zip(rows, OPTIONS, strict=True):
        expected: dict[str, list[Any]] = {name: [] for name in ANNOTATED}
        at = words = 0
        for option in options:
            alone = annotate(config(annotate={"sentences": sentences}), raw([option or "x"]))[0][0]
            if option:
                for name in ANNOTATED:
                    by = 0 if name in ("word_deprels", "word_pos") else words if name == "word_heads" else at
                    expected[name] += [value + by for value in alone[name]] if by else alone[name]
                words += len(alone["word_starts"])
            at += len(option) + 1
        assert {name: row[f"{name}_pair"] for name in ANNOTATED} == expected
    assert counts["words"] == sum(len(r["word_starts"]) + len(r["word_starts_pair"]) for r in rows)


def test_a_sentence_never_crosses_a_choice():
    """`no` begins in lower case: in one text it would go on the sentence before."""
    [row], _, _ = annotate(task("choice", "race"), choices(["Who?"], [["I think", "no way"]]))
    assert row["sentence_starts_pair"] == [0, 8]
    [joined_], _, _ = annotate(task("span", "squad"), raw(["Who?"], text_pair=["I think\nno way"]))
    assert joined_["sentence_starts_pair"] == [0]


def given_pairs(*documents: dict[str, Any] | None) -> dict[str, Any]:
    return brought(*documents, suffix="_pair", without=WORDS_ALONE)


def test_given_words_of_choices_are_parsed_choice_by_choice():
    options = [["He left.", "She did. He slept", "He left."]]
    words = {
        "sentence_starts": [0, 9, 18, 27],
        "sentence_stops": [8, 17, 26, 35],
        "word_starts": [0, 3, 9, 13, 18, 21, 27, 30],
        "word_stops": [2, 8, 12, 17, 20, 26, 29, 35],
    }
    settings = task("choice", "race")
    [row], counts, _ = annotate(settings, choices(["Who?"], options, **given_pairs(words)))
    assert {name: row[f"{name}_pair"] for name in words} == words and counts["words_given"] == 8
    for number, (first, last) in enumerate(((0, 2), (2, 6), (6, 8))):
        option = options[0][number]
        base = words["word_starts"][first]
        shifted = {
            name: [v - base for v in values if base <= v <= base + len(option)]
            for name, values in words.items()
            if name.startswith("sentence")
        }
        shifted |= {
            name: [v - base for v in words[name][first:last]] for name in ("word_starts", "word_stops")
        }
        alone = annotate(config(), raw([option], **brought(shifted, without=WORDS_ALONE)))[0][0]
        assert [head - first for head in row["word_heads_pair"][first:last]] == alone["word_heads"]
        assert row["word_deprels_pair"][first:last] == alone["word_deprels"]


@pytest.mark.parametrize(
    "words",
    [
        {"sentence_starts": [0], "sentence_stops": [6], "word_starts": [0, 3], "word_stops": [2, 6]},
        {"sentence_starts": [0], "sentence_stops": [6], "word_starts": [0], "word_stops": [6]},
    ],
)
def test_given_words_and_sentences_do_not_cross_choices(words):
    table = choices(["Who?", "Who?"], [["he", "she"], ["he", "she"]], **given_pairs(words, None))
    rows, _, [reject] = annotate(task("choice", "race"), table)
    assert [row["doc_id"] for row in rows] == ["d1"]
    assert reject.reason == "bad_annotations" and "within the choices" in reject.detail


def test_other_tasks_keep_their_pairs_whole():
    table = raw(["a"], text_pair=["Go. Home"])
    [row], _, _ = annotate(task("seq2seq", "parallel"), table)
    assert row["sentence_starts_pair"] == [0, 4]
    assert table.schema == RAW_SCHEMA


# --- arrays -----------------------------------------------------------------------------------


def hand_made(sizes: Sequence[tuple[int, int]], seed: int) -> Annotations:
    """Texts of (words, sentences) with numbers in them that mean nothing."""
    rng = np.random.default_rng(seed)
    words, sentences = [w for w, _ in sizes], [s for _, s in sizes]
    total = sum(words)

    def spans(lengths: Sequence[int]) -> Spans:
        return Spans(*rng.integers(0, 99, (2, sum(lengths))), bounds(lengths))

    heads = np.concatenate([np.zeros(0, np.int64), *(rng.integers(0, max(w, 1), w) for w in words)])
    codes = rng.integers(0, 9, (2, total))
    return Annotations(
        spans(sentences),
        spans(words),
        heads,
        codes[0],
        codes[1].astype(np.int16),
        *rng.integers(0, 5, (2, len(sizes))),
    )


@limits(deadline=None, max_examples=80)
@randomly(
    st.lists(
        st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3)), min_size=1, max_size=4),
        min_size=1,
        max_size=3,
    ),
    st.data(),
)
def test_pieces_are_placed_as_loops_place_them(parts, data):
    texts = joined([hand_made(sizes, seed) for seed, sizes in enumerate(parts)])
    count = len(texts)
    assert count == sum(map(len, parts))
    rows = data.draw(
        st.lists(st.lists(st.tuples(st.integers(0, count - 1), st.integers(0, 50)), max_size=3), max_size=4)
    )
    pieces = [piece for row in rows for piece in row]
    found = texts.placed([w for w, _ in pieces], [s for _, s in pieces], bounds([len(row) for row in rows]))
    assert len(found) == len(rows)
    for r, row in enumerate(rows):
        expected: dict[str, list[int]] = {
            name: [] for name in ("words", "sentences", "heads", "deprels", "pos")
        }
        base = 0
        for which, shift in row:
            own = slice(*texts.words.offsets[which : which + 2])
            many = slice(*texts.sentences.offsets[which : which + 2])
            expected["words"] += (texts.words.starts[own] + shift).tolist()
            expected["sentences"] += (texts.sentences.stops[many] + shift).tolist()
            expected["heads"] += (texts.heads[own] + base).tolist()
            expected["deprels"] += texts.deprels[own].tolist()
            expected["pos"] += texts.pos[own].tolist()
            base += own.stop - own.start
        own = slice(*found.words.offsets[r : r + 2])
        assert found.words.starts[own].tolist() == expected["words"]
        assert (
            found.sentences.stops[slice(*found.sentences.offsets[r : r + 2])].tolist()
            == expected["sentences"]
        )
        for name in ("heads", "deprels", "pos"):
            assert getattr(found, name)[own].tolist() == expected[name]
        assert found.repaired[r] == sum(texts.repaired[w] for w, _ in row)
        assert found.cuts[r] == sum(texts.cuts[w] for w, _ in row)
