"""Curves of a run as a picture: loss, dev loss and metrics over steps, drawn from its metrics as SVG.

A few lines of SVG: a plotting library would be the largest dependency of training, for two axes and some lines.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path
from typing import Any

from corpora import files
from models.train.log import read_metrics

CURVES = "curves.svg"
_WIDTH, _HEIGHT, _LEFT, _TOP, _GAP = 560, 180, 64, 28, 66
_COLOURS = ("#2b6cb0", "#c05621", "#2f855a", "#805ad5", "#b7791f", "#c53030")
_NOT_DRAWN = ("step", "best_step", "tokens", "seconds", "lr", "grad_norm", "tokens_per_second", "epoch")
Points = list[tuple[float, float]]


def write_curves(out: Path, say: Callable[[str], None]) -> None:
    """Draw `metrics.jsonl` of a run's folder into `curves.svg`; nothing where there is nothing to draw.

    Where it cannot be written that is said: no run ends for want of a picture.
    """
    series = _series(read_metrics(out))
    losses = {name: points for name, points in series.items() if _is_loss(name, series)}
    others = {name: points for name, points in series.items() if name not in losses}
    panels = [(title, lines) for title, lines in (("loss", losses), ("dev", others)) if lines]
    if not panels:
        return
    height = len(panels) * (_HEIGHT + _GAP) + _TOP
    body = "".join(
        _panel(title, lines, _TOP + n * (_HEIGHT + _GAP)) for n, (title, lines) in enumerate(panels)
    )
    svg = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_LEFT + _WIDTH + 20}" height="{height}" '
        f'font-family="sans-serif" font-size="11"><rect width="100%" height="100%" fill="white"/>{body}</svg>\n'
    )
    try:
        with files.write_atomic(str(out / CURVES)) as sink:
            sink.write(svg.encode("utf-8"))
    except OSError as error:
        say(f"{out / CURVES} was not drawn: {error}")


def _series(lines: Sequence[dict[str, Any]]) -> dict[str, Points]:
    found: dict[str, Points] = {}
    for line in lines:
        for name, value in line.items():
            if name not in _NOT_DRAWN and isinstance(value, int | float) and math.isfinite(value):
                found.setdefault(name, []).append((line["step"], float(value)))
    return found


def _is_loss(name: str, series: dict[str, Points]) -> bool:
    """Losses, the dev split's, and the parts both are made of."""
    return not name.startswith("dev_") or name == "dev_loss" or name.removeprefix("dev_") in series


def _panel(title: str, lines: dict[str, Points], top: int) -> str:
    steps = [x for points in lines.values() for x, _ in points]
    values = [y for points in lines.values() for _, y in points]
    first, last, low, high = min(steps), max(steps), min(values), max(values)
    wide, tall = (last - first) or 1.0, (high - low) or abs(high) or 1.0

    def place(x: float, y: float) -> str:
        return f"{_LEFT + (x - first) / wide * _WIDTH:.1f},{top + (1 - (y - low) / tall) * _HEIGHT:.1f}"

    made = [f'<rect x="{_LEFT}" y="{top}" width="{_WIDTH}" height="{_HEIGHT}" fill="none" stroke="#cbd5e0"/>']
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        y = top + (1 - share) * _HEIGHT
        made.append(f'<line x1="{_LEFT}" x2="{_LEFT + _WIDTH}" y1="{y}" y2="{y}" stroke="#edf2f7"/>')
        made.append(f'<text x="{_LEFT - 6}" y="{y + 4}" text-anchor="end">{low + share * tall:.4g}</text>')
        x = _LEFT + share * _WIDTH
        made.append(
            f'<text x="{x}" y="{top + _HEIGHT + 15}" text-anchor="middle">{first + share * wide:,.0f}</text>'
        )
    made.append(f'<text x="{_LEFT}" y="{top - 9}" font-weight="bold">{escape(title)}</text>')
    at = _LEFT + 60
    for number, (name, points) in enumerate(lines.items()):
        colour = _COLOURS[number % len(_COLOURS)]
        dash = ' stroke-dasharray="5 3"' if name.startswith("dev_") else ""
        path = " ".join(place(*point) for point in points)
        made.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.5"{dash}/>')
        if len(points) < 12:  # a line of few points, or of one, is hardly seen
            dots = (place(*point).split(",") for point in points)
            made += [f'<circle cx="{x}" cy="{y}" r="2.5" fill="{colour}"/>' for x, y in dots]
        made.append(f'<text x="{at}" y="{top - 9}" fill="{colour}">{escape(name)}</text>')
        at += 7 * len(name) + 18
    made.append(f'<text x="{_LEFT + _WIDTH}" y="{top + _HEIGHT + 30}" text-anchor="end">steps</text>')
    return "".join(made)
