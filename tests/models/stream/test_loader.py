"""The same rows in the same order for any number of ranks and workers, and again after any stop."""

from __future__ import annotations

import gc
import json
import multiprocessing
import os
import random
import signal
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import get_worker_info

from corpora.ragged import Ints
from models.stream.loader import Loader, StateError, WorkerError
from models.stream.mixture import Mixture
from models.stream.open import join_splits, open_split
from models.stream.order import KINDS, Order
from models.stream.rows import Rows
from models.stream.shards import Split
from tests.models.stream.test_shards import back
from tests.rows import make_rows, rows_schema, write_folder

COUNT = 103
SETTINGS: dict[str, Any] = {"block": 8, "window": 3, "seed": 5}
pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")
Batch = tuple[list[int], list[float], list[int]]


@pytest.fixture(scope="module")
def split(tmp_path_factory: pytest.TempPathFactory) -> Split:
    return make_split(tmp_path_factory.mktemp("d"), COUNT)


def make_split(folder: Path, count: int, seed: int = 0) -> Split:
    rows = make_rows(seed, "classify", (), count)
    cut = count // 3
    schema = rows_schema("classify", ())
    write_folder(folder, schema, {"train": [rows[:cut], rows[cut:]]}, task="classify", max_batch_rows=7)
    return open_split(str(folder), "train", ("input_ids", "token_type_ids", "label"))


@dataclass(frozen=True)
class ByLength:
    """A grouping for the tests: batches of at most 40 tokens, by length."""

    window: int = 30
    column: str = "input_ids"
    identity: Any = 40

    def __call__(self, lengths: Ints, epoch: int, window: int) -> Sequence[Ints]:
        batches: list[list[int]] = [[]]
        for index in np.argsort(lengths, kind="stable").tolist():
            if batches[-1] and (len(batches[-1]) + 1) * lengths[index] > 40:
                batches.append([])
            batches[-1].append(index)
        return [np.array(batch) for batch in batches]


def seen(rows: Rows) -> Batch:
    return rows.number.tolist(), rows.weight.tolist(), rows.epoch.tolist()


def endless(loader: Loader[Rows]) -> Iterator[Batch]:
    while True:
        for rows in loader:
            yield seen(rows)


def over_ranks(split: Split, ranks: int, workers: int, epochs: int, **settings: Any) -> list[Batch]:
    """Batches over all ranks, put together again."""
    made: list[Batch] = []
    loaders = [
        Loader(split, rank=r, ranks=ranks, workers=workers, **SETTINGS | settings) for r in range(ranks)
    ]
    for _ in range(epochs):
        counts = {len(loader) for loader in loaders}
        assert len(counts) == 1  # no rank waits for another
        parts = [[seen(rows) for rows in loader] for loader in loaders]
        for shares in zip(*parts, strict=True):
            batch: Batch = tuple([None] * sum(len(s[0]) for s in shares) for _ in range(3))  # type: ignore[assignment]
            for rank, share in enumerate(shares):
                for whole, part in zip(batch, share, strict=True):
                    whole[rank::ranks] = part  # type: ignore[index, assignment]
            made.append(batch)
        assert counts == {len(parts[0])}
    return made


def real(batches: Sequence[Batch]) -> list[int]:
    return [
        number
        for numbers, weights, _ in batches
        for number, weight in zip(numbers, weights, strict=True)
        if weight
    ]


@pytest.mark.parametrize("ends", ["pad", "drop"])
@pytest.mark.parametrize("order", KINDS)
def test_ranks_and_workers_do_not_change_the_order(split: Split, order: str, ends: str) -> None:
    alone = over_ranks(split, 1, 0, 2, batch_size=8, order=order, ends=ends)
    numbers = real(alone)
    if ends == "pad":
        expected = np.concatenate([Order(order, COUNT, 5, 8, 3).draw(e, np.arange(COUNT))[0] for e in (0, 1)])  # type: ignore[arg-type]
        assert numbers == expected.tolist()
        assert [len(batch[0]) for batch in alone] == [8] * 26
    else:
        assert len(set(numbers[:96])) == len(set(numbers[96:])) == 96 and len(numbers) == 192
    for ranks in (1, 2, 4):
        assert over_ranks(split, ranks, 0, 2, batch_size=8, order=order, ends=ends) == alone


def test_workers_do_not_change_the_order(split: Split) -> None:
    alone = over_ranks(split, 1, 0, 2, batch_size=8)
    for ranks in (1, 2, 4):
        for workers in (1, 2, 3):
            assert over_ranks(split, ranks, workers, 2, batch_size=8) == alone


@pytest.mark.heavy
@pytest.mark.parametrize("settings_", [{"order": order} for order in KINDS] + [{"grouping": ByLength()}])
def test_every_number_of_ranks_and_workers_and_resume_among_them(
    split: Split, settings_: dict[str, Any]
) -> None:
    """Two epochs at all of {1, 2, 4} ranks and 0 to 3 workers; resumed twice at 50 places, each time at others."""
    here = {"batch_size": 8, **settings_}
    alone = over_ranks(split, 1, 0, 2, **here)
    for ranks in (1, 2, 4):
        for workers in (0, 1, 2, 3):
            there = over_ranks(split, ranks, workers, 2, **here)
            if "grouping" in settings_:  # filled up for the ranks
                assert real(there) == real(alone)
            else:
                assert there == alone
    rng = random.Random(7)
    whole = real(over_ranks(split, 1, 0, 4, **here))
    for _ in range(50):
        state, done = None, 0
        for _ in range(3):
            ranks, workers, steps = rng.choice([1, 2, 4]), rng.randint(0, 3), rng.randint(1, 17)
            loaders = [
                Loader(split, rank=r, ranks=ranks, workers=workers, **SETTINGS | here) for r in range(ranks)
            ]
            if state is not None:
                for loader in loaders:
                    loader.load_state_dict(state)
            for shares in zip(*(islice(endless(loader), steps) for loader in loaders), strict=True):
                got = real(shares)
                assert sorted(got) == sorted(whole[done : done + len(got)])
                done += len(got)
            states = {json.dumps(loader.state_dict()) for loader in loaders}
            assert len(states) == 1
            state = json.loads(states.pop())


def test_workers_with_a_grouping_and_content(split: Split) -> None:
    for settings_ in ({"batch_size": 8}, {"grouping": ByLength()}):
        plain = [back(rows) for rows in Loader(split, **SETTINGS | settings_)]
        shipped = list(Loader(split, workers=2, **SETTINGS | settings_))
        assert [back(rows) for rows in shipped] == plain
        assert all(r.lists["input_ids"][1] is r.lists["token_type_ids"][1] for r in shipped)


def test_a_grouping_has_every_row_once_whatever_the_ranks(split: Split) -> None:
    alone = over_ranks(split, 1, 0, 2, grouping=ByLength())
    assert sorted(real(alone)[:COUNT]) == sorted(real(alone)[COUNT:]) == list(range(COUNT))
    for ranks in (2, 4):
        there = over_ranks(split, ranks, 0, 2, grouping=ByLength())
        assert real(there) == real(alone) and all(len(batch[0]) % ranks == 0 for batch in there)


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_resume_twice_anywhere_at_other_ranks_and_sizes(split: Split, data: st.DataObject) -> None:
    order = data.draw(st.sampled_from(KINDS))
    whole = real(over_ranks(split, 1, 0, 10, batch_size=8, order=order))
    state, done = None, 0
    for _ in range(3):
        ranks = data.draw(st.sampled_from([1, 2, 4]))
        size = data.draw(st.sampled_from([4, 8, 20]))
        loaders = [Loader(split, size, order=order, rank=r, ranks=ranks, **SETTINGS) for r in range(ranks)]
        for loader in loaders:
            if state is not None:
                loader.load_state_dict(state)
        steps = data.draw(st.integers(0, 15))
        streams = [islice(endless(loader), steps) for loader in loaders]
        for shares in zip(*streams, strict=True):
            got = set(real(shares))
            assert got == set(whole[done : done + len(got)])
            done += len(got)
        states = [json.dumps(loader.state_dict()) for loader in loaders]
        assert len(set(states)) == 1
        state = json.loads(states[0])


@pytest.mark.parametrize("grouping", [None, ByLength()])
def test_resume_at_fifty_places_with_other_workers(split: Split, grouping: ByLength | None) -> None:
    """Twice each; every tenth of them with worker processes."""
    rng = random.Random(3)
    whole = list(islice(endless(Loader(split, 8, grouping=grouping, **SETTINGS)), 80))
    for number in range(50):
        first = Loader(split, 8, grouping=grouping, **SETTINGS)
        at = rng.randint(0, 40)
        assert list(islice(endless(first), at)) == whole[:at]
        second = Loader(
            split, 8, grouping=grouping, workers=0 if number % 10 else rng.randint(1, 3), **SETTINGS
        )
        second.load_state_dict(json.loads(json.dumps(first.state_dict())))
        more = rng.randint(1, 20)
        assert list(islice(endless(second), more)) == whole[at : at + more]
        third = Loader(split, 8, grouping=grouping, **SETTINGS)
        third.load_state_dict(second.state_dict())
        assert list(islice(endless(third), 10)) == whole[at + more : at + more + 10]


def test_a_loop_left_early_goes_on_where_it_was(split: Split) -> None:
    whole = list(islice(endless(Loader(split, 8, **SETTINGS)), 30))
    for workers in (0, 2):
        loader, got = Loader(split, 8, workers=workers, **SETTINGS), []
        for part in (3, 1, 9, 6):
            got += [seen(rows) for rows in islice(loader, part)]
            assert loader.epoch == len(got) // 13
        assert got == whole[: len(got)]


class Stumbling:
    """A collator that raises once, where it meets row `at`."""

    def __init__(self, error: BaseException, at: int) -> None:
        self.error, self.at = error, at

    def __call__(self, rows: Rows) -> Rows:
        if rows.number[0] == self.at:
            raise self.error
        return rows


@pytest.mark.parametrize(
    ("error", "workers"),
    [
        (ValueError("no"), 0),
        (ValueError("no"), 2),
        (FileNotFoundError("no"), 2),
        (RuntimeError("no"), 2),
        (StopIteration(), 0),
        (KeyboardInterrupt(), 0),
    ],
    ids=repr,
)
def test_after_an_error_the_next_loop_goes_on_after_the_batch_last_given(
    split: Split, error: BaseException, workers: int
) -> None:
    whole = [seen(rows) for rows in Loader(split, 1, order="sequential")]
    stumbling = Stumbling(error, 70)
    loader, got = Loader(split, 1, order="sequential", collate=stumbling, workers=workers), []
    with pytest.raises((type(error), RuntimeError)):
        got.extend(seen(rows) for rows in loader)
    state = loader.state_dict()
    assert 0 < state["position"] == len(got) <= 70
    stumbling.at = -1
    got += [seen(rows) for rows in loader]
    assert got == whole
    again = Loader(split, 1, order="sequential")
    again.load_state_dict(state)
    assert [seen(rows) for rows in again] == whole[state["position"] :]


def killed(rows: Rows) -> Rows:
    if get_worker_info() is not None and rows.number[0] == 70:
        os.kill(os.getpid(), signal.SIGKILL)
    return rows


def test_a_killed_worker_is_told_with_its_cure(split: Split) -> None:
    loader, got = Loader(split, 1, order="sequential", collate=killed, workers=2), []
    with pytest.raises(WorkerError, match=r"was killed or crashed .* fewer workers, or none.* state is good"):
        got.extend(seen(rows) for rows in loader)
    here = Loader(split, 1, order="sequential", collate=killed)
    here.load_state_dict(loader.state_dict())
    assert got + [seen(rows) for rows in here] == [
        seen(rows) for rows in Loader(split, 1, order="sequential")
    ]


def test_uneven_ends_over_two_ranks_neither_hang_nor_lose(tmp_path: Path) -> None:
    five = make_split(tmp_path, 5)
    padded = over_ranks(five, 2, 0, 1, batch_size=2, order="sequential")
    assert [batch[0] for batch in padded] == [[0, 1], [2, 3], [4, 4]]
    assert [batch[1] for batch in padded] == [[1, 1], [1, 1], [1, 0]]
    assert [
        batch[0] for batch in over_ranks(five, 2, 0, 1, batch_size=2, order="sequential", ends="drop")
    ] == [
        [0, 1],
        [2, 3],
    ]
    assert "5 rows an epoch" in Loader(five, 2).describe()
    assert Loader(five, 2).describe().endswith("3 batches of 2, 1 row added with weight 0 to fill the last")
    assert (
        Loader(five, 2, ranks=2, ends="drop")
        .describe()
        .endswith("2 batches of 2 over 2 ranks, 1 row left out")
    )
    grouped = Loader(five, grouping=ByLength()).describe()
    assert grouped.endswith("in batches of like lengths")
    assert Loader(five, ranks=2, grouping=ByLength()).describe() == (
        f"{grouped}, filled up with rows of weight 0 for 2 ranks"
    )


def test_a_split_smaller_than_a_batch(tmp_path: Path) -> None:
    five = make_split(tmp_path, 5)
    (only,) = Loader(five, 64)
    assert (len(only), only.weight.sum()) == (64, 5)
    assert Loader(five, 64).describe().endswith("1 batch of 64, 59 rows added with weight 0 to fill the last")
    assert Loader(make_split(tmp_path / "one", 1), 1).describe().startswith("1 row an epoch of ")
    with pytest.raises(
        ValueError, match="5 rows is less than one batch of 64, and ends 'drop' would leave nothing"
    ):
        Loader(five, 64, ends="drop")


def test_ten_rows_in_batches_of_four(tmp_path: Path) -> None:
    ten = make_split(tmp_path, 10)
    for workers in (0, 3):
        assert [int(b.weight.sum()) for b in Loader(ten, 4, workers=workers)] == [4, 4, 2]
        assert [int(b.weight.sum()) for b in Loader(ten, 4, workers=workers, ends="drop")] == [4, 4]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seed": 6}, "seed is 5, here it is 6"),
        ({"order": "global"}, "order is 'block', here it is 'global'"),
        ({"block": 9}, "block is 8, here it is 9"),
        ({"grouping": ByLength()}, "grouping is None"),
    ],
)
def test_a_state_of_another_stream_is_refused(split: Split, change: dict[str, Any], message: str) -> None:
    state = Loader(split, 8, **SETTINGS).state_dict()
    with pytest.raises(StateError, match=message):
        Loader(split, 8, **SETTINGS | change).load_state_dict(state)


def test_states_that_are_none(split: Split, tmp_path: Path) -> None:
    loader = Loader(split, 8, **SETTINGS)
    state = loader.state_dict()
    for bad, message in (
        ({}, "version None"),
        (None, "version None"),
        (state | {"stream": 5}, "`stream` is int, expected a mapping"),
        (state | {"stream": None}, "`stream` is NoneType"),
        (state | {"epoch": 2**63}, "no batch of this stream of 103 rows an epoch begins"),
        (state | {"epoch": 2**62}, "no batch of this stream"),
        (state | {"version": 99}, "version 99"),
        (state | {"position": 104}, "no batch of this stream"),
        (state | {"batch": 1}, "no batch of this stream"),
        (state | {"epoch": -1}, "whole numbers"),
        (state | {"position": "7"}, "whole numbers"),
    ):
        with pytest.raises(StateError, match=message):
            loader.load_state_dict(bad)
    assert loader.state_dict() == state
    with pytest.raises(StateError, match=r"data is '103-\w+', here it is '5-\w+'"):
        Loader(make_split(tmp_path, 5), 8, **SETTINGS).load_state_dict(state)


def test_states_of_a_grouping_stand_at_its_batches(split: Split) -> None:
    loader = Loader(split, 8, grouping=ByLength(), **SETTINGS)
    whole = list(islice(endless(loader), len(loader)))
    state = Loader(split, 8, grouping=ByLength(), **SETTINGS).state_dict()
    for change in ({"batch": 99}, {"position": 31}, {"position": 103}, {"position": 90, "batch": 50}):
        with pytest.raises(StateError, match="no batch of this stream of 103 rows an epoch begins"):
            loader.load_state_dict(state | change)
    loader.load_state_dict(state | {"position": 30, "batch": 1})
    rest = list(islice(endless(loader), len(loader)))
    assert rest == whole[-len(rest) :]


@dataclass(frozen=True)
class Losing(ByLength):
    """A grouping that forgets some rows, or all."""

    kept: int = 0

    def __call__(self, lengths: Ints, epoch: int, window: int) -> Sequence[Ints]:
        return [np.arange(self.kept)] if self.kept else []


@pytest.mark.parametrize("kept", [0, 7])
def test_a_grouping_that_loses_rows_is_told(split: Split, kept: int) -> None:
    with pytest.raises(ValueError, match=f"every row of a window once, 30 rows: found {kept}"):
        next(iter(Loader(split, 8, grouping=Losing(kept=kept))))


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"batch_size": 9, "ranks": 2}, "multiple of ranks, found 9 rows for 2 ranks"),
        ({"batch_size": 0}, "batch_size must be a whole number from 1 to .*, found 0"),
        ({"batch_size": "4"}, "batch_size must be a whole number from 1 to .*, found '4'"),
        ({"batch_size": None}, "batch_size must be .* found None"),
        ({"batch_size": True}, "batch_size must be .* found True"),
        ({"batch_size": 8.0}, "batch_size must be .* found 8.0"),
        ({"rank": 2, "ranks": 2, "batch_size": 4}, "rank must be a whole number from 0 to 1, found 2"),
        ({"rank": -1}, "rank must be a whole number from 0 to 0, found -1"),
        ({"ranks": 0}, "ranks must be a whole number from 1 to .*, found 0"),
        ({"workers": -1}, "workers must be a whole number from 0 to .*, found -1"),
        ({"workers": "2"}, "workers must be .* found '2'"),
        ({"order": Order("block", COUNT + 1)}, "the order is of 104 rows, .* has 103"),
        ({"order": Order("block", COUNT - 1)}, "the order is of 102 rows, .* has 103"),
        ({"order": Mixture([Order("block", 9)] * 2, [1, 1], COUNT)}, "the order is of 18 rows, .* has 103"),
        ({"order": "shuffled"}, "order 'shuffled' is not known"),
        ({"ends": "cut"}, "ends 'cut' is not known"),
        ({"grouping": ByLength(), "ends": "drop"}, "have no uneven end to drop"),
    ],
)
def test_bad_settings(split: Split, bad: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Loader(split, **bad)


def failing(rows: Rows) -> Rows:
    raise ValueError("no rows like these")


def test_what_fails_in_a_worker_is_told(split: Split) -> None:
    with pytest.raises(ValueError, match="no rows like these"):
        next(iter(Loader(split, 8, workers=2, collate=failing)))


@pytest.mark.parametrize(("collate", "error"), [(failing, ValueError), (killed, WorkerError)])
def test_workers_end_with_the_error_of_one(split: Split, collate: Any, error: type[Exception]) -> None:
    """Without the garbage collector, which would wait for them 5 seconds each, whenever it comes."""
    before = set(multiprocessing.active_children())
    gc.disable()
    try:
        with pytest.raises(error):
            for _ in Loader(split, 1, order="sequential", workers=2, collate=collate):
                pass
        assert set(multiprocessing.active_children()) <= before
    finally:
        gc.enable()


def padded(rows: Rows) -> dict[str, Any]:
    values, offsets = rows.lists["input_ids"]
    parts = [torch.from_numpy(part.copy()) for part in np.split(values, offsets[1:-1])]
    return {
        "input_ids": torch.nn.utils.rnn.pad_sequence(parts, batch_first=True),
        "half": torch.ones(3, dtype=torch.bfloat16),
        "names": ["a", None],
        "empty": torch.zeros(0, 4),
    }


def test_batches_of_workers_are_those_made_here(split: Split) -> None:
    here = list(Loader(split, 8, collate=padded))
    there = list(Loader(split, 8, collate=padded, workers=2))
    assert len(here) == len(there) == 13
    for one, other in zip(here, there, strict=True):
        assert one.keys() == other.keys() and one["names"] == other["names"]
        for name in ("input_ids", "half", "empty"):
            assert one[name].dtype == other[name].dtype and torch.equal(one[name], other[name])
    there[0]["input_ids"][0, 0] = 7  # batches are there to be written to


# --- mixtures ---------------------------------------------------------------------------------


def test_mixtures_draw_by_weight_and_each_split_row_by_row(tmp_path: Path) -> None:
    splits = [make_split(tmp_path / "a", 40, 1), make_split(tmp_path / "b", 7, 2)]
    mixture = Mixture([Order("global", s.rows, 1) for s in splits], [3, 1], length=60)
    joined = join_splits(splits)
    loader = Loader(joined, 4, order=mixture)
    batches = list(islice(endless(loader), 45))
    numbers, epochs = (np.concatenate([batch[part] for batch in batches]) for part in (0, 2))
    for at in range(0, 180, 4):
        assert abs((numbers[: at + 4] >= 40).sum() - (at + 4) / 4) <= 1  # never far from its share
    for low, count in ((0, 40), (40, 7)):
        mine = (numbers >= low) & (numbers < low + count)
        drawn, own = numbers[mine], epochs[mine]
        assert own.tolist() == (np.arange(len(drawn)) // count).tolist()
        for start in range(0, len(drawn) - count + 1, count):
            assert sorted(drawn[start : start + count].tolist()) == list(range(low, low + count))
    again = Loader(joined, 4, order=mixture, workers=2)
    again.load_state_dict(_after(Loader(joined, 4, order=mixture), 20))
    assert list(islice(endless(again), 25)) == batches[20:]


def _after(loader: Loader[Rows], steps: int) -> dict[str, Any]:
    for _ in islice(endless(loader), steps):
        pass
    return loader.state_dict()


@settings(max_examples=20, deadline=None)
@given(st.lists(st.floats(0.1, 100), min_size=1, max_size=6), st.data())
def test_a_position_alone_says_what_a_mixture_draws(weights: list[float], data: st.DataObject) -> None:
    orders = [Order("block", data.draw(st.integers(500, 900)), seed, 40, 2) for seed in range(len(weights))]
    mixture = Mixture(orders, weights, length=20_000)
    rows, epochs = mixture.draw(2, np.arange(20_000))
    some = data.draw(st.lists(st.integers(0, 19_999), max_size=10))
    alone = [mixture.draw(2, np.array([place])) for place in some]
    assert [(int(r[0]), int(e[0])) for r, e in alone] == [(int(rows[p]), int(epochs[p])) for p in some]
    bounds = np.cumsum([0, *(order.length for order in orders)])
    shares = np.diff(np.searchsorted(np.sort(rows), bounds)) / 20_000
    assert np.abs(shares - np.array(weights) / sum(weights)).max() <= 1e-4


@pytest.mark.parametrize(
    ("count", "weights", "message"),
    [
        (2, [1], "2 splits, 1 weights"),
        (0, [], "0 splits"),
        (2, [1, 0], "numbers above 0, found 0"),
        (2, [1, float("nan")], "numbers above 0, found nan"),
        (2, [1, 1e-9], "less than one row in 10,000"),
    ],
)
def test_bad_mixtures(count: int, weights: list[float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Mixture([Order("block", 5)] * count, weights)


@pytest.mark.parametrize("length", [0, 1.5, True, "7", 2**63])
def test_lengths_that_no_mixture_can_have(length: Any) -> None:
    with pytest.raises(ValueError, match="length of a mixture must be a whole number from 1"):
        Mixture([Order("block", 5)], [1], length)


@pytest.mark.parametrize("scale", [1e308, 5e-324, 1])
def test_weights_of_a_mixture_are_of_any_size(scale: float) -> None:
    mixture = Mixture([Order("sequential", 5)] * 2, [scale, scale], 10)
    assert (mixture.draw(0, np.arange(10))[0] < 5).sum() == 5


@pytest.mark.parametrize("grouping", [None, ByLength()])
def test_rows_that_are_large_are_read_a_few_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, grouping: ByLength | None
) -> None:
    """So memory is bounded by bytes, not by rows of any length; and the batches are those of small rows."""
    large = make_split(tmp_path, COUNT)
    assert large.row_bytes > 20
    settings: dict[str, Any] = {"batch_size": 2, "grouping": grouping, **SETTINGS}
    expected = list(map(seen, Loader(large, **settings)))
    asked, take = [], large.take
    monkeypatch.setattr(large, "take", lambda rows, *more: asked.append(len(rows)) or take(rows, *more))
    large.row_bytes = 1 << 22  # 4 MiB: 4 rows are 16 MiB
    batches = Loader(large, **settings)
    assert list(map(seen, batches)) == expected
    most = max(len(numbers) for numbers, *_ in expected)
    assert max(asked) <= 4 * (4 + most - 1)
