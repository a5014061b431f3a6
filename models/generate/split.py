"""Targets for every row of a split, each once, in the dataset's order, whatever batches and processes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch

from corpora.ragged import counts
from models.bert_batch import FINE, BatchError
from models.collate.buckets import Buckets
from models.collate.collator import Collator
from models.evaluate.measure import Scores
from models.evaluate.predict import collected, divided, in_order
from models.evaluate.texts import text_scores
from models.generate.search import Generated, Search, generate
from models.generate.spelling import Speller
from models.ranks import Ranks
from models.stream.batches import Grouping
from models.stream.rows import Rows
from models.stream.shards import Split
from models.unilm import UniLM

_SCHEMA = pa.schema(
    {
        "number": pa.int64(),
        "id": pa.string(),
        "source": pa.string(),
        "reference": pa.string(),
        "target_cut": pa.bool_(),
        "hypotheses": pa.list_(pa.struct({"text": pa.string(), "score": pa.float64(), "ended": pa.bool_()})),
    }
)
_ANY = 2**62
"""Tokens of a batch: rows alone bound it."""
_ROWS_AT_ONCE, _DIGITS = 16384, 4


def write_targets(
    model: UniLM,
    split: Split,
    search: Search,
    speller: Speller,
    *,
    batch_size: int = 32,
    grouping: Grouping | None = None,
    ranks: Ranks | None = None,
    precision: Literal["fp32", "bf16"] = "fp32",
    workers: int = 0,
    tell: Callable[[int], None] = lambda rows: None,
) -> pa.Table:
    """Generate a target for every source of a split; in the first process a row for each, in the others none.

    Args:
        split: opened with `source_columns` its dataset.
        batch_size: rows over all processes; of like lengths, so that few steps and little padding are wasted.
        grouping: batches of other sizes instead.
        tell: called with the number of rows that this process has done, batch by batch.

    Returns:
        `number`, `id`, `source`, `reference` (null where there is none), `target_cut` (the row's own target is not
        all of it), `hypotheses`: `text`, `score` (`Generated.score`, to 4 digits), `ended`.

    Raises:
        BatchError: what `generate` and `check_room` raise.
    """
    ranks = ranks or Ranks()
    collator, size = Collator(columns=tuple(FINE)), divided(batch_size, ranks)
    alike = grouping or Buckets(_ANY, rows=size, column=collator.length_column)
    tables = []
    for batch, rows in in_order(model, split, collator, size, alike, ranks, workers):
        with torch.autocast(model.device.type, torch.bfloat16, enabled=precision == "bf16"):
            found = generate(model, batch, search)
        table = _table(rows, found, speller).filter(pa.array(rows.weight > 0))
        tables.append(table)
        tell(len(table))
    return collected(pa.concat_tables(tables), ranks)


def source_columns(metadata: Mapping[str, Any]) -> tuple[str, ...]:
    """Columns to open a split with: of task `seq2seq`, or of `classify`, whose rows of one text are sources alone.

    Raises BatchError where the dataset is of another task.
    """
    task = metadata.get("task")
    if task not in ("seq2seq", "classify"):
        raise BatchError(
            f"generation reads rows of task 'seq2seq', or of 'classify' with one text (sources without targets); the "
            f"dataset's are of {task!r}: preprocess the corpus for the task"
        )
    return (*FINE, "id", "text", "text_pair", *(("target_cut",) if task == "seq2seq" else ()))


def scores_of(table: pa.Table, speller: Speller) -> Scores:
    """ROUGE and BLEU of the best hypotheses (`models.evaluate.texts`), over rows that have a reference; else none."""
    table = table.filter(pc.is_valid(table["reference"]))
    wanted = [speller.spelled(text) for text in table["reference"].to_pylist()]
    best = [found[0]["text"] if found else "" for found in table["hypotheses"].to_pylist()]
    return text_scores(wanted, best)


def longest_source(split: Split) -> tuple[int, int]:
    """Most tokens of a source ([CLS] and [SEP] among them), and the number of its row.

    `split`: opened with `token_type_ids`. Raises BatchError where rows of `classify` are pairs.
    """
    most, row, alone = 0, 0, split.metadata.get("task") == "classify"
    for rows in split.chunks(_ROWS_AT_ONCE):
        types, offsets = rows.lists["token_type_ids"]
        if alone and types.any():
            raise BatchError(
                f"rows of {split.name} are pairs of texts to classify: for sources and targets preprocess the corpus "
                "with task: seq2seq"
            )
        lengths = counts(types == 0, offsets)
        at = int(lengths.argmax())
        if lengths[at] > most:
            most, row = int(lengths[at]), int(rows.number[at])
    return most, row


def room_of(
    model: UniLM, split: Split, wanted: int | None, *, usual: int = 64, least: int = 16
) -> tuple[int, str]:
    """Most tokens of a target, and a line to tell where that is less than usual.

    Args:
        split: opened with `source_columns` its dataset.
        wanted: None: `usual`, or what the longest source leaves if that is `least` or more.

    Raises:
        BatchError: behind the longest source there is less room than is wanted; or rows are pairs that no model
            writes the second text of.
    """
    longest, row = longest_source(split)
    positions = model.config.max_position_embeddings
    room = positions - longest
    if room >= (wanted or usual):
        return wanted or usual, ""
    name = split.take(np.array([row])).texts["id"][0].as_py()
    says = f"the source of row {name} takes {longest:,} of the model's {positions:,} positions"
    left = positions - (wanted or usual) - 2
    cure = "with new.positions in the recipe train a model that has more positions"
    if left > 0:  # else so long a target leaves no room for any source
        cure = f"encode with encode.seq2seq.max_source: {left:,}, which keeps the annotations, or {cure}"
    if wanted is None and room >= least:
        return room, f"targets are of {room:,} tokens at most, for {says}"
    fits = f"take --max-target-length {room:,}, or " if room > 0 else ""
    raise BatchError(f"{says}, and a target of {wanted or usual:,} tokens may follow: {fits}{cure}")


def _table(rows: Rows, found: Generated, speller: Speller) -> pa.Table:
    texts = {name: rows.texts[name].to_pylist() for name in ("id", "text", "text_pair")}
    columns: dict[str, Iterable[Any]] = {
        "number": rows.number,
        "id": texts["id"],
        "source": texts["text"],
        "reference": texts["text_pair"],
        "target_cut": rows.scalars.get("target_cut", np.zeros(len(rows), np.bool_)),
        "hypotheses": [
            [
                {"text": speller.text(tokens), "score": round(score, _DIGITS), "ended": ended}
                for tokens, score, ended in zip(answers, scores, ends, strict=False)
            ]
            for answers, scores, ends in zip(
                found.lists(), found.score.tolist(), found.ended.tolist(), strict=True
            )
        ],
    }
    return pa.table(columns, schema=_SCHEMA)
