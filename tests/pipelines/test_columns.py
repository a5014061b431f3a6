from __future__ import annotations

import itertools
import random
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpora.schema import row_schema
from pipelines.encode import columns
from pipelines.encode.assemble import NONE, Rows
from pipelines.encode.columns import Frame
from pipelines.encode.lists import record_batch
from pipelines.encode.source import attach, read_texts, read_words
from pipelines.encode.tokenizer import load_tokenizer
from pipelines.ragged import bounds
from tests.pipelines.annotated import DEPRELS, SAMPLES, Annotation, annotate, document, table_of

BERT = load_tokenizer(str(SAMPLES / "vocab.txt"))
SPECIAL = BERT.special_ids
ALPHABET = st.one_of(
    st.sampled_from("ab中国北京。！？ \n\u0301\u200b\u200d한👨🇨🇳❤\ufe0fＡאب\x00"),
    st.sampled_from(["北京", "很好。", "apple ", "e\u0301"]),
    st.characters(exclude_categories=["Cs"]),
)
TEXTS = st.lists(st.lists(ALPHABET, max_size=25).map("".join), min_size=1, max_size=4)


@dataclass
class Case:
    """Documents, random rows over them, and what the product makes of the rows."""

    texts: list[str]
    notes: list[Annotation]
    rows: Rows
    made: dict[str, list[Any]]
    trunk: columns.Trunk


def make(texts: list[str], rng: random.Random, *, whole_texts: bool) -> Case:
    documents = [document(str(i), t) for i, t in enumerate(texts)]
    table = table_of(documents)
    source = read_texts(table, ("",))
    tokens = BERT.encode_texts(source.strings)
    words, tied, _ = attach(tokens, source.chars, read_words(table, ("",), source.chars, DEPRELS))
    full = np.flatnonzero(np.diff(tokens.offsets)).tolist()

    def span() -> tuple[int, int, int]:
        text = rng.choice(full)
        low, high = int(tokens.offsets[text]), int(tokens.offsets[text + 1])
        start = rng.randrange(low, high)
        return text, start, rng.randrange(start, high) + 1

    picked = [(span(), span() if rng.random() < 0.5 else (NONE, 0, 0)) for _ in range(5 if full else 0)]
    flat = np.array(picked, np.int64).reshape(-1, 2, 3)
    rows = Rows(flat[:, 0, 0], flat[:, :, 0], flat[:, :, 1], flat[:, :, 2])
    trunk = columns.lay_trunk(rows, source, tokens, SPECIAL, whole_texts=whole_texts)
    laid = columns.lay_words(trunk, words, tied)
    made = trunk.columns() | columns.syntax_columns(trunk, laid, words)
    lists = {
        name: [values[a:b].tolist() for a, b in itertools.pairwise(offsets)]
        for name, (values, offsets) in made.items()
    }
    notes = [annotate(t, random.Random(f"0 {i}")) for i, t in enumerate(texts)]
    return Case(texts, notes, rows, lists, trunk)


def word_at(note: Annotation, char: int) -> int:
    return next((i for i, (a, b) in enumerate(note.words) if a <= char < b), -1)


@settings(max_examples=150, deadline=None)
@given(TEXTS, st.integers(0, 1000), st.booleans())
def test_every_column_against_loops(texts: list[str], seed: int, whole: bool) -> None:
    case = make(texts, random.Random(seed), whole_texts=whole)
    for r in range(len(case.rows)):
        check_row(case, r, whole)


def check_row(case: Case, r: int, whole: bool) -> None:
    ids, types = [SPECIAL["cls"]], [0]
    starts, stops, word_index = [0], [0], [-1]
    heads: list[int] = []
    deprels: list[str] = []
    sentences: list[int] = []
    for side in (0, 1):
        text = int(case.rows.texts[r, side])
        if text == NONE:
            break
        note, string = case.notes[text], case.texts[text]
        every = BERT.encode_texts([string])
        first = case.rows.starts[r, side] - sum(len(BERT.encode_texts([t]).ids) for t in case.texts[:text])
        count = int(case.rows.stops[r, side] - case.rows.starts[r, side])
        kept = range(int(first), int(first) + count)
        segment = (case.trunk.texts_r, case.trunk.pairs_r)[side][r]
        base = 0 if whole else int(every.starts[kept[0]])
        assert segment == string if whole else string[base:].startswith(segment or "?")

        living = {word_at(note, a) for a in every.starts.tolist()}
        words = sorted({word_at(note, int(every.starts[t])) for t in kept})
        place = {w: len(heads) + i for i, w in enumerate(words)}
        before = len(sentences) and sentences[-1] + 1
        numbers = sorted({sentence_of(note, w) for w in words})
        for t in kept:
            ids.append(int(every.ids[t]))
            types.append(side)
            starts.append(int(every.starts[t]) - base)
            stops.append(int(every.stops[t]) - base)
            word = word_at(note, int(every.starts[t]))
            word_index.append(place[word])
            assert string[every.starts[t] : every.stops[t]] == (segment or "")[starts[-1] : stops[-1]]
        for w in words:
            head = w
            while True:  # the nearest ancestor with tokens, if it is in the row
                up = note.heads[head]
                if up == head:
                    head = w if head not in living else head
                    break
                head = up
                if head in living:
                    break
            heads.append(place.get(head, place[w]))
            deprels.append(note.deprels[w])
            sentences.append(before + numbers.index(sentence_of(note, w)))
        ids.append(SPECIAL["sep"])
        types.append(side)
        starts.append(0)
        stops.append(0)
        word_index.append(-1)
    made = {name: values[r] for name, values in case.made.items()}
    assert made["input_ids"] == ids
    assert made["token_type_ids"] == types
    assert made["char_starts"] == starts
    assert made["char_stops"] == stops
    assert made["word_index"] == word_index
    assert made["word_heads"] == heads
    assert [DEPRELS[i] for i in made["word_deprels"]] == deprels
    assert made["sentence_index"] == sentences
    check_intervals(heads, made["word_dfs_in"], made["word_dfs_out"])


def sentence_of(note: Annotation, word: int) -> int:
    return next(i for i, (a, b) in enumerate(note.sentences) if a <= note.words[word][0] < b)


def check_intervals(heads: list[int], enter: list[int], leave: list[int]) -> None:
    for b in range(len(heads)):
        above, at = {b}, b
        while heads[at] != at:
            at = heads[at]
            above.add(at)
        assert {a for a in range(len(heads)) if enter[a] <= enter[b] < leave[a]} == above


# --- frames -----------------------------------------------------------------------------------


def test_frames() -> None:
    frame = Frame.of(np.array([[2, 0], [1, 2], [0, 0], [0, 0]]), np.array([False, True, False, True]))
    assert frame.offsets_r.tolist() == [0, 4, 10, 12, 15]
    assert frame.inner.tolist() == [1, 2, 5, 7, 8]
    assert frame.types_t.tolist() == [0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 0, 0, 0, 0, 1]
    ids = frame.fill(np.array([7, 8, 9, 10, 11], np.int32), {"cls": 1, "sep": 2})
    assert ids.tolist() == [1, 7, 8, 2, 1, 9, 2, 10, 11, 2, 1, 2, 1, 2, 2]


def test_a_slice_of_text_takes_the_whole_cluster() -> None:
    """A combining mark after the last letter lies past its token, and belongs to the row's text."""
    documents = table_of([document("a", "ab e\u0301\u0302 cd")])
    source = read_texts(documents, ("",))
    tokens = BERT.encode_texts(source.strings)
    last = int(np.flatnonzero(tokens.starts == 3)[0])
    rows = Rows(*(np.array(x) for x in ([0], [[0, NONE]], [[0, 0]], [[last + 1, 0]])))
    trunk = columns.lay_trunk(rows, source, tokens, SPECIAL, whole_texts=False)
    assert trunk.texts_r == ["ab e\u0301\u0302"]
    assert trunk.stops_t[-2] == 4


def test_no_rows() -> None:
    case = make(["\x00"], random.Random(0), whole_texts=True)
    assert all(values == [] for values in case.made.values())


def test_syntax_needs_parses() -> None:
    table = table_of([document("a", "很好")], parsed=False)
    source = read_texts(table, ("",))
    tokens = BERT.encode_texts(source.strings)
    words, tied, _ = attach(tokens, source.chars, read_words(table, ("",), source.chars, None))
    rows = Rows(*(np.array(x) for x in ([0], [[0, NONE]], [[0, 0]], [[2, 0]])))
    trunk = columns.lay_trunk(rows, source, tokens, SPECIAL, whole_texts=True)
    with pytest.raises(ValueError, match="annotate them with a parser"):
        columns.syntax_columns(trunk, columns.lay_words(trunk, words, tied), words)


def test_words_for_mentions_leave_out_what_the_slice_cut() -> None:
    text = "北京人好ab"
    table = table_of([document("a", text)])
    source = read_texts(table, ("",))
    words = read_words(table, ("",), source.chars, None)
    words = type(words)(
        bounds([3]), np.array([0, 3, 4]), np.array([3, 4, 6]), np.zeros(3, np.int64), None, None
    )
    tokens = BERT.encode_texts([text])
    words, tied, _ = attach(tokens, source.chars, words)
    rows = Rows(*(np.array(x) for x in ([0, 0], [[0, NONE], [0, 0]], [[0, 0], [1, 3]], [[2, 0], [4, 5]])))
    trunk = columns.lay_trunk(rows, source, tokens, SPECIAL, whole_texts=False)
    laid = columns.lay_words(trunk, words, tied)
    a, b = columns.segment_words(trunk, laid, words)
    assert trunk.texts_r == ["北京", "京人好"]
    assert (a.offsets.tolist(), a.starts.tolist(), a.stops.tolist()) == ([0, 0, 1], [2], [3])
    assert (b.offsets.tolist(), b.starts.tolist()) == ([0, 0, 2], [0, 1])


def test_record_batches_have_the_declared_schema() -> None:
    schema = row_schema("pretrain", [])
    lists = (np.array([1, 2, 3]), np.array([0, 2, 3]))
    named: dict[str, Any] = {f.name: lists for f in schema if pa.types.is_list(f.type)}
    named |= {
        "id": ["a", "b"],
        "text": ["x", "y"],
        "text_pair": [None, "z"],
        "label": pa.array([None, 1], pa.int32()),
    }
    batch = record_batch(schema, named | {"other": lists})
    assert batch.schema.equals(schema)
    batch.validate(full=True)
    assert batch.to_pylist()[1]["input_ids"] == [3]
