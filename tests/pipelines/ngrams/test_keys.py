"""Keys of one and more columns, against tuples."""

from __future__ import annotations

from bisect import bisect_right

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.ngrams.keys import Packing, argsort, find, locate

ORDER = 5
GRAMS = st.lists(st.tuples(*[st.integers(0, 2)] * ORDER), max_size=40)


@pytest.mark.parametrize("bits", [2, 16, 30])  # one column, two, three
@settings(deadline=None, max_examples=60)
@given(known=GRAMS, wanted=GRAMS)
def test_keys_sort_and_are_found_as_tuples(bits, known, wanted):
    packing = Packing(bits)

    def pack(grams):
        return packing.pack([np.array([gram[i] for gram in grams], np.int64) for i in range(ORDER)])

    order = argsort(pack(known))
    assert sorted(order.tolist()) == list(range(len(known)))
    assert [known[row] for row in order] == sorted(known)
    different = sorted(set(known))
    rows = locate(pack(different), pack(wanted)).tolist()
    assert rows == [bisect_right(different, gram) - 1 for gram in wanted]
    places = find(pack(different), pack(wanted)).tolist()
    assert places == [different.index(gram) if gram in different else -1 for gram in wanted]
