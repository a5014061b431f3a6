from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from pipelines.encode.source import Words, attach, flat_list, read_texts, read_words
from pipelines.encode.tokenizer import Tokens
from pipelines.ragged import bounds
from tests.pipelines.annotated import DEPRELS, document, table_of


def words_of(offsets: list[int], starts: list[int], stops: list[int], heads: list[int]) -> Words:
    flat = [np.array(x, np.int64) for x in (offsets, starts, stops)]
    return Words(
        *flat, np.zeros(len(starts), np.int64), np.array(heads), np.arange(len(heads), dtype=np.int16)
    )


def tokens_of(starts: list[int], offsets: list[int]) -> Tokens:
    begin = np.array(starts, np.int32)
    return Tokens(begin, begin, begin + 1, np.array(offsets))


def test_columns_of_both_texts_lie_in_a_row() -> None:
    documents = [
        document("a", "我在北京。很好。", pair=True, text_pair="是的。"),
        document("b", "好", pair=True, text_pair=None),
        document("c", "", pair=True, text_pair=""),
    ]
    table = table_of(documents, pair=True)
    texts = read_texts(table, ("", "_pair"))
    assert texts.strings == ["我在北京。很好。", "好", "", "是的。", "", ""]
    assert texts.chars.tolist() == [0, 8, 9, 9, 12, 12, 12]
    words = read_words(table, ("", "_pair"), texts.chars, DEPRELS)
    want = [
        (i, a, b)
        for i, (d, side) in enumerate([(d, side) for side in ("", "_pair") for d in documents])
        for a, b in zip(d[f"word_starts{side}"] or [], d[f"word_stops{side}"] or [], strict=True)
    ]
    owner = np.repeat(np.arange(6), np.diff(words.offsets)).tolist()
    assert list(zip(owner, words.starts.tolist(), words.stops.tolist(), strict=True)) == want
    assert words.heads is not None and words.deprels is not None
    base = words.offsets[:-1][owner]
    heads = [h for side in ("", "_pair") for d in documents for h in d[f"word_heads{side}"] or []]
    assert (words.heads - base).tolist() == heads
    deprels = [r for side in ("", "_pair") for d in documents for r in d[f"word_deprels{side}"] or []]
    assert [DEPRELS[i] for i in words.deprels] == deprels
    texts_of_sentences = {}
    for i, s in zip(owner, words.sentences.tolist(), strict=True):
        texts_of_sentences.setdefault(s, set()).add(i)
    assert all(len(o) == 1 for o in texts_of_sentences.values())
    assert len(texts_of_sentences) == 4


def test_each_chunk_may_have_a_dictionary_of_its_own() -> None:
    tables = [table_of([document(str(i), "我在北京。" * (i + 1))]) for i in range(3)]
    whole = pa.concat_tables(tables)
    texts = read_texts(whole, ("",))
    words = read_words(whole, ("",), texts.chars, DEPRELS)
    want = [r for t in tables for r in t["word_deprels"].to_pylist()[0]]
    assert words.deprels is not None
    assert [DEPRELS[i] for i in words.deprels] == want


def test_an_unknown_relation_is_named() -> None:
    table = table_of([document("a", "我在北京。")])
    with pytest.raises(ValueError, match=r"dependency relation 'root' is not among .* dep, obj"):
        read_words(table, ("",), read_texts(table, ("",)).chars, ["dep", "obj", "subj"])


def test_lists_of_slices_and_nulls() -> None:
    column = pa.chunked_array([pa.array([[1, 2], None, [], [3]], pa.list_(pa.int32()))])
    assert [x.tolist() for x in flat_list(column)] == [[1, 2, 3], [0, 2, 2, 2, 3]]
    assert [x.tolist() for x in flat_list(column.slice(1))] == [[3], [0, 0, 0, 1]]
    assert [x.tolist() for x in flat_list(column.slice(0, 0))] == [[], [0]]


def test_c08_a_word_without_tokens_goes_and_its_children_climb() -> None:
    # Alice / U+200B / joined / Acme: Alice hangs on the word that has no token.
    words = words_of([0, 4], [0, 6, 8, 15], [5, 7, 14, 19], [1, 2, 2, 2])
    kept, tied, dropped = attach(tokens_of([0, 8, 15, 17], [0, 4]), bounds([19]), words)
    assert dropped == 1
    assert kept.starts.tolist() == [0, 8, 15]
    assert kept.offsets.tolist() == [0, 3]
    assert kept.heads is not None and kept.deprels is not None
    assert kept.heads.tolist() == [1, 1, 1]
    assert kept.deprels.tolist() == [0, 2, 3]
    assert tied.tolist() == [0, 1, 2, 2]


def test_a_token_belongs_to_the_word_of_its_first_character() -> None:
    # One token over two words, as where a tokenizer reads 13:09 together.
    words = words_of([0, 3], [0, 1, 3], [1, 3, 4], [0, 0, 0])
    kept, tied, dropped = attach(tokens_of([0, 3], [0, 2]), bounds([4]), words)
    assert (tied.tolist(), dropped, kept.starts.tolist()) == ([0, 1], 1, [0, 3])


def test_tokens_between_words_go_to_the_next_word_of_their_text() -> None:
    # Two texts; white space tokens at 1, 3 and 5 of the first, at 0 of the second.
    words = words_of([0, 2, 3], [0, 2, 1], [1, 3, 2], [0, 0, 2])
    tokens = tokens_of([0, 1, 2, 3, 5, 0, 1], [0, 5, 7])
    _, tied, dropped = attach(tokens, bounds([6, 2]), words)
    assert tied.tolist() == [0, 1, 1, 1, 1, 2, 2]
    assert dropped == 0


def test_tokens_of_a_text_without_words_belong_to_none() -> None:
    words = words_of([0, 1, 1, 2], [0, 0], [1, 1], [0, 1])
    _, tied, _ = attach(tokens_of([0, 0, 1, 0], [0, 1, 3, 4]), bounds([1, 2, 1]), words)
    assert tied.tolist() == [0, -1, -1, 1]
    none = words_of([0, 0], [], [], [])
    _, tied, dropped = attach(tokens_of([0], [0, 1]), bounds([1]), none)
    assert (tied.tolist(), dropped) == ([-1], 0)
