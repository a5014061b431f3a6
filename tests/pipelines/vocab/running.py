"""Runs of the whole road over small corpora, blocks one after the other and without Beam."""

from __future__ import annotations

import io
import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console

from pipelines.config import Config
from pipelines.options import Options
from pipelines.vocab.flow import Vocabularies
from pipelines.vocab.result import Made
from tests.pipelines.dedup.running import options, plainly

FILES = ("vocab.txt", "coarse_vocab.txt", "report.json", "manifest.json")


def write_corpus(folder: Path, seed: int = 0, documents: int = 60) -> list[str]:
    """English as uneven as it is, a document a line, and a lexicon of some of its phrases."""
    rng = random.Random(seed)
    stems = ["".join(rng.choices("etaoinshrdlu", k=rng.randint(2, 9))) for _ in range(300)]
    odd = ["New York", "Café", "naïve", "[MASK]", "##ing", "x\u00a0y", "中文", "😀", "don't", "3,5"]
    words = [*stems[:5], *odd, *stems[5:]]

    def sentence() -> str:
        return " ".join(
            words[min(int(rng.paretovariate(0.6)), len(words) - 1)] for _ in range(rng.randint(3, 12))
        )

    texts = [". ".join(sentence() for _ in range(rng.randint(1, 6))) for _ in range(documents)]
    (folder / "a.txt").write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    pairs = [f"{words[i]} {words[j]}" for i in range(1, 6) for j in range(1, 4)]
    (folder / "phrases.tsv").write_text("".join(f"{p}\t1\n" for p in [*pairs, "new york"]), encoding="utf-8")
    return texts


def settings(folder: Path, block_bytes: int = 2048, **changes: Any) -> Config:
    """A config whose vocabularies lie where the road writes them."""
    vocab = folder / "out/vocab"
    body: dict[str, Any] = {
        "task": "pretrain",
        "language": "en",
        "input": {"format": "text", "document": "line", "files": "a.txt"},
        "annotate": {"parser": "none"},
        "encode": {
            "tokenizer": str(vocab / "vocab.txt"),
            "columns": ["coarse"],
            "coarse": {"vocab": str(vocab / "coarse_vocab.txt"), "phrases": "phrases.tsv"},
        },
        "vocab": {"fine": {"size": 300}, "coarse": {"size": 500}},
        "run": {"block_bytes": block_bytes},
    }
    return Config.model_validate(body | changes)


def make(
    folder: Path, config: Config | None = None, how: Options | None = None, **keys: Any
) -> tuple[dict[str, Made], str]:
    """What was made, and what the console said."""
    console = Console(file=io.StringIO(), width=200)
    chosen = replace(how or options(folder / "out"), console=console)
    with plainly():
        made = Vocabularies(config or settings(folder), str(folder / "c.yaml"), chosen, **keys).run()
    return made, console.file.getvalue()  # type: ignore[attr-defined]


def contents(folder: Path) -> dict[str, bytes]:
    return {name: (folder / "out/vocab" / name).read_bytes() for name in FILES}


def report(folder: Path) -> dict:
    return json.loads((folder / "out/vocab/report.json").read_text(encoding="utf-8"))


def found_lexicon(folder: Path, content: str) -> dict:
    """What `treegraft phrases` left, and an `encode` section that does not name it."""
    (folder / "out/phrases").mkdir(parents=True)
    (folder / "out/phrases/phrases.tsv").write_text(content, encoding="utf-8")
    vocab = folder / "out/vocab"
    coarse = {"vocab": str(vocab / "coarse_vocab.txt")}
    return {"tokenizer": str(vocab / "vocab.txt"), "columns": ["coarse"], "coarse": coarse}
