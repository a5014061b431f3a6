"""Batches made row by row and token by token, straight from the contract: what the collator is held against."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from corpora.schema import row_columns
from models.stream.rows import Rows
from tests.rows import Row

FILLS = {"mention": -1, "trunk_index": -1, "sentence": -1, "token_labels": -100, "mlm_labels": -100}
INT32 = (
    "sequence_id",
    "branch",
    "mention",
    "parent",
    "trunk_index",
    "dfs_in",
    "dfs_out",
    "sentence",
    "coarse_index",
)
SHAPES = {
    "T": "choice_lengths",
    "W": "choice_words",
    "C": "choice_coarse",
    "F": "choice_tree",
    "B": "choice_branches",
}
LABELS = ("label", "label_score", "answer_start", "answer_stop", "is_impossible")


def as_rows(
    rows: Sequence[Row], task: str, groups: Iterable[str], weight: Sequence[float] | None = None
) -> Rows:
    """As a stream gives them: all columns but texts, read-only."""
    count = len(rows)
    weights = np.ones(count, np.float32) if weight is None else np.array(weight, np.float32)
    made = Rows(np.arange(count) + 100, np.zeros(count, np.int64), weights)
    for column in row_columns(task, groups):
        if "string" in str(column.type):
            continue
        is_list = str(column.type).startswith("list")
        kind = np.dtype((column.type.value_type if is_list else column.type).to_pandas_dtype())
        if is_list:
            offsets = np.cumsum([0, *(len(row[column.name]) for row in rows)], dtype=np.int64)
            values = np.array([value for row in rows for value in row[column.name]], kind)
            values.flags.writeable = False
            made.lists[column.name] = values, offsets
        else:
            missing = np.nan if kind.kind == "f" else -100
            values = [missing if row[column.name] is None else row[column.name] for row in rows]
            made.scalars[column.name] = np.array(values, kind)
    return made


def choices(row: Row, task: str) -> list[Row]:
    """The choices of a row as rows of their own; another row is one itself."""
    if task != "choice":
        return [row]
    shapes = {column.name: column.shape for column in row_columns(task, ("syntax", "coarse", "tree"))}
    made: list[Row] = []
    for number in range(len(row["choice_lengths"])):
        part = {}
        for name, values in row.items():
            if (of := SHAPES.get(shapes[name])) and of in row:
                start = sum(row[of][:number])
                part[name] = values[start : start + row[of][number]]
        made.append(part)
    return made


def sequence(row: Row, group: str | None) -> tuple[dict[str, list[int]], dict[str, list[int]]]:
    """Columns of a sequence's tokens, and of its coarse tokens."""
    fine: dict[str, list[int]] = {}
    if group == "tree":
        fine["input_ids"] = list(row["tree_ids"])
        fine["token_type_ids"] = list(row["tree_token_type_ids"])
        fine["position_ids"] = list(row["tree_soft_positions"])
        fine["branch"] = list(row["tree_branch"])
        fine["mention"] = list(row["tree_mention"])
        fine["parent"] = [0 if b == 0 else row["branch_parents"][b - 1] for b in row["tree_branch"]]
        fine["trunk_index"] = list(row["tree_trunk_index"])
        if "token_labels" in row:
            fine["token_labels"] = [
                -100 if i < 0 else row["token_labels"][i] for i in row["tree_trunk_index"]
            ]
        return fine, {}
    fine["input_ids"] = list(row["input_ids"])
    fine["token_type_ids"] = list(row["token_type_ids"])
    fine["position_ids"] = list(range(len(row["input_ids"])))
    if "token_labels" in row:
        fine["token_labels"] = list(row["token_labels"])
    if group == "syntax":
        for ours, theirs, none in (
            ("word_dfs_in", "dfs_in", 0),
            ("word_dfs_out", "dfs_out", 0),
            ("sentence_index", "sentence", -1),
        ):
            fine[theirs] = [none if word < 0 else row[ours][word] for word in row["word_index"]]
    coarse: dict[str, list[int]] = {}
    if group == "coarse":
        fine["coarse_index"] = list(row["coarse_index"])
        coarse["input_ids"] = list(row["coarse_ids"])
        coarse["token_type_ids"] = list(row["coarse_token_type_ids"])
        coarse["position_ids"] = list(range(len(row["coarse_ids"])))
    return fine, coarse


def padded(lists: Sequence[Mapping[str, list[int]]], multiple: int) -> dict[str, Tensor]:
    width = max(len(columns["input_ids"]) for columns in lists)
    while width == 0 or width % multiple:
        width += 1
    made: dict[str, Tensor] = {}
    for name in lists[0]:
        filled = [[*columns[name], *[FILLS.get(name, 0)] * (width - len(columns[name]))] for columns in lists]
        made[name] = torch.tensor(filled, dtype=torch.int32 if name in INT32 else torch.int64)
    ones = [[1] * len(columns["input_ids"]) for columns in lists]
    made["sequence_id"] = torch.tensor([[*x, *[0] * (width - len(x))] for x in ones], dtype=torch.int32)
    return made


def batch(
    rows: Sequence[Row], group: str | None, task: str, multiple: int, weight: Sequence[float] | None = None
) -> dict[str, Tensor]:
    """The batch of rows of a dataset's `task`, numbered from 100 on."""
    pairs = [(index, *sequence(part, group)) for index, row in enumerate(rows) for part in choices(row, task)]
    made = padded([fine for _, fine, _ in pairs], multiple)
    if group == "coarse":
        coarse = padded([coarse for _, _, coarse in pairs], multiple)
        made |= {f"coarse_{name}": tensor for name, tensor in coarse.items()}
    weights = [1.0] * len(rows) if weight is None else weight
    made["row_weight"] = torch.tensor([weights[index] for index, _, _ in pairs])
    made["number"] = torch.tensor([100 + index for index, _, _ in pairs])
    for name in LABELS:
        if name in rows[0]:
            values: list[Any] = [row[name] for row in rows]
            if name == "is_impossible":
                made[name] = torch.tensor(values)
            elif name == "label_score":
                made[name] = torch.tensor([float("nan") if v is None else v for v in values])
            else:
                made[name] = torch.tensor([-100 if v is None else v for v in values])
    if task == "choice":
        made["choices"] = torch.tensor([index for index, _, _ in pairs])
    return made


def same(found: Mapping[str, Tensor], wanted: Mapping[str, Tensor]) -> None:
    """Names, types and numbers are equal."""
    assert set(found) == set(wanted)
    for name, tensor in wanted.items():
        assert found[name].dtype == tensor.dtype, name
        torch.testing.assert_close(found[name], tensor, rtol=0, atol=0, equal_nan=True, msg=name)
