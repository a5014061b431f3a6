from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpora.graphemes import ZWJ, cluster_stop, inside_cluster, joins


def clusters(text: str) -> list[str]:
    cuts = [i for i in range(len(text) + 1) if not inside_cluster(text, i)]
    return [text[a:b] for a, b in itertools.pairwise(cuts)]


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("我在ab", ["我", "在", "a", "b"]),
        ("e\u0301a", ["e\u0301", "a"]),
        ("我👨‍👩‍👧在", ["我", "👨‍👩‍👧", "在"]),
        ("❤️❤", ["❤️", "❤"]),
        ("👍🏽好", ["👍🏽", "好"]),
        ("🇨🇳🇫🇷🇩", ["🇨🇳", "🇫🇷", "🇩"]),
        ("a🇨🇳b", ["a", "🇨🇳", "b"]),
        ("ᄒ\u1161\u11ab한\u11ab각", ["ᄒ\u1161\u11ab", "한\u11ab", "각"]),
        ("가\u11a8나", ["가\u11a8", "나"]),
        ("\r\n\n", ["\r\n", "\n"]),
        ("\n\u0301", ["\n", "\u0301"]),
        ("🏴󠁧󠁢󠁥󠁮󠁧󠁿x", ["🏴󠁧󠁢󠁥󠁮󠁧󠁿", "x"]),
        ("क्षि", ["क्", "षि"]),
        ("", []),
    ],
)
def test_c27_clusters(text: str, want: list[str]) -> None:
    assert clusters(text) == want


def test_cluster_stop() -> None:
    assert cluster_stop("e\u0301\u0302a", 1) == 3
    assert cluster_stop("ea", 1) == 1
    assert cluster_stop("e\u0301", 2) == 2


CHARS = st.one_of(
    st.sampled_from("a在，\n\r🇨🇳👍🏽각ᄒ\u1161\u0301\u302a\uff9e\u200d"),
    st.characters(exclude_categories=["Cs"]),
)


def may_join(text: str) -> list[bool]:
    points = np.frombuffer(text.encode("utf-32-le"), "<u4")
    return joins(points, np.arange(len(text) + 1)).tolist()


@given(st.text(CHARS))
def test_what_joins_nothing_is_inside_no_cluster(text: str) -> None:
    assert all(may or not inside_cluster(text, at) for at, may in enumerate(may_join(text)))


def test_no_character_that_joins_is_taken_for_one_that_does_not() -> None:
    everything = [chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000]
    for before in ("가", "🇨", "e", ZWJ):
        may = may_join(before + before.join(everything))[1::2]
        inside = [inside_cluster(before + char, 1) for char in everything]
        assert not any(i and not m for i, m in zip(inside, may, strict=True))
    assert not any(may_join("我在ab，好。")[1:-1])
