"""Packing: no token lost or changed, sequences told apart, both granularities in step; and what cannot be packed."""

from __future__ import annotations

import random
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from corpora.schema import GROUPS
from models.collate.buckets import Buckets
from models.collate.collator import Collator
from models.collate.pack import Packing, first_fit
from models.collate.sequences import Sequences
from models.stream.loader import Loader
from models.stream.open import open_split
from tests.models.collate import literal
from tests.rows import make_rows, rows_schema, write_folder

Batch = dict[str, torch.Tensor]
PER_ROW = ("number", "row_weight", "lm_kind")


def parts(batch: Batch) -> dict[str, list[tuple[Any, ...]]]:
    """Of each granularity the sequences of a batch, as tuples of their columns; sorted."""
    made = {}
    for prefix in ("", "coarse_"):
        if f"{prefix}input_ids" not in batch:
            continue
        names = sorted(
            name
            for name in batch
            if name not in PER_ROW and name.startswith("coarse_") == (prefix == "coarse_") and name != "coarse_index"
            and not name.endswith("sequence_id")
        )  # fmt: skip
        if not prefix and "coarse_index" in batch:
            names.append("coarse_index")
        ids = batch[f"{prefix}sequence_id"]
        found = []
        for b in range(len(ids)):
            for number in range(1, int(ids[b].max()) + 1):
                here = ids[b] == number
                found.append(tuple(tuple(batch[name][b][here].tolist()) for name in names))
        made[prefix] = sorted(found)
    return made


class Kinds:
    """A step: kinds of language model, by the row's number."""

    columns = ()

    def __call__(self, sequences: Sequences) -> Sequences:
        kinds = sequences.rows.number[sequences.row] % 3
        return Sequences(
            sequences.rows,
            sequences.row,
            sequences.fine,
            sequences.coarse,
            sequences.scalars | {"lm_kind": kinds},
        )


@pytest.mark.parametrize("group", [None, "tree", "syntax", "coarse"])
@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    count=st.integers(1, 9),
    length=st.integers(1, 80),
    coarse_length=st.one_of(st.none(), st.integers(1, 40)),
)
def test_no_token_is_lost_or_changed(
    group: str | None, seed: int, count: int, length: int, coarse_length: int | None
) -> None:
    rows, rng = make_rows(seed, "tag", GROUPS, count), random.Random(seed)
    weight = [float(rng.random() < 0.8) for _ in rows]
    kept = [row for row, counts in zip(rows, weight, strict=True) if counts] or rows[:1]
    packing = Packing(length, coarse_length)
    packed = Collator(group, "tag", pack=packing)(literal.as_rows(rows, "tag", GROUPS, weight))
    alone = Collator(group, "tag")(literal.as_rows(kept, "tag", GROUPS))
    assert packed["row_weight"].tolist() == [float(any(weight))] * len(packed["row_weight"])
    if group == "coarse":  # as it stands in its own row
        first = starts(packed, "coarse_")
        for b, ids in enumerate(packed["sequence_id"].tolist()):
            for t, number in enumerate(ids):
                if number:
                    packed["coarse_index"][b, t] -= first[b, number]
    assert parts(packed) == parts(alone)
    for name, most in (("", length), ("coarse_", coarse_length or length)):
        if f"{name}sequence_id" in packed:
            ids = packed[f"{name}sequence_id"]
            assert (((ids > 0).sum(1) <= most) | (ids.max(1).values == 1)).all()  # a long row stays alone
            for own in ids.tolist():
                used = [number for number in own if number]
                assert own == used + [0] * (len(own) - len(used)) and used == sorted(used)
    if group == "coarse":
        assert torch.equal(packed["sequence_id"].max(1).values, packed["coarse_sequence_id"].max(1).values)


def starts(batch: Batch, prefix: str) -> dict[tuple[int, int], int]:
    """The place where sequence `number` of row b begins."""
    return {
        (b, number): own.index(number)
        for b, own in enumerate(batch[f"{prefix}sequence_id"].tolist())
        for number in set(own)
    }


def test_coarse_tokens_stay_those_that_cover() -> None:
    rows = make_rows(3, "tag", GROUPS, 12)
    packed = Collator("coarse", "tag", pack=Packing(64))(literal.as_rows(rows, "tag", GROUPS))
    assert int(packed["sequence_id"].max()) > 2
    real = packed["sequence_id"] > 0
    over = packed["coarse_sequence_id"].gather(1, packed["coarse_index"].long())
    assert torch.equal(over[real], packed["sequence_id"][real])


def test_positions_begin_anew_and_numbers_are_of_first_rows() -> None:
    rows = make_rows(3, "tag", GROUPS, 12)
    packed = Collator(None, "tag", pack=Packing(64))(literal.as_rows(rows, "tag", GROUPS))
    for ids, sequence, position, number in zip(
        *(packed[name].tolist() for name in ("input_ids", "sequence_id", "position_ids", "number")),
        strict=True,
    ):
        for one in range(1, max(sequence) + 1):
            here = [t for t, own in enumerate(sequence) if own == one]
            assert [position[t] for t in here] == list(range(len(here)))
        assert rows[number - 100]["input_ids"] == [
            i for i, own in zip(ids, sequence, strict=True) if own == 1
        ]


def test_kinds_are_not_mixed() -> None:
    rows = make_rows(3, "tag", GROUPS, 12)
    collator = Collator(None, "tag", steps=(Kinds(),), pack=Packing(64))
    packed = collator(literal.as_rows(rows, "tag", GROUPS))
    of = {tuple(row["input_ids"]): (100 + number) % 3 for number, row in enumerate(rows)}
    seen = 0
    for ids, sequence, kind in zip(
        packed["input_ids"], packed["sequence_id"], packed["lm_kind"], strict=True
    ):
        for one in range(1, int(sequence.max()) + 1):
            assert of[tuple(ids[sequence == one].tolist())] == kind
            seen += 1
    assert seen == len(rows) and len(packed["input_ids"]) < len(rows)


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(0, 20), st.integers(0, 1)), max_size=40),
    st.tuples(st.integers(1, 40), st.integers(1, 30)),
)
def test_each_goes_into_the_first_where_it_fits(
    sizes: list[tuple[int, int, int]], rooms: tuple[int, int]
) -> None:
    fine, coarse, kinds = (np.array([size[k] for size in sizes], np.int64) for k in range(3))
    into = first_fit(fine, coarse, kinds, rooms).tolist()
    placed: list[list[tuple[int, int, int]]] = []
    for size, place in zip(sizes, into, strict=True):
        fits = [
            kind == size[2]
            and sum(s[0] for s in there) + size[0] <= rooms[0]
            and sum(s[1] for s in there) + size[1] <= rooms[1]
            for there in placed
            for kind in {there[0][2]}
        ]
        assert place == (fits.index(True) if any(fits) else len(placed))
        if place == len(placed):
            placed.append([])
        placed[place].append(size)


@pytest.mark.parametrize("task", ["classify", "regress", "span", "choice", "pretrain", "nsp"])
def test_what_reads_one_sequence_a_row_cannot_be_packed(task: str) -> None:
    with pytest.raises(ValueError, match=f"task '{task}' reads one sequence a row: do not pack"):
        Collator(None, task, pack=Packing(64))


def test_numbers_of_whole_rows_cannot_be_packed() -> None:
    rows = literal.as_rows(make_rows(1, "classify", GROUPS, 4), "classify", GROUPS)
    with pytest.raises(ValueError, match="'label' is of a whole row"):
        Collator(None, "mlm", pack=Packing(64))(rows)


@pytest.mark.parametrize("chosen", [(0,), (8, 0), (True,), (1.5,)])
def test_lengths_that_make_no_sense(chosen: tuple[Any, ...]) -> None:
    with pytest.raises(ValueError, match=r"length of packed sequences must be"):
        Packing(*chosen)


def test_c07_a_packed_stream_that_is_resumed_repeats_and_loses_nothing(tmp_path: Path) -> None:
    rows = make_rows(0, "tag", (), 60)
    write_folder(tmp_path, rows_schema("tag", ()), {"train": [rows]}, task="tag", max_batch_rows=7)
    collator = Collator(None, "tag", pack=Packing(40))

    def stream() -> Loader[Batch]:
        split = open_split(str(tmp_path), "train", collator.columns)
        return Loader(split, seed=1, collate=collator, grouping=Buckets(120, window=25, packed=True))

    whole = list(stream())
    assert sum(int((batch["sequence_id"] > 0).sum()) for batch in whole) == sum(
        len(r["input_ids"]) for r in rows
    )
    first, again = stream(), stream()
    before = list(islice(first, 3))
    again.load_state_dict(first.state_dict())
    resumed = before + list(again)
    assert len(resumed) == len(whole)
    for found, wanted in zip(resumed, whole, strict=True):
        literal.same(found, wanted)
