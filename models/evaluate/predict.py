"""A model's predictions for every row of a split, each once, in the dataset's order, whatever ranks and batches."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa
import torch
from torch import Tensor, distributed

from models.bert import Bert
from models.bert_batch import Batch, need_columns
from models.collate.collator import Collator
from models.evaluate.measure import Measure, Scores
from models.evaluate.options import Options
from models.output import Output, summed
from models.ranks import Ranks
from models.stream.batches import Grouping
from models.stream.loader import Loader
from models.stream.rows import Rows
from models.stream.shards import Split


@dataclass(frozen=True)
class _WithRows:
    """A collator's batches, each with the rows it was made of."""

    collator: Collator

    def __call__(self, rows: Rows) -> tuple[dict[str, Tensor], Rows]:
        return self.collator(rows), rows


@dataclass(frozen=True)
class Predictions:
    """Of a whole split in the first process; in the others of no row.

    Attributes:
        table: what the measure read, a row for each row of the split, by `number`.
        losses: `loss` and its parts where there are several, means over all predictions that have a label; in every
            process.
    """

    table: pa.Table
    losses: Scores


@torch.no_grad()
def predict(
    model: Bert,
    split: Split,
    measure: Measure,
    collator: Collator,
    options: Options,
    *,
    batch_size: int = 32,
    grouping: Grouping | None = None,
    ranks: Ranks | None = None,
    precision: Literal["fp32", "bf16"] = "fp32",
    workers: int = 0,
) -> Predictions:
    """Run a model over a split. It is left in the mode (training or not) that it was in.

    Args:
        split: opened with the columns of the collator and of the measure.
        collator: rows are not packed, whatever it says.
        batch_size: rows over all ranks; a number that ranks do not divide is rounded up.
        grouping: batches of like lengths instead.

    Raises:
        BatchError: the split lacks a column, or the batch does not fit the model.
    """
    ranks = ranks or Ranks()
    need_columns(measure.columns, split.columns, "evaluation")
    apart = dataclasses.replace(collator, pack=None)
    losses, tables = _Losses(), []
    training = model.training
    model.eval()
    try:
        for batch, rows in in_order(
            model, split, apart, divided(batch_size, ranks), grouping, ranks, workers
        ):
            if measure.known is not None:
                known = torch.from_numpy(measure.known(rows)).to(batch["row_weight"].device)
                batch = {**batch, "row_weight": batch["row_weight"] * known}
            with torch.autocast(model.device.type, torch.bfloat16, enabled=precision == "bf16"):
                output = model(batch)
            losses.add(output)
            read = measure.read(output, model.labelled(batch), rows, options)
            tables.append(read.filter(pa.array(rows.weight > 0)))
    finally:
        model.train(training)
    means = _Losses.mean(ranks.gather(losses))
    return Predictions(collected(pa.concat_tables(tables), ranks), means)


def divided(batch_size: int, ranks: Ranks) -> int:
    """Rows of a batch over all ranks: so many, or the next number that ranks divide."""
    return -(-batch_size // ranks.count) * ranks.count


def moved(model: Bert, batch: Batch, device: torch.device) -> Batch:
    """The batch on the device where the model runs, held against the model before it goes there: a number that leaves a
    GPU is waited for, so a model looks at no batch there. What is pinned is copied without a wait.

    Raises BatchError where it does not fit (`Bert.check`).
    """
    if device.type == "cpu":
        return batch  # the model looks at it
    model.check(batch)
    return {name: tensor.to(device, non_blocking=True) for name, tensor in batch.items()}


def in_order(
    model: Bert,
    split: Split,
    collator: Collator,
    batch_size: int,
    grouping: Grouping | None,
    ranks: Ranks,
    workers: int,
) -> Iterator[tuple[Batch, Rows]]:
    """This rank's share of all rows of a split as they lie, once: batches where the model is, with the rows of each."""
    loader = Loader(
        split,
        batch_size,
        order="sequential",
        collate=_WithRows(collator),
        grouping=grouping,
        rank=ranks.rank,
        ranks=ranks.count,
        workers=workers,
    )
    for batch, rows in loader:
        yield moved(model, batch, model.device), rows


def collected(own: pa.Table, ranks: Ranks) -> pa.Table:
    """The table rows of all processes by `number`, in the first process; in the others none."""
    if ranks.count == 1:
        return own.sort_by("number")
    parts: list[Any] | None = [None] * ranks.count if ranks.first else None
    distributed.gather_object(own, parts)  # the first process alone has to hold them all
    return own.slice(0, 0) if parts is None else pa.concat_tables(parts).sort_by("number")


class _Losses:
    """Sums of a process's losses and the predictions they are of, by part; what a part weighs in the loss."""

    def __init__(self) -> None:
        self.sums: dict[str, float] = {}
        self.counts: dict[str, float] = {}
        self.weights: dict[str, float | None] = {}

    def add(self, output: Output) -> None:
        for name, part in output.parts.items():
            count = float(output.counts[name])
            self.sums[name] = self.sums.get(name, 0.0) + float(part) * count
            self.counts[name] = self.counts.get(name, 0.0) + count
        self.weights |= output.weights

    @staticmethod
    def mean(all_of: Sequence[_Losses]) -> Scores:
        weights = {name: weight for one in all_of for name, weight in one.weights.items()}
        counts = {name: sum(one.counts.get(name, 0.0) for one in all_of) for name in weights}
        means = {
            name: sum(one.sums.get(name, 0.0) for one in all_of) / count
            for name, count in counts.items()
            if count
        }
        if not means:
            return {}
        loss = {"loss": summed(means, counts, weights)}
        return loss | ({f"loss_{name}": mean for name, mean in means.items()} if len(means) > 1 else {})
