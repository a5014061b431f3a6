"""The pages that users read, README and docs, as tests read them."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
PAGES = (README, *sorted((ROOT / "docs").glob("*.md")))


def blocks(name: str, language: str) -> list[str]:
    """The blocks of code of a language between the marks of this name, on whichever page has them."""
    (text,) = (text for page in PAGES if f"<!-- {name} -->" in (text := page.read_text(encoding="utf-8")))
    part = text.partition(f"<!-- {name} -->")[2].partition(f"<!-- /{name} -->")[0]
    found = re.findall(rf"```{language}\n(.*?)```", part, re.DOTALL)
    assert found, name
    return found
