"""Orders: each row once an epoch, whatever the size; positions one at a time or all at once; near and far."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from models.stream.order import KINDS, Order, permuted


@settings(max_examples=80, deadline=None)
@given(size=st.integers(1, 300) | st.integers(2**16 - 2, 2**18), key=st.integers(0, 2**64 - 1))
@example(size=2**16 + 1, key=0)
@example(size=2**17, key=1)
@example(size=2**17 + 1, key=2**64 - 1)
def test_permutations_are_bijections(size: int, key: int) -> None:
    images = permuted(np.arange(size), size, key)
    assert (
        images.dtype == np.int64 and (np.bincount(images, minlength=size) == 1).all() and len(images) == size
    )


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_permutations_of_sizes_that_no_table_could_hold(data: st.DataObject) -> None:
    """Different places have different images below the size."""
    size = data.draw(st.integers(2**31, 2**60))
    places = np.array(data.draw(st.lists(st.integers(0, size - 1), unique=True, min_size=2)), dtype=np.int64)
    images = permuted(places, size, data.draw(st.integers(0, 2**64 - 1)))
    assert len(set(images.tolist())) == len(places) and images.min() >= 0 and images.max() < size
    assert permuted(places[::-1].copy(), size, 7)[::-1].tolist() == permuted(places, size, 7).tolist()


def orders() -> st.SearchStrategy[Order]:
    return st.builds(
        Order,
        st.sampled_from(KINDS),
        st.integers(1, 2000),
        st.integers(0, 2**63 - 1),
        st.integers(1, 70),
        st.integers(1, 9),
    )


@settings(max_examples=150, deadline=None)
@given(orders(), st.integers(0, 5), st.data())
def test_each_row_once_an_epoch_and_a_position_alone_says_which(
    order: Order, epoch: int, data: st.DataObject
) -> None:
    rows, epochs = order.draw(epoch, np.arange(order.length))
    assert np.array_equal(np.sort(rows), np.arange(order.length)) and set(epochs.tolist()) == {epoch}
    some = np.array(data.draw(st.lists(st.integers(0, order.length - 1), max_size=20)), dtype=np.int64)
    assert order.draw(epoch, some)[0].tolist() == rows[some].tolist()


@pytest.mark.parametrize("kind", ["block", "global"])
def test_epochs_and_seeds_differ(kind: str) -> None:
    drawn = {
        tuple(Order(kind, 500, seed, 20, 3).draw(epoch, np.arange(500))[0].tolist())  # type: ignore[arg-type]
        for seed in range(5)
        for epoch in range(5)
    }
    assert len(drawn) == 25


def test_the_order_of_a_seed_stays() -> None:
    """Numbers written down once: a release that changed them would break every resumed run."""
    places = np.array([0, 1, 2, 99_999])
    assert Order("global", 100_000, 3).draw(1, places)[0].tolist() == GLOBAL
    assert Order("block", 100_000, 3).draw(1, places)[0].tolist() == BLOCK
    assert Order("global", 10, 3).draw(1, np.arange(10))[0].tolist() == SMALL


def test_a_block_order_reads_from_few_places_at_a_time() -> None:
    order = Order("block", 100_000, 1, block=500, window=4)
    rows, _ = order.draw(0, np.arange(100_000))
    for start in range(0, 98_000, 2000):
        window = np.sort(rows[start : start + 2000])
        assert (np.diff(window) > 1).sum() <= 4  # four blocks, of which one may go over the end
    assert (np.abs(np.diff(rows)) == 1).mean() < 0.01  # neighbours part


@pytest.mark.parametrize("size", [4, 97, 100_000])
def test_every_place_goes_everywhere(size: int) -> None:
    """Means and variances of images over keys, against those of the uniform distribution; 5 standard errors."""
    keys = 3000
    places = np.unique([0, 1, size // 2, size - 1])
    images = np.array([permuted(places, size, key * 7919 + 1) for key in range(keys)]) / (size - 1)
    spread = np.sqrt((size + 1) / (12 * (size - 1)))
    assert (np.abs(images.mean(0) - 0.5) < 5 * spread / np.sqrt(keys)).all()
    assert (np.abs(images.std(0) - spread) < 0.05 * spread).all()
    follow = np.corrcoef(images.T) + 1 / (size - 1) * (1 - np.eye(len(places)))  # of a permutation: -1/(n-1)
    assert (np.abs(follow - np.eye(len(places))) < 5 / np.sqrt(keys)).all()


def test_all_permutations_of_four_come_equally_often() -> None:
    counts: dict[tuple[int, ...], int] = {}
    for key in range(4800):
        image = tuple(permuted(np.arange(4), 4, key * 104_729).tolist())
        counts[image] = counts.get(image, 0) + 1
    assert len(counts) == 24
    assert sum((n - 200) ** 2 / 200 for n in counts.values()) < 57.8  # chi-square, 23 degrees, p = 0.0001


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "random"}, "order 'random' is not known; known are sequential, block, global"),
        ({"length": 0}, "length of an order must be a whole number from 1"),
        ({"seed": -1}, "seed of an order must be a whole number from 0"),
        ({"block": 0}, "block of an order"),
        ({"window": 1.5}, "window of an order .* found 1.5"),
    ],
)
def test_bad_settings(change: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Order(**({"kind": "block", "length": 5} | change))  # type: ignore[arg-type]


GLOBAL = [9528, 38316, 5716, 58442]
BLOCK = [71180, 37893, 99909, 78745]
SMALL = [8, 7, 9, 6, 2, 1, 3, 4, 0, 5]
