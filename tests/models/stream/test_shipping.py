"""What one process packs another one unpacks."""

from __future__ import annotations

from itertools import chain

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from models.stream.shipping import Packer, unpack


@pytest.mark.parametrize("strategy", sorted(torch.multiprocessing.get_all_sharing_strategies()))
@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(0, 40), max_size=6))
def test_packing_gives_back_what_it_took(strategy: str, sizes: list[int]) -> None:
    value = [(np.arange(n, dtype=np.int16), torch.arange(n), "x" * n) for n in sizes]
    before = torch.multiprocessing.get_sharing_strategy()
    torch.multiprocessing.set_sharing_strategy(strategy)
    try:
        packer = Packer()
        found = [list(unpack(*packer(part))) for part in (value, value[::-1])]
    finally:
        torch.multiprocessing.set_sharing_strategy(before)
    for (a, b, c), (x, y, z) in zip(value + value[::-1], chain(*found), strict=True):
        assert np.array_equal(a, x) and a.dtype == x.dtype and torch.equal(b, y) and c == z
