"""Control characters are found in columns, also in slices of them."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from kg.read.tables import with_control
from tests.kg.read.reading import has_control

texts = st.lists(st.text("a\x00\x1f \n\x7f\x80\x85\x9f\xa0\u0a80甲", max_size=4), max_size=8)


@settings(max_examples=200, deadline=None)
@given(texts=texts, start=st.integers(0, 4), length=st.integers(0, 8))
def test_columns_equal_a_loop(texts: list[str], start: int, length: int) -> None:
    column = pa.array(texts, pa.large_string())[start : start + length]
    assert with_control(column).tolist() == [has_control(text) for text in column.to_pylist()]
