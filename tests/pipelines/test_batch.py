from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.encode.batch import distinct, read_batch
from pipelines.encode.source import Texts, Words, read_texts, read_words
from pipelines.ragged import bounds
from tests.pipelines.annotated import DEPRELS, document, table_of

TEXTS = st.sampled_from(["", "我在北京。", "我在北京。苹果", "a b", "好。好。"])


def texts_of(strings: list[str]) -> Texts:
    return Texts(strings, bounds([len(s) for s in strings]))


def words_of(*texts: tuple[list[int], list[int], list[int], list[int]]) -> Words:
    """Texts of two words of two characters; (starts, sentences, heads, relations) of each."""
    columns = [np.array(list(itertools.chain.from_iterable(t[i] for t in texts)), np.int64) for i in range(4)]
    return Words(
        bounds([len(t[0]) for t in texts]),
        columns[0],
        columns[0] + 1,
        columns[1],
        columns[2],
        columns[3].astype(np.int16),
    )


def test_texts_are_one_only_if_their_annotations_are() -> None:
    same = ([0, 1], [1, 1], [0, 0], [2, 0])
    texts = texts_of(["ab"] * 6)
    words = words_of(
        same,
        ([0, 1], [2, 2], [2, 2], [2, 0]),  # as the first
        ([0, 1], [3, 4], [4, 4], [2, 0]),  # two sentences
        ([0, 1], [5, 5], [7, 7], [2, 0]),  # another head
        ([0, 1], [6, 6], [8, 8], [2, 1]),  # another relation
        ([0], [7], [10], [2]),  # one word
    )
    fewer, kept, which = distinct(texts, words)
    assert which.tolist() == [0, 0, 1, 2, 3, 4]
    assert fewer.strings == ["ab"] * 5
    assert fewer.chars.tolist() == [0, 2, 4, 6, 8, 10]
    assert kept is not None and kept.heads is not None
    assert kept.offsets.tolist() == [0, 2, 4, 6, 8, 9]
    assert kept.heads.tolist() == [0, 0, 2, 2, 5, 5, 6, 6, 8]
    assert distinct(texts, None)[2].tolist() == [0] * 6


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(TEXTS, st.none() | TEXTS, st.integers(0, 1)), min_size=1, max_size=8))
def test_every_document_finds_its_own(rows: list[tuple[str, str | None, int]]) -> None:
    """Words, sentences and trees of each document's texts, through the distinct ones."""
    documents = [document(str(seed), a, pair=True, text_pair=b, seed=seed) for a, b, seed in rows]
    table = table_of(documents, pair=True)
    batch = read_batch(table, "train", "classify", ("", "_pair"), words=True, deprels=DEPRELS)
    assert batch.words is not None and batch.words.heads is not None and batch.words.deprels is not None
    assert len(batch.texts.strings) <= 2 * len(rows)
    for source, pair in zip(documents, batch.pairs.tolist(), strict=True):
        for side, text in zip(("", "_pair"), pair, strict=True):
            if source["text" + side] is None:
                assert text == -1
                continue
            assert batch.texts.strings[text] == source["text" + side]
            a, b = batch.words.offsets[text : text + 2].tolist()
            assert batch.words.starts[a:b].tolist() == source["word_starts" + side]
            assert batch.words.stops[a:b].tolist() == source["word_stops" + side]
            assert (batch.words.heads[a:b] - a).tolist() == source["word_heads" + side]
            assert [DEPRELS[i] for i in batch.words.deprels[a:b]] == source["word_deprels" + side]
            assert len(set(batch.words.sentences[a:b].tolist())) == len(source["sentence_starts" + side])


def test_choices_are_texts_of_their_own() -> None:
    lines: dict[str, Any] = {"choice_starts": [0, 5], "choice_stops": [4, 7], "label": "0"}
    source = document("q", "我", pair=True, text_pair="我在北京\n很好", **lines)
    source |= {
        "word_starts_pair": [0, 1, 2, 5],
        "word_stops_pair": [1, 2, 4, 7],
        "word_heads_pair": [1, 1, 3, 3],  # 北京 hangs from the other choice
        "word_deprels_pair": ["subj", "root", "obj", "root"],
        "word_pos_pair": ["X"] * 4,
        "sentence_starts_pair": [0, 5],
        "sentence_stops_pair": [4, 7],
    }
    batch = read_batch(
        table_of([source, source], pair=True), "train", "choice", ("", "_pair"), words=True, deprels=DEPRELS
    )
    assert batch.texts.strings == ["我", "我在北京", "很好"]
    assert batch.pairs.tolist() == [[0, 1], [0, 2]] * 2
    assert batch.owners.tolist() == [0, 0, 1, 1]
    assert batch.words is not None and batch.words.heads is not None
    assert batch.words.offsets.tolist() == [0, 1, 4, 5]
    assert batch.words.starts.tolist() == [0, 0, 1, 2, 0]
    assert batch.words.heads.tolist() == [0, 2, 2, 3, 4]


def test_pretraining_keeps_documents_apart() -> None:
    table = table_of([document("a", "好"), document("b", "好")])
    batch = read_batch(table, "train", "pretrain", ("",), words=False, deprels=None)
    assert batch.texts.strings == ["好", "好"]
    assert read_texts(table, ("",)).strings == ["好", "好"]
    assert len(read_words(table, ("",), batch.texts.chars, None).offsets) == 3
