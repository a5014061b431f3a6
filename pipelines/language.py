"""Language tags."""

from __future__ import annotations

import re

UNSPACED = frozenset({"zh", "yue", "wuu", "lzh", "ja", "th", "lo", "km", "my", "bo", "dz"})
"""Languages written without spaces between words."""


def primary_language(tag: str) -> str:
    """`zh` of `zh-Hans`, `zh_CN` or `ZH`: what rules and models are chosen by."""
    return re.split("[-_]", tag.strip().lower(), maxsplit=1)[0]
