"""Searches over small corpora in this process, blocks one after the other and without Beam."""

from __future__ import annotations

import io
import random
from pathlib import Path
from typing import Any

from rich.console import Console

from pipelines.config import Config
from pipelines.ngrams.discounts import FALLBACK
from pipelines.options import Options
from pipelines.phrases.flow import PhraseSearch
from pipelines.phrases.report import Result
from tests.pipelines.dedup.running import plainly

PLAIN = {"stop": ["of", "the", "and"], "links": ["of"], "discount_fallback": list(FALLBACK), "min_count": 2}
PLAIN |= {"min_probability": 0.1, "min_dependence": 0.2}


def sentences(seed: int, count: int = 150) -> list[str]:
    """Words as uneven as those of a language, some pairs of which stand together more often than chance has it."""
    rng = random.Random(seed)
    words = ["of", "the", "and", ".", "1st", "2", "b", "c", "D", "éa", "中", "new york", "los angeles basin"]
    return [
        " ".join(words[min(int(rng.paretovariate(0.6)) - 1, 12)] for _ in range(rng.randrange(9)))
        for _ in range(count)
    ]


def search(
    folder: Path, lines: list[str] | None = None, *, out: str = "out", model: str | None = None, **keys: Any
) -> tuple[PhraseSearch, io.StringIO]:
    """A search over lines of words; `text` says otherwise. Other keys are of `phrases`, `overwrite` of the command."""
    if lines is not None:
        (folder / "a.txt").write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    said, overwrite = io.StringIO(), keys.pop("overwrite", False)
    layout = keys.pop("layout", {"format": "text", "document": "line"})
    config = Config.model_validate(
        {
            "task": "pretrain",
            "language": keys.pop("language", "en"),
            "input": {**layout, "files": keys.pop("files", {"train": "a.txt"})},
            "annotate": {"parser": "none"},
            "encode": {"tokenizer": "vocab.txt", "columns": [], **keys.pop("encode", {})},
            "phrases": {"text": "lines", **PLAIN, **keys},
            "run": {"block_bytes": 1024},
        }
    )
    options = Options(
        out=str(folder / out),
        annotated=str(folder / out / "annotated"),
        overwrite=overwrite,
        brief=True,
        console=Console(file=said, width=100),
    )
    return PhraseSearch(config, str(folder / "c.yaml"), options, model), said


def run(folder: Path, lines: list[str] | None = None, **keys: Any) -> tuple[Result, Path, str]:
    job, said = search(folder, lines, **keys)
    with plainly():
        result = job.run()
    return result, Path(job.folder), said.getvalue()


def rows(folder: Path) -> list[tuple[str, int, float, float]]:
    lines = (folder / "phrases.tsv").read_text(encoding="utf-8").split("\n")
    assert lines.pop() == ""
    parts = [line.split("\t") for line in lines]
    return [(text, int(count), float(p), float(d)) for text, count, p, d in parts]
