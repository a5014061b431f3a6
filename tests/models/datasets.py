"""Datasets for tests of models: the embedded samples through both stages, as `treegraft preprocess` runs them."""

from __future__ import annotations

import fcntl
from pathlib import Path
from typing import Any

import yaml

from corpora.manifest import MANIFEST

SAMPLES = Path(__file__).parents[2] / "corpora/samples"
CONFIGS = {
    "pretrain": "zh-pretrain",
    "classify": "zh-reviews",
    "tag": "zh-ner",
    "span": "zh-questions",
    "choice": "zh-choice",
    "seq2seq": "zh-summaries",
}
"""The sample of each task. All have every column group but that of seq2seq, which has no parse."""
_DOCUMENTS = 12


class Datasets:
    """`datasets[task]`: the folder of the finished dataset, with its splits `train` and mostly `dev`.

    Made when it is first asked for, once a session, whatever the number of its processes.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)

    def __getitem__(self, task: str) -> Path:
        with (self.folder / f"{task}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not (self.folder / task / MANIFEST).exists():
                from tests.integration.running import (
                    preprocess,
                )  # seconds, which most tests of models can do without

                preprocess(self.folder, task, self._config(task))
        return self.folder / task

    def _config(self, task: str) -> dict[str, Any]:
        config = yaml.safe_load((SAMPLES / f"{CONFIGS[task]}.yaml").read_text(encoding="utf-8"))
        if task == "pretrain":
            documents = (SAMPLES / config["input"]["files"]).read_text(encoding="utf-8").split("\n\n")
            source = self.folder / "pretrain.txt"
            source.write_text("\n\n".join(documents[:_DOCUMENTS]), encoding="utf-8")
            config["input"]["files"] = str(source)
        groups = ["coarse", "tree"] if task == "seq2seq" else ["syntax", "coarse", "tree"]
        config["encode"] |= {"columns": groups, "coarse": {"vocab": "coarse_vocab.txt"}}
        config.setdefault("graph", {"triples": "graph.spo"})
        return _absolute(config)


def _absolute(value: Any) -> Any:
    """Paths among the samples count from there."""
    if isinstance(value, dict):
        return {key: _absolute(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_absolute(item) for item in value]
    return str(SAMPLES / value) if isinstance(value, str) and (SAMPLES / value).is_file() else value
