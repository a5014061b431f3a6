from __future__ import annotations

import itertools

import pytest

from pipelines.encode.graphemes import cluster_stop, inside_cluster


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
