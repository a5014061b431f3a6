"""Counts that only rows of one task have: windows and answers, choices, targets.

Rows of multiple choice hold a sequence a choice; whatever is counted by sequence is counted by choice there.
R rows, Q sequences.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.view.histogram import Histogram
from pipelines.view.splitstats import SplitStats, flat_list, sums

_SIZES = {
    "input_ids": "choice_lengths",
    "word_heads": "choice_words",
    "word_deprels": "choice_words",
    "sentence_index": "choice_words",
    "coarse_ids": "choice_coarse",
    "tree_ids": "choice_tree",
    "tree_branch": "choice_tree",
    "tree_mention": "choice_tree",
    "tree_soft_positions": "choice_tree",
    "branch_triples": "choice_branches",
    "branch_parents": "choice_branches",
}
_NUMBERS = "number of the window"
"""Histogram that `finish_windows` makes the windows of questions from."""


def sequences(batch: pa.RecordBatch, name: str) -> tuple[np.ndarray, np.ndarray]:
    """A list column's values, and int64[Q + 1] offsets of the sequences in them: of rows, or of choices."""
    values, offsets = flat_list(batch, name)
    sizes = _SIZES.get(name, "")
    if sizes not in batch.schema.names:
        return values, offsets
    lengths, _ = flat_list(batch, sizes)
    if len(lengths) and (lengths.min() < 0 or lengths.sum(dtype=np.int64) != len(values)):
        return values, offsets  # a wrong row, for `verify` to tell
    return values, np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)])


def rows_with(flags: np.ndarray, batch: pa.RecordBatch) -> int:
    """Rows of which some sequence is flagged, bool[Q]."""
    if "choice_lengths" in batch.schema.names:
        choices = np.diff(flat_list(batch, "choice_lengths")[1])
        if int(choices.sum()) == len(flags):
            return len(np.unique(np.repeat(np.arange(len(choices)), choices)[flags]))
    return int(flags.sum())


def _count_windows(split: SplitStats, batch: pa.RecordBatch) -> None:
    """Tally `questions`, `impossible` (questions), `null_spans` (rows)."""
    start, stop = (batch.column(f"answer_{edge}").to_numpy().astype(np.int64) for edge in ("start", "stop"))
    answered = (start != 0) | (stop != 1)
    numbers = pc.extract_regex(batch.column("id"), r"#(?P<n>\d{1,6})$")
    number = pc.fill_null(pc.struct_field(numbers, "n").cast(pa.int64()), -1).to_numpy()
    first = number == 0
    types, rows = flat_list(batch, "token_type_ids")
    asked = np.diff(rows) - sums(types == 1, rows)
    golds = np.diff(flat_list(batch, "answers")[1])
    split.histogram(_NUMBERS).add(number[number >= 0])
    split.histogram("gold answers").add(golds[first])
    split.histogram("question tokens").add(np.maximum(asked - 2, 0)[first])  # [CLS] and [SEP]
    split.histogram("answer tokens").add(np.maximum(stop - start, 0)[answered])
    impossible = batch.column("is_impossible").to_numpy(zero_copy_only=False).astype(bool)
    split.tally.update(
        questions=int(first.sum()),
        impossible=int((impossible & first).sum()),
        null_spans=int((~answered).sum()),
    )


def finish_windows(split: SplitStats) -> None:
    """Windows of each question, from how many rows are a first, second, ... window."""
    numbers = split.histograms.pop(_NUMBERS, None)
    if numbers is None:
        return
    windows = Histogram()
    windows.counts = np.maximum(np.append(0, numbers.counts - np.append(numbers.counts[1:], 0)), 0)
    split.histogram("windows").merge(windows)


def _count_choices(split: SplitStats, batch: pa.RecordBatch) -> None:
    split.histogram("choices").add(np.diff(flat_list(batch, "choice_lengths")[1]))


def _count_targets(split: SplitStats, batch: pa.RecordBatch) -> None:
    """Tally `targets_cut` (rows)."""
    cut = batch.column("target_cut").to_numpy(zero_copy_only=False).astype(bool)
    types, rows = flat_list(batch, "token_type_ids")
    target = sums(types == 1, rows)
    split.histogram("source tokens").add(np.maximum(np.diff(rows) - target - 2, 0))
    split.histogram("target tokens").add(np.maximum(target - ~cut, 0))
    split.tally["targets_cut"] += int(cut.sum())


def count_questions(split: SplitStats, batch: pa.RecordBatch) -> None:
    """Answers and choices of annotated documents. Tally `questions`, `impossible`, `unplaced` (answers)."""
    answers = batch.column("answers")
    if asked := len(answers) - answers.null_count:
        split.histogram("gold answers").add(pc.list_value_length(answers).drop_null().to_numpy())
        impossible = pc.sum(batch.column("is_impossible")).as_py() or 0
        unplaced = pc.sum(pc.less(batch.column("answer_starts").flatten(), 0)).as_py() or 0
        split.tally.update(questions=asked, impossible=impossible, unplaced=unplaced)
    choices = pc.list_value_length(batch.column("choice_starts")).drop_null()
    if len(choices):
        split.histogram("choices").add(choices.to_numpy())
    second = batch.column("text_pair")
    if len(second) > second.null_count:
        split.histogram("characters of the second text").add(pc.utf8_length(second).drop_null().to_numpy())


COUNTED: Mapping[str, Callable[[SplitStats, pa.RecordBatch], None]] = {
    "span": _count_windows,
    "choice": _count_choices,
    "seq2seq": _count_targets,
}
"""By task, what counts a record batch of its rows."""
