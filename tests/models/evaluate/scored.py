"""Scores and predictions of new models, in a file.

python -m tests.models.evaluate.scored FILE TASK=FOLDER...       under torchrun; `scored` in this process
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from models.collate.buckets import Buckets
from models.collate.collator import Collator
from models.evaluate.evaluation import evaluate
from models.ranks import Ranks, joined
from tests.models.evaluate.test_on_data import model_for
from tests.models.evaluate.test_tokens import masked

KINDS = {"classify": "kbert", "tag": "kbert", "span": "sgnet", "choice": "bert", "pretrain": "bert"}


def scored(task: str, folder: Path, ranks: Ranks) -> list[Any]:
    """Of batches of some rows, and of buckets: scores, and what was predicted for each row but floats."""
    if task == "pretrain":
        model, split, collator = masked(folder, KINDS[task])
    else:
        model, split = model_for(folder, task, KINDS[task])
        collator = Collator.of(model)
    made = []
    for grouping in (None, Buckets(1024, 0, column=collator.length_column)):
        result = evaluate(model, split, collator, batch_size=5, grouping=grouping, ranks=ranks)
        table = result.predictions
        kept = [
            name for name in ("number", "id", "label", "predicted", "masked") if name in table.column_names
        ]
        made.append([result.scores, table.select(kept).to_pylist()])
    return made


if __name__ == "__main__":
    with joined(1, True) as ranks:
        found = {}
        for words in sys.argv[2:]:
            task, _, folder = words.partition("=")
            found[task] = scored(task, Path(folder), ranks)
        if ranks.first:
            Path(sys.argv[1]).write_text(json.dumps(found), encoding="utf-8")
