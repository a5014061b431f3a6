"""Values go onto the tree and come back; predicted tags go back to exactly the source tokens."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpora.trunk import Ragged, Tagged, decode_tags, rows_to_tree, rows_to_trunk, to_tree, to_trunk
from tests.rows import GROUPS, LABELS, make_rows, rows_schema, to_batch

SEEDS = st.integers(0, 10**9)

# [CLS] 2020 ##20 | 北 京 | 好 [SEP] with a branch of two tokens behind 北 京, which has a child of one
ROW: dict[str, Any] = {
    "text": "202020 北京好",
    "char_starts": [0, 0, 4, 7, 8, 9, 0],
    "char_stops": [0, 4, 6, 8, 9, 10, 0],
    "token_labels": [-100, 3, -100, 1, 2, 0, -100],
    "tag_starts": [0, 7, 8, 9],
    "tag_stops": [6, 8, 9, 10],
    "tree_trunk_index": [0, 1, 2, 3, 4, -1, -1, -1, 5, 6],
}


# --- onto the tree and back -------------------------------------------------------------------


def test_labels_on_the_tree_and_back() -> None:
    on_tree = to_tree(ROW["tree_trunk_index"], ROW["token_labels"])
    assert on_tree.tolist() == [-100, 3, -100, 1, 2, -100, -100, -100, 0, -100]
    assert to_trunk(ROW["tree_trunk_index"], on_tree).tolist() == ROW["token_labels"]


def test_values_of_any_kind() -> None:
    index = [0, -1, 1]
    assert to_tree(index, ["B-LOC", "O"], "[BRANCH]").tolist() == ["B-LOC", "[BRANCH]", "O"]
    assert to_tree(index, [True, False], False).tolist() == [True, False, False]
    assert to_tree(index, np.array([3, 4], np.int16)).dtype == np.int16
    assert np.isnan(to_tree(index, [3, 4], np.nan)[1])
    scores = np.arange(6, dtype=np.float32).reshape(3, 2)
    assert to_trunk(index, scores).tolist() == [[0, 1], [4, 5]]
    assert to_tree(index, scores[[0, 2]], 0.0).tolist() == [[0, 1], [0, 0], [4, 5]]
    mixed = np.array(["x", None], object)
    assert to_tree(index, mixed, None).tolist() == ["x", None, None]


@given(SEEDS)
@settings(max_examples=50, deadline=None)
def test_tree_and_trunk_are_inverse_and_agree_with_a_loop(seed: int) -> None:
    rng = random.Random(seed)
    rows = make_rows(seed, "tag", GROUPS, rng.randint(0, 6))
    batch = to_batch(rows, rows_schema("tag", GROUPS))
    cut = rng.randint(0, len(rows))
    column = batch.column(batch.schema.get_field_index("tree_trunk_index"))[cut:]  # Arrow offsets from within
    labels = batch.column(batch.schema.get_field_index("token_labels"))[cut:]
    index, values = Ragged.of(column), Ragged.of(labels)
    on_tree = rows_to_tree(index, values)
    expected = []
    for row in rows[cut:]:
        looped = [-100] * len(row["tree_ids"])
        for at, trunk in enumerate(row["tree_trunk_index"]):
            if trunk >= 0:
                looped[at] = row["token_labels"][trunk]
        assert to_tree(row["tree_trunk_index"], row["token_labels"]).tolist() == looped
        assert to_trunk(row["tree_trunk_index"], looped).tolist() == row["token_labels"]
        expected += looped
    assert on_tree.tolist() == expected
    back = rows_to_trunk(index, Ragged(on_tree, index.offsets))
    assert back.values.tolist() == values.values.tolist()
    assert back.offsets.tolist() == values.offsets.tolist()


def test_chunks_are_one_column() -> None:
    lists = pa.chunked_array([[[1, 2], []], [[3], None]], pa.list_(pa.int16()))
    values, offsets = Ragged.of(lists)
    assert (values.tolist(), offsets.tolist()) == ([1, 2, 3], [0, 2, 2, 3, 3])
    none = Ragged.of(pa.chunked_array([], pa.list_(pa.int16())))
    assert (none.values.tolist(), none.offsets.tolist()) == ([], [0])


@pytest.mark.parametrize(
    ("index", "values", "fill", "said"),
    [
        ([0, -1, 1], [7], -100, "row 0: 1 values for 2 tokens on the trunk"),
        ([0, -1, 1], [7, 8, 9], -100, "row 0: 3 values for 2 tokens on the trunk"),
        ([0, -1, 2], [7, 8], -100, "row 0: trunk index 2 where 1 follows"),
        ([1, -1, 0], [7, 8], -100, "row 0: trunk index 1 where 0 follows"),
        ([0.0, 1.0], [7, 8], -100, "expected the integers of `tree_trunk_index`"),
        ([[0], [1]], [7, 8], -100, "expected the integers of `tree_trunk_index`"),
        ([0, -1, 1], ["O", "O"], -100, "fill is -100, expected a value such as those of the tokens"),
        ([0, -1, 1], [7, 8], "x", "fill is 'x', expected a value"),
        ([0, -1, 1], np.array([7, 8], np.uint8), -100, "fill is -100, which uint8 cannot hold"),
        ([0, -1, 1], [7, 8], None, "fill is None, expected a value"),
        ([0, -1, 1], [0.5, 0.5], None, "fill is None, expected a value"),
        ([0, -1, 1], [7, 8], {}, "fill is {}, expected a value"),
        ([0, -1, 1], [7, 8], [1, 2], r"fill is \[1, 2\], expected a value"),
        ([0, -1, 1], [7, 8], object(), "fill is <object .*, expected a value"),
        ([0, -1, 1], [7, 8], b"x", "fill is b'x', "),
        ([0, -1, 1], [7, 8], np.datetime64("2020-01-01"), "expected a value"),
    ],
)
def test_what_does_not_fit_is_refused(index: Any, values: Any, fill: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        to_tree(index, values, fill)


def test_rows_that_do_not_line_up_are_named() -> None:
    index = Ragged(np.array([0, -1, 1, 0, 1]), np.array([0, 3, 5]))
    with pytest.raises(ValueError, match="row 0: 3 values for 2 tokens on the trunk"):
        rows_to_tree(index, Ragged(np.arange(4), np.array([0, 3, 4])))
    with pytest.raises(ValueError, match="row 1: 1 values for 2 tokens in the tree"):
        rows_to_trunk(index, Ragged(np.arange(4), np.array([0, 3, 4])))
    with pytest.raises(ValueError, match="1 rows of values, but trees of 2 rows"):
        rows_to_tree(index, Ragged(np.arange(4), np.array([0, 4])))
    shifted = Ragged(np.array([0, -1, 1, 2, 0]), np.array([0, 3, 5]))  # a row's end in the wrong place
    with pytest.raises(ValueError, match="row 1: trunk index 2 where 0 follows"):
        rows_to_trunk(shifted, Ragged(np.arange(5), np.array([0, 3, 5])))


# --- back to the source -----------------------------------------------------------------------


def test_source_tokens_get_their_first_pieces_label() -> None:
    of_tokens = ["?", "B-TIME", "?", "B-LOC", "I-LOC", "O", "?"]
    expected = [
        Tagged(0, 6, "202020", "B-TIME"),
        Tagged(7, 8, "北", "B-LOC"),
        Tagged(8, 9, "京", "I-LOC"),
        Tagged(9, 10, "好", "O"),
    ]
    assert decode_tags(ROW, of_tokens) == expected
    of_tree = ["?", "B-TIME", "?", "B-LOC", "I-LOC", "!", "!", "!", "O", "?"]
    assert decode_tags(ROW, of_tree) == expected
    assert [t.label for t in decode_tags(ROW, ROW["token_labels"])] == [3, 1, 2, 0]
    assert [t.label for t in decode_tags(ROW, np.array(ROW["token_labels"], np.int16))] == [3, 1, 2, 0]


def test_characters_that_no_piece_covers_stay_with_their_source_token() -> None:
    # e + combining acute, whose piece ends before the mark | zero-width space + 北, whose piece begins
    # behind it | one that is nothing but a zero-width space, an [UNK] | source tokens cut off by truncation
    row = {
        "text": "e\u0301\u200b北\u200b后来",
        "char_starts": [0, 0, 3, 4, 0],
        "char_stops": [0, 1, 4, 5, 0],
        "tag_starts": [0, 2, 4],
        "tag_stops": [2, 4, 5],
    }
    assert decode_tags(row, [9, 1, 2, 3, 9]) == [
        Tagged(0, 2, "e\u0301", 1),
        Tagged(2, 4, "\u200b北", 2),
        Tagged(4, 5, "\u200b", 3),
    ]


def test_a_source_token_whose_pieces_share_a_character_has_one_label() -> None:
    # A Hangul syllable of three pieces, each with the syllable's offsets.
    row = {"text": "한국", "char_starts": [0, 0, 0, 0, 1, 0], "char_stops": [0, 1, 1, 1, 2, 0]}
    row |= {"tag_starts": [0, 1], "tag_stops": [1, 2]}
    assert decode_tags(row, [9, 1, 8, 8, 2, 9]) == [Tagged(0, 1, "한", 1), Tagged(1, 2, "국", 2)]


@given(SEEDS, st.booleans())
@settings(max_examples=50, deadline=None)
def test_decoding_agrees_with_a_slow_reader(seed: int, with_tree: bool) -> None:
    rng = random.Random(seed)
    for row in make_rows(seed, "tag", ("tree",) if with_tree else (), 8):
        predicted = [rng.choice(LABELS) for _ in row["input_ids"]]
        expected = []
        for start, stop in zip(row["tag_starts"], row["tag_stops"], strict=True):
            pieces = [
                i
                for i, (a, b) in enumerate(zip(row["char_starts"], row["char_stops"], strict=True))
                if a < b and start <= a < stop
            ]
            expected.append(Tagged(start, stop, row["text"][start:stop], predicted[pieces[0]]))
        assert decode_tags(row, predicted) == expected
        if with_tree:
            of_tree = [predicted[i] if i >= 0 else rng.choice(LABELS) for i in row["tree_trunk_index"]]
            assert decode_tags(row, of_tree) == expected


@pytest.mark.parametrize(
    ("row", "predictions", "said"),
    [
        ({"text": "x"}, [1], "expected a row of task 'tag', found none of its column 'char_starts'"),
        (ROW, [1] * 8, r"expected 7 predictions, one per token of the row or 10, one per token of its tree; found 8"),
        ({k: v for k, v in ROW.items() if k != "tree_trunk_index"}, [1] * 10, "expected 7 predictions.*found 10"),
        (ROW, [[1, 2]] * 7, r"predictions of shape \(7, 2\): take the best label first"),
        ({**ROW, "tag_starts": [0, 7, 8, 9, 10], "tag_stops": [6, 8, 9, 10, 11]}, [1] * 7, "without a token"),
        ({**ROW, "text": "20202"}, [1] * 7, "reach from 0 to 10, its text has 5 characters"),
        ({**ROW, "text": "202020 北京"}, [1] * 7, "reach from 0 to 10, its text has 9 characters"),
        ({**ROW, "tag_stops": [6, 8, 9]}, [1] * 7, "starts without stops"),
        ({**ROW, "tag_starts": [0, 5, 7, 8, 9], "tag_stops": [4, 6, 8, 9, 10]}, [1] * 7, "without a token"),
    ],
)  # fmt: skip
def test_rows_and_predictions_that_do_not_fit_are_refused(row: Any, predictions: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        decode_tags(row, predictions)


def test_c02_labels_versus_injected_knowledge_tokens() -> None:
    """北 京 好 with 北京 类别 首都: labels, loss mask and the decoded entity ignore what was injected."""
    row = {
        "text": "北京好",
        "char_starts": [0, 0, 1, 2, 0],
        "char_stops": [0, 1, 2, 3, 0],
        "tag_starts": [0, 1, 2],
        "tag_stops": [1, 2, 3],
        "tree_trunk_index": [0, 1, 2, -1, -1, 3, 4],
    }
    names = ["O", "B-LOC", "I-LOC"]
    labels = to_tree(row["tree_trunk_index"], [-100, 1, 2, 0, -100])
    assert labels.tolist() == [-100, 1, 2, -100, -100, 0, -100]
    assert (labels != -100).astype(int).tolist() == [0, 1, 1, 0, 0, 1, 0]
    # A model that takes the injected tokens for parts of the entity.
    predicted = [names[i] for i in (0, 1, 2, 2, 2, 0, 0)]
    decoded = decode_tags(row, predicted)
    assert [t.label for t in decoded] == ["B-LOC", "I-LOC", "O"]
    assert (decoded[0].start, decoded[1].stop) == (0, 2)
    assert row["text"][decoded[0].start : decoded[1].stop] == "北京"
