"""Every view of every task against loops over rows and tokens; and odd rows."""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from corpora.schema import GROUPS, TASKS
from models.bert_batch import BatchError
from models.collate.collator import Collator
from models.collate.pad import tensors
from models.collate.views import view
from models.stream.rows import Rows
from tests.models.collate import literal
from tests.rows import Row, make_rows

VIEWS = (None, *GROUPS[1:])


def collated(
    rows: list[Row], group: str | None, task: str, multiple: int, weight: list[float] | None = None
) -> dict[str, torch.Tensor]:
    return tensors(view(literal.as_rows(rows, task, GROUPS, weight), group), multiple)


@pytest.mark.parametrize("task", TASKS)
@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32), count=st.integers(1, 5), multiple=st.sampled_from([1, 2, 8, 64]))
def test_views_are_what_the_contract_says(task: str, seed: int, count: int, multiple: int) -> None:
    rows = make_rows(seed, task, GROUPS, count)
    rng = random.Random(seed)
    weight = [float(rng.random() < 0.8) for _ in rows]
    for group in VIEWS:
        wanted = literal.batch(rows, group, task, multiple, weight)
        literal.same(collated(rows, group, task, multiple, weight), wanted)


def empty(task: str) -> Row:
    """A row of no token."""
    row = make_rows(1, task, GROUPS, 1)[0]
    return {name: [] if isinstance(value, list) else value for name, value in row.items()}


@pytest.mark.parametrize("group", VIEWS)
def test_rows_without_anything(group: str | None) -> None:
    bare = empty("tag")
    for rows in ([bare], [bare, bare], [bare, *make_rows(2, "tag", GROUPS, 2), bare]):
        literal.same(collated(rows, group, "tag", 8), literal.batch(rows, group, "tag", 8))
    found = collated([bare], group, "tag", 8)
    assert found["input_ids"].shape == (1, 8) and not found["sequence_id"].any()


def test_a_tree_without_branches_is_its_trunk() -> None:
    rows = []
    for row in make_rows(3, "tag", GROUPS, 3):
        count = len(row["input_ids"])
        row |= {"tree_ids": row["input_ids"], "tree_token_type_ids": row["token_type_ids"]}
        row |= {"tree_soft_positions": list(range(count)), "tree_trunk_index": list(range(count))}
        row |= {"tree_branch": [0] * count, "tree_mention": [-1] * count}
        rows.append(row | {"branch_triples": [], "branch_parents": []})
    found, plain = collated(rows, "tree", "tag", 8), collated(rows, None, "tag", 8)
    literal.same({name: found[name] for name in plain}, plain)
    assert not found["parent"].any() and not found["branch"].any()


def test_branches_of_branches_know_their_parent() -> None:
    """In each choice numbers of branches begin anew: parents are those of the choice."""
    seeds = (seed for seed in range(100) if sum(make_rows(seed, "choice", GROUPS, 2)[1]["branch_parents"]))
    rows = make_rows(next(seeds), "choice", GROUPS, 2)
    found = collated(rows, "tree", "choice", 1)
    assert found["parent"].any()
    assert (found["parent"] < found["branch"]).logical_or(found["branch"] == 0).all()
    literal.same(found, literal.batch(rows, "tree", "choice", 1))


def test_columns_for_masking_lie_on_the_trunk() -> None:
    rows = make_rows(5, "pretrain", GROUPS, 4)
    made = view(literal.as_rows(rows, "pretrain", GROUPS), "tree")
    assert {"word_index", "coarse_index"} <= set(made.fine.columns)
    for number, row in enumerate(rows):
        own = slice(*made.fine.offsets[number : number + 2])
        for name in ("word_index", "coarse_index"):
            wanted = [-1 if i < 0 else row[name][i] for i in row["tree_trunk_index"]]
            assert made.fine.columns[name][own].tolist() == wanted
    assert "word_index" not in tensors(made)


def test_what_rows_lack_is_said() -> None:
    rows = literal.as_rows(make_rows(1, "classify", ("base",), 2), "classify", ("base",))
    for group, column, before in (
        ("tree", "tree_ids", "$"),
        ("syntax", "word_index", r" \(if annotate.parser is 'none'.*`treegraft preprocess --overwrite`\)$"),
        (
            "coarse",
            "coarse_ids",
            r" \(if annotate.segmenter is 'none'.*`treegraft preprocess --overwrite`\)$",
        ),
    ):
        with pytest.raises(
            BatchError,
            match=f"{column}.*add '{group}' to encode.columns and run `treegraft encode` again{before}",
        ):
            view(rows, group)
    with pytest.raises(ValueError, match="group is 'forest'"):
        view(rows, "forest")


def test_choices_that_do_not_add_up() -> None:
    rows = literal.as_rows(make_rows(1, "choice", GROUPS, 2), "choice", GROUPS)
    values, offsets = rows.lists["choice_tree"]
    rows.lists["choice_tree"] = values + np.int16(1), offsets
    with pytest.raises(BatchError, match=r"choice_tree.*damaged"):
        view(rows, "tree")


def test_collator_is_view_and_padding() -> None:
    rows = make_rows(1, "classify", GROUPS, 3)
    for group in VIEWS:
        collator = pickle.loads(pickle.dumps(Collator(group, "classify", pad_to=4)))
        literal.same(
            collator(literal.as_rows(rows, "classify", GROUPS)), literal.batch(rows, group, "classify", 4)
        )
    assert Collator("tree", "tag").columns[-1] == "token_labels"
    assert set(Collator("coarse", "choice").columns) >= {
        "coarse_index",
        "choice_lengths",
        "choice_coarse",
        "label",
    }


@pytest.mark.parametrize(
    "chosen, message",
    [
        ({"group": "forest"}, "group is 'forest'"),
        ({"task": "sing"}, "task is 'sing'"),
        ({"pad_to": 0}, "pad_to must be"),
    ],
)
def test_settings_that_make_no_sense(chosen: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Collator(**chosen)  # type: ignore[arg-type]


def test_a_dataset_of_another_task() -> None:
    Collator(None, "regress").check_dataset({"task": "classify"})
    Collator(None, "mlm").check_dataset({"task": "seq2seq"})
    with pytest.raises(BatchError, match=r"'mlm' learns from rows of task pretrain or .*'choice'"):
        Collator(None, "mlm").check_dataset({"task": "choice"})
    with pytest.raises(BatchError, match=r"'tag' learns from rows of task tag.*'pretrain'"):
        Collator(None, "tag").check_dataset({"task": "pretrain"})


def broken(task: str, column: str, change: Callable[[list[int]], list[int]]) -> Rows:
    """Three rows; the last but one has another list in this column."""
    rows = make_rows(7, task, GROUPS, 3)
    rows[1][column] = change(rows[1][column])
    return literal.as_rows(rows, task, GROUPS)


def beyond(values: list[int]) -> list[int]:
    return [*values[:-1], 999]


def below(values: list[int]) -> list[int]:
    return [-2, *values[1:]]


@pytest.mark.parametrize("change", [beyond, below])
@pytest.mark.parametrize("task", ["classify", "choice"])
@pytest.mark.parametrize(
    ("group", "column"),
    [
        ("syntax", "word_index"),
        ("tree", "tree_branch"),
        ("coarse", "coarse_index"),
        ("tree", "tree_trunk_index"),
    ],
)
def test_an_index_does_not_reach_into_another_row(group, column, task, change):
    with pytest.raises(BatchError, match=rf"row 101: {column}.*treegraft verify"):
        view(broken(task, column, change), group)


def test_a_branch_hangs_from_one_of_its_row() -> None:
    rows = make_rows(7, "classify", GROUPS, 20)
    number = next(number for number, row in enumerate(rows) if row["branch_parents"])
    rows[number]["branch_parents"][0] = 99
    with pytest.raises(BatchError, match=rf"row {100 + number}: branch_parents holds 99"):
        view(literal.as_rows(rows, "classify", GROUPS), "tree")


@pytest.mark.parametrize(
    ("group", "column", "other"),
    [
        (None, "token_type_ids", "input_ids"),
        ("tree", "tree_branch", "tree_ids"),
        ("syntax", "word_dfs_out", "word_dfs_in"),
        ("coarse", "coarse_token_type_ids", "coarse_ids"),
    ],
)
def test_lists_of_a_row_are_of_equal_lengths(group, column, other):
    """Though in all rows together there are as many: what one lacks, the next has."""
    rows = make_rows(7, "classify", GROUPS, 3)
    rows[2][column] = [rows[1][column].pop(), *rows[2][column]]
    with pytest.raises(BatchError, match=rf"row 101: it has \d+ items of {column}, and \d+ of {other}"):
        view(literal.as_rows(rows, "classify", GROUPS), group)


def test_choices_part_the_tokens_of_their_own_row() -> None:
    rows = make_rows(7, "choice", GROUPS, 3)
    rows[1]["choice_lengths"][0] += 1
    rows[2]["choice_lengths"][0] -= 1
    with pytest.raises(
        BatchError, match=r"row 101: it has \d+ items of input_ids, and \d+ by choice_lengths"
    ):
        view(literal.as_rows(rows, "choice", GROUPS))
    rows = make_rows(7, "choice", GROUPS, 3)
    rows[1]["choice_lengths"][:2] = [-1, sum(rows[1]["choice_lengths"][:2]) + 1]
    with pytest.raises(BatchError, match="row 101: choice_lengths holds a length below 0"):
        view(literal.as_rows(rows, "choice", GROUPS))
    rows = make_rows(7, "choice", GROUPS, 3)
    rows[1]["choice_tree"].append(0)
    with pytest.raises(
        BatchError, match=r"row 101: it has \d+ items of choice_tree, and \d+ of choice_lengths"
    ):
        view(literal.as_rows(rows, "choice", GROUPS), "tree")
    with pytest.raises(BatchError, match="row 100: choice_lengths names no choice"):
        view(literal.as_rows([empty("choice")], "choice", GROUPS))
