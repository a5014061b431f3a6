"""How much of the bare parser's time a page takes, on real pages; and what hostile ones take.

mwparserfromhell alone, over whole pages, against everything from the dump's XML to Arrow tables; one
process, CPU time, best of some rounds. Hostile pages of 2 and 10 MB show that time is as their length.
"""

from __future__ import annotations

import bz2
import html
import re
import time
from collections.abc import Callable
from pathlib import Path

import mwparserfromhell
import pytest

from corpora.layout import InputConfig
from corpora.readers.wikitext import to_text
from tests.corpora.conftest import read_layout

pytestmark = pytest.mark.bench

BAR = 0.5
"""Reading may take this share of what parsing alone takes."""
BAR_SECONDS_A_MEGABYTE = 3.0
ROUNDS = 3


def _seconds(work: Callable[[], object], rounds: int = ROUNDS) -> float:
    best = float("inf")
    for _ in range(rounds):
        start = time.process_time()
        work()
        best = min(best, time.process_time() - start)
    return best


def test_reading_against_the_bare_parser(real_data: Path, tmp_path: Path) -> None:
    raw = bz2.decompress((real_data / "wiki/enwiki-sample.xml.bz2").read_bytes())
    (tmp_path / "a.xml").write_bytes(raw)
    layout = InputConfig(format="wikipedia", files={"train": ["a.xml"]})
    texts = [html.unescape(t) for t in re.findall(r"<text[^>]*>(.*?)</text>", raw.decode(), re.DOTALL)]
    articles = [t for t in texts if not t.lower().startswith("#redirect")]
    megabytes = sum(len(t.encode()) for t in articles) / 1e6

    mine = _seconds(lambda: read_layout(layout, tmp_path, "pretrain", "en", 1 << 40, 1 << 20))
    bare = _seconds(lambda: [mwparserfromhell.parse(t, skip_style_tags=True) for t in articles])
    print(
        f"\nwikipedia: {len(articles) / mine:.0f} pages a second, {megabytes / mine:.1f} MB of wikitext a second; "
        f"{mine / bare:.2f} times the bare parser ({megabytes / bare:.1f} MB a second)"
    )
    assert mine / bare < BAR


@pytest.mark.parametrize(
    "unit",
    [
        "{{",
        "{{a|[[b|",
        "{{lang|en|x}}",
        "[[a|b [[c]] d]]",
        "<b>",
        "<ref>",
        "{|\n",
        "| a || b\n",
        "[http://a ",
        "{{nowrap|" + "|b" * 900 + "}}",
        "a b c. ",
    ],
    ids=lambda u: repr(u[:16]),
)
def test_hostile_pages(unit: str) -> None:
    shown = []
    for size in (2_000_000, 10_000_000):
        text = unit * (size // len(unit))
        seconds = _seconds(lambda t=text: to_text(t, "zh"), rounds=1)  # type: ignore[misc]
        shown.append(f"{size / 1e6:.0f} MB in {seconds:.2f} s")
        assert seconds < BAR_SECONDS_A_MEGABYTE * size / 1e6
    print(f"\nwikipedia: {unit[:16]!r} {', '.join(shown)}")
