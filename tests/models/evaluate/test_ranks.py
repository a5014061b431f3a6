"""Two processes find the scores of one, with rows that do not divide, in batches of rows and in buckets."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from models.ranks import Ranks
from tests.models.datasets import Datasets
from tests.models.evaluate.scored import KINDS, scored
from tests.models.train.processes import both


def test_two_processes_find_the_scores_of_one(datasets: Datasets, tmp_path: Path) -> None:
    words = [f"{task}={datasets[task]}" for task in KINDS]
    done = both("tests.models.evaluate.scored", str(tmp_path / "found.json"), *words)
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "found.json").read_text(encoding="utf-8"))
    for task in KINDS:
        alone = scored(task, datasets[task], Ranks())
        (rows, told), (buckets, also) = alone
        assert rows == pytest.approx(buckets, abs=1e-5) and told == also
        for (scores, predictions), (its, theirs) in zip(alone, found[task], strict=True):
            assert its == pytest.approx(scores, abs=1e-5), task
            assert theirs == predictions and len(theirs) > 1, task
