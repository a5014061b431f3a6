"""Sentences that are counted: those of annotated documents, against a loop that slices strings; splits."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpora.blocks import Block, Part
from corpora.layout import InputConfig
from corpora.shards import ShardWriter
from pipelines.phrases.source import AnnotatedSentences, Lowered, counted_splits
from pipelines.section import ConfigError
from tests.pipelines.annotated import document, table_of

WORDS = st.text(st.sampled_from(list("aÉß中😀 \t\u00a0.")), min_size=1, max_size=4)
TEXTS = st.lists(st.lists(WORDS, max_size=5), max_size=4)
"""Sentences of words, some of which hold white space, as corpora with words of their own bring them."""


def given_words(doc_id: str, first: list[list[str]], second: list[list[str]] | None) -> dict:
    """A pair whose words are exactly these, laid end to end."""
    row = document(doc_id, "", pair=True, text_pair=None)
    for suffix, sentences in (("", first), ("_pair", second)):
        if sentences is None:
            continue
        at, words, bounds = 0, [], []
        for sentence in sentences:
            begin = at
            for word in sentence:
                words.append((at, at + len(word)))
                at += len(word)
            bounds.append((begin, at))
        row |= {
            f"text{suffix}": "".join(word for sentence in sentences for word in sentence),
            f"sentence_starts{suffix}": [a for a, _ in bounds],
            f"sentence_stops{suffix}": [b for _, b in bounds],
            f"word_starts{suffix}": [a for a, _ in words],
            f"word_stops{suffix}": [b for _, b in words],
            f"word_heads{suffix}": list(range(len(words))),
            f"word_deprels{suffix}": ["root"] * len(words),
            f"word_pos{suffix}": ["X"] * len(words),
        }
    return row


def counted(table: pa.Table, folder, *, lowercase: bool = False, rows: int = 4096) -> list[str]:
    path = str(folder / "annotated.arrow")
    with ShardWriter(path, table.schema, max_batch_rows=rows) as shard:
        shard.write(table)
    source = Lowered(AnnotatedSentences()) if lowercase else AnnotatedSentences()
    block = Block("text", 0, 1, (Part(path, "annotated.arrow", 0, None),), 1)
    return [line for some in source.sentences(block) for line in some.to_pylist()]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(TEXTS, st.none() | TEXTS), max_size=4))
def test_sentences_are_the_words_as_they_stand(tmp_path_factory, documents):
    table = table_of([given_words(str(i), *texts) for i, texts in enumerate(documents)], pair=True)
    sides = [first for first, _ in documents] + [second or [] for _, second in documents]
    wanted = [
        " ".join("<unk>" if set(word) & set(" \t") else word for word in sentence)
        for text in sides
        for sentence in text
        if sentence
    ]
    folder = tmp_path_factory.mktemp("source")
    assert counted(table, folder) == wanted
    assert counted(table, folder, lowercase=True) == [line.lower() for line in wanted]


def test_batches_of_a_shard_go_one_after_another(tmp_path):
    table = table_of([document(str(n), f"甲{n}。乙") for n in range(5)])
    assert counted(table, tmp_path, rows=2) == counted(table, tmp_path)
    assert len(counted(table, tmp_path)) == 10


@pytest.mark.parametrize(
    ("files", "trains", "wanted", "chosen"),
    [
        (["train", "dev"], None, None, ["train"]),
        (["train_b", "dev", "train_a"], None, None, ["train_b", "train_a"]),
        (["dev", "test"], None, None, ["dev", "test"]),
        (["a", "b"], ["b"], None, ["b"]),
        (["train", "dev"], None, ["dev", "train"], ["train", "dev"]),
    ],
)
def test_splits_that_train_are_counted(files, trains, wanted, chosen):
    keys = {"format": "jsonl", "label": "label"} | ({"train_splits": trains} if trains else {})
    layout = InputConfig.model_validate({"files": dict.fromkeys(files, "x.jsonl"), **keys})
    assert counted_splits(layout, wanted) == chosen


def test_a_split_that_there_is_not():
    layout = InputConfig.model_validate({"files": {"train": "x.jsonl"}, "format": "jsonl"})
    with pytest.raises(
        ConfigError, match=r"phrases\.splits: there is no split 'trian'.*did you mean 'train'"
    ):
        counted_splits(layout, ["trian"])
