"""Batches of like lengths: every row once, within the budget, the same for any number of ranks and workers."""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from models.collate.buckets import Buckets
from models.collate.collator import Collator
from models.stream.loader import Loader, StateError
from models.stream.open import open_split
from models.stream.shards import Split
from tests.rows import make_rows, rows_schema, write_folder

COUNT = 103


@settings(deadline=None)
@given(
    lengths=st.lists(st.integers(0, 300), min_size=1, max_size=200),
    tokens=st.integers(1, 2000),
    multiple=st.sampled_from([1, 8, 64]),
    rows=st.sampled_from([None, 1, 7]),
    packed=st.booleans(),
)
def test_every_row_once_and_within_the_budget(
    lengths: list[int], tokens: int, multiple: int, rows: int | None, packed: bool
) -> None:
    grouping = Buckets(tokens, seed=3, multiple=multiple, rows=rows, packed=packed)
    batches = grouping(np.array(lengths), 1, 2)
    assert sorted(index for batch in batches for index in batch.tolist()) == list(range(len(lengths)))
    for batch in batches:
        own = [lengths[index] for index in batch.tolist()]
        width = max(-(-max(own) // multiple), 1) * multiple
        assert len(own) == 1 or (sum(own) if packed else width * len(own)) <= tokens
        assert rows is None or len(own) <= rows
    again = grouping(np.array(lengths), 1, 2)
    assert all(np.array_equal(a, b) for a, b in zip(batches, again, strict=True))


def test_batches_are_full_and_little_of_them_is_padding() -> None:
    lengths = np.random.default_rng(0).integers(4, 513, 5000)
    batches = Buckets(8192)(lengths, 0, 0)
    wide = [int(-(-lengths[batch].max() // 8) * 8) for batch in batches]
    sizes = [len(batch) * width for batch, width in zip(batches, wide, strict=True)]
    assert sorted(sizes)[1] > 8192 * 0.9  # one batch, the last of the window, may be a rest
    assert lengths.sum() / sum(sizes) > 0.97
    assert lengths.sum() / sum(sizes) > 1.5 * lengths.sum() / (len(lengths) * 512)


def test_batches_come_in_another_order_each_epoch_and_window() -> None:
    lengths = np.random.default_rng(0).integers(4, 513, 2000)
    firsts = {
        key: [int(batch[0]) for batch in Buckets(4096, seed=key[0])(lengths, *key[1:])]
        for key in ((0, 0, 0), (0, 1, 0), (0, 0, 1), (1, 0, 0))
    }
    assert len({tuple(order) for order in firsts.values()}) == len(firsts)
    assert len({tuple(sorted(order)) for order in firsts.values()}) == 1
    widths = lengths[firsts[0, 0, 0]]
    assert 0.3 < np.mean(np.diff(widths) > 0) < 0.7  # not from long to short


@pytest.mark.parametrize(
    "chosen, message",
    [
        ({"tokens": 0}, "tokens of buckets"),
        ({"tokens": 8, "seed": -1}, "seed of buckets"),
        ({"tokens": 8, "rows": 0}, "rows of buckets"),
        ({"tokens": 8, "multiple": True}, "multiple of buckets"),
        ({"tokens": 8, "window": 1.5}, "window of buckets"),
    ],
)
def test_settings_that_make_no_sense(chosen: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Buckets(**chosen)


# --- end to end -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def split(tmp_path_factory: pytest.TempPathFactory) -> Split:
    rows = make_rows(0, "classify", (), COUNT)
    folder = tmp_path_factory.mktemp("d")
    schema = rows_schema("classify", ())
    write_folder(folder, schema, {"train": [rows[:40], rows[40:]]}, task="classify", max_batch_rows=7)
    return open_split(str(folder), "train", Collator(None, "classify").columns)


def loader(split: Split, **changes: Any) -> Loader[dict[str, torch.Tensor]]:
    chosen: dict[str, Any] = {"block": 8, "window": 3, "seed": 5, "grouping": Buckets(120, window=30)}
    return Loader(split, collate=Collator(None, "classify"), **(chosen | changes))


def numbers(batch: dict[str, torch.Tensor]) -> list[int]:
    """Rows that count in a batch."""
    return batch["number"][batch["row_weight"] > 0].tolist()


def test_an_epoch_is_every_row_once_within_the_budget(split: Split) -> None:
    stream = loader(split)
    for _ in range(2):
        batches = list(stream)
        assert sorted(n for batch in batches for n in numbers(batch)) == list(range(COUNT))
        assert all(batch["input_ids"].numel() <= 120 or len(batch["input_ids"]) == 1 for batch in batches)


@pytest.mark.filterwarnings("ignore:This DataLoader will create")
@pytest.mark.parametrize("packed", [False, True])
def test_the_same_rows_for_any_ranks_and_workers_and_after_any_stop(split: Split, packed: bool) -> None:
    grouping = Buckets(120, window=30, packed=packed)
    whole = [sorted(numbers(batch)) for batch in loader(split, grouping=grouping)]
    assert sorted(n for batch in whole for n in batch) == list(range(COUNT))
    for ranks in (2, 3):
        shares = [list(loader(split, grouping=grouping, rank=rank, ranks=ranks)) for rank in range(ranks)]
        assert {len(share) for share in shares} == {len(whole)}
        joined = [sorted(n for part in parts for n in numbers(part)) for parts in zip(*shares, strict=True)]
        assert joined == whole
    for stop in (1, 5, len(whole) - 1):
        stream = loader(split, grouping=grouping)
        list(islice(stream, stop))
        state = json.loads(json.dumps(stream.state_dict()))
        ranks, workers = (2, 0) if stop == 1 else (1, 2 if stop == 5 else 0)
        rest = [
            loader(split, grouping=grouping, rank=rank, ranks=ranks, workers=workers) for rank in range(ranks)
        ]
        for one in rest:
            one.load_state_dict(state)
        joined = [
            sorted(n for part in parts for n in numbers(part))
            for parts in zip(*(list(one) for one in rest), strict=True)
        ]
        assert joined == whole[stop:]


@pytest.mark.parametrize(
    "other", [Buckets(64, window=30), Buckets(120, window=31), Buckets(120, window=30, seed=1)]
)
def test_a_state_of_other_buckets_is_refused(split: Split, other: Buckets) -> None:
    stream = loader(split)
    next(iter(stream))
    with pytest.raises(StateError, match="grouping"):
        loader(split, grouping=other).load_state_dict(stream.state_dict())


def test_trees_are_as_long_as_they_are(tmp_path: Path) -> None:
    rows = make_rows(0, "classify", ("tree",), 60)
    write_folder(tmp_path, rows_schema("classify", ("tree",)), {"train": [rows]}, task="classify")
    collator = Collator("tree", "classify")
    split = open_split(str(tmp_path), "train", collator.columns)
    grouping = Buckets(200, column=collator.length_column)
    for batch in Loader(split, grouping=grouping, collate=collator):
        assert batch["input_ids"].numel() <= 200 or len(batch["input_ids"]) == 1
