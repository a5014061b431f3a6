"""Self-contained HTML pages: one file, no script, no external resource, light and dark.

Every string from data passes `esc`, which also escapes what would not print as itself. The page's
policy forbids scripts and loads, so even a string that slipped through could not run.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from pathlib import Path

from rich.cells import cell_len

from corpora import files
from pipelines.view.folder import FolderError
from pipelines.view.legible import clip, legible

_STYLE = """
:root { color-scheme: light dark; --bg: #ffffff; --fg: #1b1b1b; --dim: #5c5c5c; --line: #d4d4d4;
  --soft: #f3f3f3; --bar: #2f6690; --m0: #00697a; --m1: #9a2a8a; --m2: #23702b; --m3: #8a5a00; --m4: #3b54c4; }
@media (prefers-color-scheme: dark) { :root { --bg: #17181a; --fg: #e6e6e6; --dim: #a3a3a3; --line: #3c3f43;
  --soft: #212327; --bar: #6fa8d6; --m0: #52c7da; --m1: #e58ad8; --m2: #7fcf88; --m3: #e0b04a; --m4: #9fb0ff; } }
body { background: var(--bg); color: var(--fg); font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto;
  max-width: 1100px; padding: 0 1rem; }
h1 { font-size: 1.4rem; overflow-wrap: anywhere; } h2 { font-size: 1.1rem; margin: 2rem 0 .5rem; }
h3 { font-size: 1rem; margin: 1.2rem 0 .3rem; }
.unit { display: inline-block; margin: 0 .8em .8em 0; } .unit > .dim { display: block; }
.dim, figcaption, dt { color: var(--dim); } .note { border-left: 3px solid var(--m3); padding-left: .6rem; }
.text { white-space: pre-wrap; overflow-wrap: anywhere; unicode-bidi: isolate; background: var(--soft);
  padding: .6rem; }
mark { background: var(--m3); color: var(--bg); }
.scroll { overflow-x: auto; } figure { margin: 0; } figcaption { font-size: .85rem; }
table { border-collapse: collapse; font-size: .9rem; }
th, td { padding: .15rem .6rem; border-bottom: 1px solid var(--line); text-align: left; vertical-align: top; }
th { color: var(--dim); font-weight: 600; } td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; }
summary { cursor: pointer; margin: 1rem 0; font-weight: 600; }
td bdi, code { font-family: ui-monospace, Menlo, Consolas, "Noto Sans Mono CJK SC", monospace; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .1rem 1rem; } dd { margin: 0;
  overflow-wrap: anywhere; }
svg { display: block; } svg text { fill: var(--fg);
  font-family: ui-monospace, Menlo, Consolas, "Noto Sans Mono CJK SC", monospace; font-size: 13px; }
svg .small { font-size: 11px; fill: var(--dim); } svg .bold { font-weight: 700; }
svg .line { stroke: var(--dim); fill: none; } svg .rule { stroke: var(--line); fill: none; }
svg .bar { fill: var(--bar); } svg .seen { fill: var(--bar); } svg .frame { fill: var(--soft); }
""" + "".join(
    f"svg .m{i} {{ stroke: var(--m{i}); fill: none; }} svg text.m{i}, text.m{i} "
    f"{{ fill: var(--m{i}); stroke: none; }} td.m{i} {{ color: var(--m{i}); font-weight: 600; }}\n"
    for i in range(5)
)
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def esc(text: object) -> str:
    """Escaped for HTML text and quoted attributes, and legible."""
    return html.escape(legible(str(text)), quote=True)


def page(title: str, body: str) -> str:
    """A whole page; `title` is escaped here, `body` is HTML."""
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{esc(title)}</title><style>{_STYLE}</style></head>\n"
        f"<body><h1>{esc(title)}</h1>\n{body}\n</body></html>\n"
    )


def check_target(path: str | Path) -> str:
    """The path as it will be written. Raises FolderError where a page cannot go there: ask before long work."""
    path = str(path)
    if files.is_uri(path):
        return path
    target = Path(path).resolve()
    if not target.parent.is_dir():
        raise FolderError(f"cannot write {path}: the folder {target.parent} does not exist; make it first")
    if target.is_dir():
        raise FolderError(f"cannot write {path}: it is a folder; name a file in it, such as report.html")
    return str(target)


def write_page(path: str | Path, text: str) -> None:
    """Write a page in one step. Raises FolderError as `check_target` does."""
    with files.write_atomic(check_target(path)) as sink:
        sink.write(text.encode("utf-8", "backslashreplace"))


def facts(pairs: Sequence[tuple[str, object]]) -> str:
    """A list of names and values."""
    return "<dl>" + "".join(f"<dt>{esc(n)}</dt><dd>{esc(v)}</dd>" for n, v in pairs) + "</dl>"


def table(
    header: Sequence[str], rows: Sequence[Sequence[object]], numeric: Sequence[int] = (), caption: str = ""
) -> str:
    """A table; `numeric` names the columns that are aligned right."""
    right = [' class="n"' if i in numeric else "" for i in range(len(header))]
    head = "".join(f'<th scope="col"{c}>{esc(h)}</th>' for h, c in zip(header, right, strict=True))
    body = "".join(
        "<tr>"
        + "".join(f"<td{c}><bdi>{esc(v)}</bdi></td>" for v, c in zip(row, right, strict=True))
        + "</tr>\n"
        for row in rows
    )
    title = f"<caption>{esc(caption)}</caption>" if caption else ""
    return f'<div class="scroll"><table>{title}<thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table></div>'


def svg(width: float, height: float, title: str, body: str) -> str:
    """An inline SVG that says what it shows."""
    return (
        f'<div class="scroll"><svg role="img" width="{width:g}" height="{height:g}" '
        f'viewBox="0 0 {width:g} {height:g}"><title>{esc(title)}</title>{body}</svg></div>'
    )


def bars(title: str, items: Sequence[tuple[str, int]], share_of: int | None = None) -> str:
    """Horizontal bars, a labelled one per item, with its count and its share of `share_of` (default: the sum)."""
    if not items:
        return ""
    total = share_of or sum(value for _, value in items) or 1
    most = max(value for _, value in items) or 1
    names = [clip(legible(name), 40) for name, _ in items]
    left, line, room = 12 + 8 * max(cell_len(n) for n in names), 22, 420
    parts = []
    for i, ((name, value), shown) in enumerate(zip(items, names, strict=True)):
        y, length = i * line, max(room * value / most, 1 if value else 0)
        count = f"{value:,} ({value / total:.1%})"
        parts.append(
            f"<g><title>{esc(name)}: {count}</title>"
            f'<text x="{left - 8}" y="{y + 15}" text-anchor="end">{esc(shown)}</text>'
            f'<rect class="bar" x="{left}" y="{y + 4}" width="{length:.1f}" height="14"/>'
            f'<text class="small" x="{left + length + 6:.1f}" y="{y + 15}">{count}</text></g>'
        )
    return _figure(title, svg(left + room + 150, len(items) * line + 4, title, "".join(parts)))


def columns(title: str, bins: Sequence[tuple[int, int, int]], unit: str) -> str:
    """A histogram: upright bars for (first value, last value, count), with axis labels."""
    if not bins:
        return ""
    most = max(count for _, _, count in bins) or 1
    left, height, width = 70, 160, max(14, min(40, 900 // len(bins)))
    step = max(1, -(-60 // width))  # a label about every 60 px
    axis = (
        f'<path class="rule" d="M{left} 8H{left + width * len(bins)}M{left} {height}H{left + width * len(bins)}"/>'
        f'<text class="small" x="{left - 6}" y="12" text-anchor="end">{most:,}</text>'
        f'<text class="small" x="{left - 6}" y="{height}" text-anchor="end">0</text>'
    )
    parts = [axis]
    for i, (low, high, count) in enumerate(bins):
        x, tall = left + i * width, (height - 8) * count / most
        span = f"{low:,}" if low == high else f"{low:,} to {high:,}"
        parts.append(
            f"<g><title>{span} {esc(unit)}: {count:,}</title>"
            f'<rect class="bar" x="{x + 1}" y="{height - tall:.1f}" width="{width - 2}" height="{tall:.1f}"/></g>'
        )
        if i % step == 0:
            parts.append(f'<text class="small" x="{x + 1}" y="{height + 15}">{low:,}</text>')
    end = left + width * len(bins)
    parts.append(f'<text class="small" x="{left}" y="{height + 31}">{esc(unit)}</text>')
    return _figure(title, svg(max(end + 60, left + 8 * cell_len(unit)), height + 36, title, "".join(parts)))


def _figure(title: str, drawing: str) -> str:
    return f"<figure><h3>{esc(title)}</h3>{drawing}</figure>"
