from __future__ import annotations

import itertools
import sys
import unicodedata

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.dedup.folding import code_points, fold
from pipelines.ragged import bounds
from tests.pipelines.dedup import slow

TEXTS = st.lists(
    st.text(
        st.characters(exclude_categories=["Cs"]) | st.sampled_from("é…ﬁ½ß ,。\u3000\u00b4Ａ가"), max_size=12
    )
)


def folded(*texts: str) -> list[str]:
    result = fold(code_points("".join(texts)), bounds([len(t) for t in texts]))
    whole = result.codes.tobytes().decode("utf-32-le")
    return [whole[a:b] for a, b in zip(result.offsets[:-1], result.offsets[1:], strict=True)]


@pytest.mark.parametrize(
    ("text", "same_as"),
    [
        ("Ｈｅｌｌｏ， Ｗｏｒｌｄ！", "hello world"),
        ("Straße", "STRASSE"),
        ("e\u0301", "é"),
        ("ﬁve\u200b\ufeff", "five"),
        ("“好”。", "好"),
        ("①", "1"),
    ],
)
def test_form_is_taken_away(text: str, same_as: str) -> None:
    assert folded(text) == folded(same_as) != [""]


@pytest.mark.parametrize("text", ["", " \t\u3000", "...!?", "——、。", "\x00\x01\u200d"])
def test_nothing_is_left_of_white_space_and_punctuation(text: str) -> None:
    assert folded("a", text, "b") == ["a", "", "b"]


def test_symbols_marks_and_digits_stay() -> None:
    assert folded("C++ $5", "C $5", "é", "e") == ["c++$5", "c$5", "e\u0301", "e"]


@settings(deadline=None)  # the first text pays for the table
@given(TEXTS)
def test_a_batch_folds_as_characters_do(texts: list[str]) -> None:
    assert folded(*texts) == [slow.fold(text) for text in texts]


@given(TEXTS)
def test_breaks_stand_where_white_space_stood(texts: list[str]) -> None:
    result = fold(code_points("".join(texts)), bounds([len(t) for t in texts]))
    starts = {0} | set(result.offsets.tolist()) | set(result.breaks.tolist())
    edges = sorted(starts | {len(result.codes)})
    whole = result.codes.tobytes().decode("utf-32-le")
    found = [whole[a:b] for a, b in itertools.pairwise(edges)]
    assert found == [word for text in texts for word in slow.words(text)]


def test_every_code_point() -> None:
    """Each alone, so that no expansion or category is missed."""
    chars = [chr(c) for c in range(0, sys.maxunicode + 1, 7) if not 0xD800 <= c < 0xE000]
    assert folded(*chars) == [slow.fold(c) for c in chars]
    named = [c for c in map(chr, range(0xE0000, 0xE0200)) if unicodedata.category(c) == "Cf"]
    assert named
    assert folded(*named) == [""] * len(named)


def test_offsets_of_nothing() -> None:
    result = fold(code_points(""), np.zeros(1, np.int64))
    assert (len(result.codes), result.offsets.tolist(), result.breaks.tolist()) == (0, [0], [])
