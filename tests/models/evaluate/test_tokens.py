"""Masked tokens: what is shown of them, in every view, and that no batching changes their scores."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from models import checkpoint
from models.bert import Bert
from models.collate.buckets import Buckets
from models.collate.collator import Collator
from models.collate.kinds import Kinds
from models.collate.mlm import Masking
from models.evaluate import tokens
from models.evaluate.evaluation import columns_of, evaluate
from models.evaluate.measure import Result
from models.evaluate.tokens import spelled
from models.stream.open import open_split
from models.stream.shards import Split
from tests.models.datasets import Datasets
from tests.models.tiny import tiny

VIEWS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "bert": ("pretrain", {}, {"units": "word"}),
    "kbert": ("mlm", {}, {"branches": True}),
    "unilm": ("mlm", {}, {"units": "ngram"}),
    "ambert": ("mlm", {"granularity": "both"}, {"coarse": True}),
    "ambert-coarse": ("mlm", {"granularity": "coarse"}, {"coarse": True}),
}
"""Task, options of the model and of masking."""


def masked(folder: Path, view: str) -> tuple[Bert, Split, Collator]:
    task, options, masking = VIEWS[view]
    kind = view.partition("-")[0]
    metadata = open_split(str(folder), "train", ("id",)).metadata
    if kind == "ambert":
        options = {**options, "coarse_vocab_size": metadata["coarse_vocab_size"]}
    torch.manual_seed(0)
    model = checkpoint.new(
        tiny(vocab_size=metadata["vocab_size"], max_position_embeddings=512), kind, task, **options
    )
    steps = [*([Kinds(seed=3)] if kind == "unilm" else []), Masking.of(metadata, seed=3, **masking)]
    collator = Collator.of(model, steps=steps)
    return model, open_split(str(folder), "train", columns_of(model, collator)), collator


def shown(result: Result, column: str = "tokens") -> list[list[dict[str, Any]] | None]:
    return result.predictions[column].to_pylist()


@pytest.mark.parametrize("view", VIEWS)
def test_masked_tokens_are_those_of_the_rows(datasets: Datasets, view: str) -> None:
    model, split, collator = masked(datasets["pretrain"], view)
    result = evaluate(model, split, collator)
    column, prefix = {"kbert": ("tree_ids", ""), "ambert-coarse": ("coarse_ids", "coarse_")}.get(
        view, ("input_ids", "")
    )
    rows = open_split(str(datasets["pretrain"]), "train", (column,)).take(np.arange(split.rows))
    values, offsets = rows.lists[column]
    own = [values[a:b].tolist() for a, b in pairwise(offsets)]
    found = shown(result, f"{prefix}tokens")
    right = 0
    for row, tokens_of, count in zip(
        own, found, result.predictions[f"{prefix}masked"].to_pylist(), strict=True
    ):
        assert tokens_of is not None and len(tokens_of) == count
        positions = [one["position"] for one in tokens_of]
        assert positions == sorted(set(positions))
        assert [row[at] for at in positions] == [one["token"] for one in tokens_of]
        assert all(len(set(one["predicted"])) == 5 for one in tokens_of)
        right += sum(one["token"] == one["predicted"][0] for one in tokens_of)
    assert result.scores[f"{prefix}masked_accuracy"] == pytest.approx(
        right / sum(len(row or []) for row in found)
    )
    assert ("coarse_masked_accuracy" in result.scores) == view.startswith("ambert")


@pytest.mark.parametrize("view", VIEWS)
def test_no_batching_changes_a_score_or_a_token(datasets: Datasets, view: str) -> None:
    model, split, collator = masked(datasets["pretrain"], view)
    whole = evaluate(model, split, collator, batch_size=split.rows)
    grouping = Buckets(1024, 0, column=collator.length_column)
    for settings in ({"batch_size": 7}, {"grouping": grouping}):
        other = evaluate(model, split, collator, **settings)
        assert other.scores == pytest.approx(whole.scores, abs=1e-5)
        kept = [name for name in whole.predictions.column_names if "tokens" not in name]
        assert other.predictions.select(kept) == whole.predictions.select(kept)
        for mine, its in zip(*(map(bare, (other, whole))), strict=True):
            assert mine == its


def bare(result: Result) -> list[list[tuple[int, int]]]:
    """Where the masked tokens of each row are, and what they were."""
    return [
        [(one["position"], one["token"]) for one in row or []]
        for name in result.predictions.column_names
        if name.endswith("tokens")
        for row in shown(result, name)
    ]


def test_the_first_rows_alone_are_shown(datasets: Datasets, monkeypatch: pytest.MonkeyPatch) -> None:
    """So memory does not grow with the dataset; with buckets, too, the first ones of the dataset."""
    model, split, collator = masked(datasets["pretrain"], "bert")
    every = shown(evaluate(model, split, collator))
    monkeypatch.setattr(tokens, "SHOWN", 3)
    for grouping in (None, Buckets(1024, 0, column=collator.length_column)):
        result = evaluate(model, split, collator, grouping=grouping, batch_size=2)
        places = [row and [one["position"] for one in row] for row in shown(result)]
        assert places[:3] == [[one["position"] for one in row or []] for row in every[:3]]
        assert set(places[3:]) == {None} and len(places) == split.rows
        assert min(result.predictions["masked"].to_pylist()) > 0

    names = [f"token {i}" for i in range(100)]
    said = spelled(result.predictions, names)
    assert said["tokens"].null_count == split.rows - 3
    for ids, strings in zip(shown(result)[:3], said["tokens"].to_pylist()[:3], strict=True):
        for one, its in zip(ids or [], strings, strict=True):
            assert its["position"] == one["position"]
            wanted = [f"token {i}" if i < 100 else None for i in (one["token"], *one["predicted"])]
            assert [its["token"], *its["predicted"]] == wanted
