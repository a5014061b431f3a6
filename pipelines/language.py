"""Language tags."""

from __future__ import annotations

import re


def primary_language(tag: str) -> str:
    """`zh` of `zh-Hans`, `zh_CN` or `ZH`: what rules and models are chosen by."""
    return re.split("[-_]", tag.strip().lower(), maxsplit=1)[0]
