"""From raw pairs to written texts by the real command: preprocess, finetune, generate."""

from __future__ import annotations

import json
from pathlib import Path

from tests.integration.test_cli import SAMPLES
from tests.warm import treegraft

RECIPE = """\
model: unilm
task: mlm
new: {layers: 1, width: 32, heads: 4}
data: {folder: out/zh-summaries, dev: train}
batch: {rows: 4}
optim: {lr: 1e-3, steps: 4}
threads: 1
out: out/unilm
"""


def test_from_raw_pairs_to_written_texts(tmp_path: Path) -> None:
    (tmp_path / "recipe.yaml").write_text(RECIPE, encoding="utf-8")
    for words in (["preprocess", SAMPLES / "zh-summaries.yaml"], ["finetune", "recipe.yaml"]):
        done = treegraft(*words, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    how = ("--beam-size", "3", "--n-best", "2", "--length-penalty", "1", "--max-target-length", "12")
    done = treegraft("generate", "recipe.yaml", *how, cwd=tmp_path, anew=True)
    assert done.returncode == 0, done.stderr
    assert done.stderr == "", "no bar where there is no terminal, no news of libraries"
    out = tmp_path / "out/unilm/generate-train"
    assert f"texts: {out}/generated.jsonl" in done.stdout and "rougeL" in done.stdout
    scores = json.loads((out / "metrics.json").read_text(encoding="utf-8"))["scores"]
    assert list(scores) == ["rouge1", "rouge2", "rougeL", "bleu"]
    lines = (out / "generated.jsonl").read_text(encoding="utf-8").splitlines()
    raw = (SAMPLES / "zh/summaries.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(x)["reference"] for x in lines] == [json.loads(x)["summary"] for x in raw]
    assert all(len(json.loads(x)["hypotheses"]) == 2 for x in lines)
    done = treegraft("generate", "recipe.yaml", "--max-target-length", "60", cwd=tmp_path)
    assert (
        done.returncode == 2
        and "take --max-target-length 48" in done.stderr
        and "Traceback" not in done.stderr
    )
