"""Both stages in this process: as the command runs them, without the seconds that its start takes."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import yaml
from rich.console import Console

from pipelines import flow
from pipelines.config import load_config
from pipelines.options import Options


def preprocess(folder: Path, name: str, config: dict[str, Any]) -> Path:
    """Write `config` into `folder`, so that its paths count from there, and run it; returns the finished dataset."""
    path, out = folder / f"{name}.yaml", folder / name
    path.write_text(yaml.safe_dump(config, allow_unicode=True), encoding="utf-8")
    loaded = load_config(path)
    options = Options(
        out=str(out),
        annotated=str(folder / loaded.annotated) if loaded.annotated else str(out / "annotated"),
        brief=True,
        console=Console(file=io.StringIO()),
    )
    flow.preprocess(loaded, str(path), options)
    return out
