"""What a finished run leaves: `phrases.tsv` (the lexicon), `report.json`, the model; `manifest.json` comes last."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from corpora import files
from corpora.shards import size_and_hash
from pipelines.folders import read_manifest_of
from pipelines.phrases.rank import Row, Selection
from pipelines.view.legible import legible, plural

PHRASES, REPORT, MODEL = "phrases.tsv", "report.json", "model.arpa"
BEST, _LISTED, _LINES = 10, 100, 1 << 16
_DIGITS = 4
_NAMES = ("phrase", "count", "probability", "dependence")
_FELL = {
    "characters": "hold a word without a letter (phrases.words)",
    "function_words": "hold a function word where none may be (phrases.stop, phrases.links)",
    "unknown": "end in a word that the model does not know",
    "min_probability": "below phrases.min_probability",
    "min_dependence": "below phrases.min_dependence",
    "max_inside": "fragments of a longer phrase (phrases.max_inside)",
    "size": "beyond phrases.size",
}
"""How a frequent n-gram fails to be a phrase, in the order in which it is asked."""
_CLEANER = "for a cleaner lexicon raise phrases.min_count or phrases.min_dependence, or lower phrases.size"


@dataclass(frozen=True)
class Result:
    """The manifest."""

    fingerprint: str
    """Hash of the config, the inputs and the code that led here."""
    phrases: int
    model: dict[str, Any]
    """What the model is: numbers of its words and n-grams, discounts; of a given one its name."""
    files: dict[str, dict[str, Any]]
    """Bytes and SHA-256 of each file."""
    settings: dict[str, Any]
    identities: dict[str, Any]
    inputs: list[dict[str, Any]]
    versions: dict[str, str]

    def to_json(self) -> bytes:
        return _json({"stage": "phrases", **asdict(self)})

    def damage(self, folder: str) -> str | None:
        """The first file that is missing, or has another size than it had."""
        for name, facts in self.files.items():
            path = files.join(folder, name)
            if not files.exists(path):
                return f"{name} is missing"
            (info,) = files.expand(path)
            if info.size != facts["bytes"]:
                return f"{name} has {info.size:,} bytes, the manifest says {facts['bytes']:,}"
        return None


def read_result(folder: str) -> Result | None:
    """The manifest of a folder; None where there is none, or one that is damaged."""
    return read_manifest_of(folder, "phrases", lambda body: Result(**body))


def write(folder: str, found: Selection, fell: Mapping[str, int], model: Mapping[str, Any]) -> None:
    """`phrases.tsv` and `report.json`."""
    with files.write_atomic(files.join(folder, PHRASES)) as sink:
        for at in range(0, len(found.phrases.counts), _LINES):
            sink.write("".join(map(_line, found.phrases.rows(at, at + _LINES))).encode())
    body = {
        "phrases": len(found.phrases.counts),
        "by_words": dict(
            sorted(Counter(text.count(" ") + 1 for text in found.phrases.texts.to_pylist()).items())
        ),
        "frequent": fell.get("frequent", 0),
        "fell": {name: fell.get(name, 0) for name in _FELL},
        "cleaner": _CLEANER,
        "model": dict(model),
        "best": list(map(_shown, found.phrases.rows(0, _LISTED))),
        "borders": {name: list(map(_shown, rows)) for name, rows in sorted(found.borders.items())},
    }
    with files.write_atomic(files.join(folder, REPORT)) as sink:
        sink.write(_json(body))


def facts_of(path: str) -> dict[str, Any]:
    """Bytes and SHA-256 of a file."""
    size, sha256 = size_and_hash(path)
    return {"bytes": size, "sha256": sha256}


def show(console: Console, folder: str, best: Sequence[Row], fell: Mapping[str, int], count: int) -> None:
    """What came of it: how many n-grams fell to what, the best phrases, what to do with them."""
    frequent, where = fell.get("frequent", 0), legible(folder)
    console.print(Text(f"phrases: {count:,} of {plural(frequent, 'frequent n-gram')}, in {where}"))
    for name, meaning in _FELL.items():
        if fell.get(name):
            console.print(Text(f"  {fell[name]:>12,} {meaning}"), soft_wrap=True)
    if not count:
        why = "the corpus holds no n-gram that occurs so often" if not frequent else "the limits leave none"
        console.print(Text(f"no phrases: {why}; lower phrases.min_count, or take more text", "yellow"))
        return
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column(_NAMES[0], overflow="fold")
    for name in _NAMES[1:]:
        table.add_column(name, justify="right", no_wrap=True)
    for text, number, *scores in best:
        table.add_row(Text(legible(text)), f"{number:,}", *_numbers(*scores))
    console.print(table)
    console.print(Text(f"{_CLEANER} (report.json has the phrases near each limit)"), soft_wrap=True)


def _shown(row: Row) -> dict[str, Any]:
    return dict(zip(_NAMES, [*row[:2], *(round(number, _DIGITS) for number in row[2:])], strict=True))


def _line(row: Row) -> str:
    return "\t".join([row[0], str(row[1]), *_numbers(*row[2:])]) + "\n"


def _numbers(*values: float) -> list[str]:
    return [f"{value:.{_DIGITS}f}" for value in values]


def _json(body: Any) -> bytes:
    return json.dumps(body, indent=1, ensure_ascii=False).encode("utf-8", "backslashreplace") + b"\n"
