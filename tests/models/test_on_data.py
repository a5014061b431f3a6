"""Every model and task on real datasets, from the command's shards to a loss and its gradient."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from models.ambert import Ambert
from models.bert import Bert
from models.collate.collator import Collator
from models.collate.kinds import Kinds
from models.collate.mlm import Masking
from models.collate.pack import Packing
from models.collate.sequences import Step
from models.kbert import KBert
from models.sgnet import SGNet
from models.stream.loader import Loader
from models.stream.open import open_split
from models.stream.shards import Split
from models.unilm import UniLM
from tests.models.collate import literal
from tests.models.datasets import Datasets
from tests.models.tiny import tiny

MODELS: tuple[type[Bert], ...] = (Bert, KBert, UniLM, SGNet, Ambert)
SOURCES = {
    "none": "seq2seq",
    "mlm": "pretrain",
    "pretrain": "pretrain",
    "nsp": "pretrain",
    "regress": "classify",
}
"""The dataset of a model's task, where it is not the one of its name."""
CASES = [(model, task) for model in MODELS for task in model.tasks]
named = pytest.mark.parametrize("model, task", CASES, ids=[f"{m.kind}-{t}" for m, t in CASES])


def steps_of(made: Bert, metadata: Mapping[str, Any]) -> tuple[Step, ...]:
    """What a model that predicts tokens is trained with."""
    if not made.task.vocabulary:
        return ()
    masking = Masking.of(metadata, seed=3, coarse=made.group == "coarse")
    return (Kinds(seed=3), masking) if isinstance(made, UniLM) else (masking,)


def source_of(task: str, model: type[Bert]) -> str:
    """What has no label to read comes from one that has every group."""
    return "tag" if task == "none" and model is not Bert else SOURCES.get(task, task)


@functools.cache
def built(model: type[Bert], task: str, vocab: int, coarse: int, labels: int) -> Bert:
    torch.manual_seed(0)
    options: dict[str, Any] = {"coarse_vocab_size": coarse} if model is Ambert else {}
    config = tiny(
        vocab_size=vocab,
        num_labels=1 if task == "regress" else max(labels, 1),
        max_position_embeddings=256,
        treegraft={"task": task, **options},
    )
    return model(config)


def prepared(
    datasets: Datasets, model: type[Bert], task: str, **settings: Any
) -> tuple[Bert, Collator, Split]:
    folder = str(datasets[source_of(task, model)])
    meta = open_split(folder, "train").metadata
    made = built(model, task, meta["vocab_size"], meta["coarse_vocab_size"], len(meta["labels"] or ()))
    collator = Collator.of(made, steps=steps_of(made, meta), **settings)
    split = open_split(folder, "train", collator.columns)
    collator.check_dataset(split.metadata)
    made.check_dataset(split.metadata)
    return made, collator, split


def scored(batch: dict[str, Tensor], task: str) -> dict[str, Tensor]:
    """Samples have classes, no scores."""
    if task == "regress":
        return batch | {"label_score": torch.arange(len(batch["input_ids"])) / 7}
    return batch


@named
def test_forward_and_backward_on_every_batch(datasets: Datasets, model: type[Bert], task: str) -> None:
    made, collator, split = prepared(datasets, model, task)
    for batch in Loader(split, 6, order="global", collate=collator):
        assert batch["input_ids"].shape[1] % 8 == 0
        output = made(scored(batch, task))
        if task == "none":
            assert output.loss is None and output.logits["hidden"].isfinite().all()
            continue
        assert output.loss is not None and output.loss.isfinite()
        made.zero_grad()
        output.loss.backward()
        grown = [p.grad for p in made.parameters() if p.grad is not None]
        assert len(grown) > 20 and all(grad.isfinite().all() for grad in grown)
        assert any(grad.any() for grad in grown)


@named
def test_padding_changes_nothing(datasets: Datasets, model: type[Bert], task: str) -> None:
    made, collator, split = prepared(datasets, model, task)
    wide = Collator.of(made, steps=collator.steps, pad_to=200)
    rows = split.take(np.arange(min(split.rows, 5)))
    narrow, wider = scored(collator(rows), task), scored(wide(rows), task)
    assert narrow["input_ids"].shape[1] < wider["input_ids"].shape[1]
    with torch.no_grad():
        first, second = made(narrow), made(wider)
    real = narrow["sequence_id"] > 0
    if task == "none":
        torch.testing.assert_close(
            first.logits["hidden"][real],
            second.logits["hidden"][wider["sequence_id"] > 0],
            rtol=1e-4,
            atol=1e-5,
        )
    else:
        torch.testing.assert_close(first.loss, second.loss, rtol=1e-5, atol=1e-5)


PACKED = [(model, task) for model, task in CASES if task in ("none", "mlm", "tag")]


@pytest.mark.parametrize("model, task", PACKED, ids=[f"{m.kind}-{t}" for m, t in PACKED])
def test_packed_rows_say_what_they_say_alone(datasets: Datasets, model: type[Bert], task: str) -> None:
    """Per token: the same logits, hidden states and loss, whatever else is in the sequence."""
    made, collator, split = prepared(datasets, model, task)
    packing = Collator.of(made, steps=collator.steps, pack=Packing(200))
    rows = split.take(np.arange(min(split.rows, 12)))
    alone, packed = collator(rows), packing(rows)
    assert len(packed["input_ids"]) < len(alone["input_ids"])
    assert int(packed["sequence_id"].max()) > 1
    with torch.no_grad():
        apart, together = made(alone), made(packed)
    if task != "none":
        torch.testing.assert_close(apart.loss, together.loss, rtol=1e-5, atol=1e-5)
    places = where_packed(alone, packed)
    for name in ("hidden", "tag"):
        if name in apart.logits:
            found = torch.stack([together.logits[name][b, t] for b, t in places])
            wanted = apart.logits[name][alone["sequence_id"] > 0]
            torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)
    if task == "mlm":
        labelled = alone["mlm_labels"][alone["sequence_id"] > 0] != -100
        order = {
            place: n for n, place in enumerate(map(tuple, (packed["mlm_labels"] != -100).nonzero().tolist()))
        }
        index = [order[place] for place, counts in zip(places, labelled.tolist(), strict=True) if counts]
        torch.testing.assert_close(together.logits["mlm"][index], apart.logits["mlm"], rtol=1e-5, atol=1e-5)


def where_packed(alone: Mapping[str, Tensor], packed: Mapping[str, Tensor]) -> list[tuple[int, int]]:
    """Of every token of rows alone, in order, its place in the packed batch: found by the tokens of its row."""
    parts: dict[tuple[int, ...], list[list[tuple[int, int]]]] = {}
    for b, ids in enumerate(packed["sequence_id"].tolist()):
        for number in range(1, max(ids) + 1):
            at = [(b, t) for t, own in enumerate(ids) if own == number]
            parts.setdefault(tuple(packed["input_ids"][b, t].item() for _, t in at), []).append(at)
    places: list[tuple[int, int]] = []
    for ids, real in zip(alone["input_ids"], alone["sequence_id"], strict=True):
        places += parts[tuple(ids[real > 0].tolist())].pop()
    assert not any(parts.values())
    return places


@pytest.mark.parametrize("task", ["pretrain", "classify", "tag", "span", "choice"])
@pytest.mark.parametrize("group", [None, "tree", "syntax", "coarse"])
def test_real_rows_are_collated_as_the_contract_says(
    datasets: Datasets, task: str, group: str | None
) -> None:
    collator = Collator(group, task)
    split = open_split(str(datasets[task]), "train", collator.columns)
    every = [column for column in split.columns if column in collator.columns]
    numbers = np.arange(min(split.rows, 8))
    rows = split.take(numbers)
    dicts: list[dict[str, Any]] = [{} for _ in numbers]
    for name in every:
        if name in rows.lists:
            values, offsets = rows.lists[name]
            for index, row in enumerate(dicts):
                row[name] = values[offsets[index] : offsets[index + 1]].tolist()
        else:
            for row, value in zip(dicts, rows.scalars[name].tolist(), strict=True):
                row[name] = value
    rows.number = numbers + 100
    literal.same(collator(rows), literal.batch(dicts, group, task, 8))
