"""The collator: rows of a stream to a model's batch. View, steps, packing, padding."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from torch import Tensor

from corpora.schema import TASKS as DATASETS
from models.bert_batch import COARSE, FINE, SPLITS, SYNTAX, TREE, BatchError
from models.collate.pack import Packing
from models.collate.pad import tensors
from models.collate.sequences import Step
from models.collate.views import OF_TRUNK, check_group, view
from models.heads import TASKS
from models.stream.order import check_whole
from models.stream.rows import Rows

_VIEWS = {
    "base": tuple(FINE),
    "tree": (*TREE, "branch_parents", "tree_trunk_index"),
    "syntax": (*FINE, "word_index", *SYNTAX, "sentence_index"),
    "coarse": (*FINE, *COARSE, "coarse_index"),
}
_DATASETS = {
    "none": DATASETS,
    "mlm": tuple(name for name in DATASETS if name != "choice"),  # whose rows are all choices end to end
    "nsp": ("pretrain",),
    "regress": ("classify",),
}
"""Tasks of datasets that a model's task reads, the usual one first, where it is not the one of its name."""


class Reads(Protocol):
    """What the collator asks of a model (`models.bert.Bert`)."""

    group: Any
    task: Any

    @property
    def columns(self) -> tuple[str, ...]: ...


@dataclass(frozen=True)
class Collator:
    """`collator(rows) -> batch`; it can be sent to the workers of a loader.

        collator = Collator.of(model, steps=(Masking(...),))
        split = open_split(folder, "train", collator.columns)
        for batch in Loader(split, 64, collate=collator): model(batch)

    Attributes:
        group: the view: None or `base`, `tree`, `syntax`, `coarse`.
        task: the model's (`models.heads.TASKS`).
        steps: what is done to sequences, in this order.
        pad_to: widths of tensors are multiples of it.
        pack: several rows to one sequence of the batch; None: each its own.
        columns: of the dataset, to open the split with: given those of the model (without: the whole view and the
            task's labels), and those of the steps.

    Raises:
        ValueError: a setting is wrong, or the task's rows cannot be packed.
    """

    group: str | None = None
    task: str = "none"
    steps: tuple[Step, ...] = ()
    pad_to: int = 8
    pack: Packing | None = None
    columns: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_group(self.group)
        if self.task not in TASKS:
            raise ValueError(f"task is {self.task!r}, expected one of {', '.join(TASKS)}")
        check_whole("pad_to", self.pad_to, 1)
        if self.pack is not None:
            self.pack.check(self.task)
        object.__setattr__(self, "columns", self._needed())

    @classmethod
    def of(
        cls, model: Reads, *, steps: Iterable[Step] = (), pad_to: int = 8, pack: Packing | None = None
    ) -> Collator:
        """Of a model: its view, its task, its columns."""
        return cls(model.group, model.task.name, tuple(steps), pad_to, pack, model.columns)

    def __call__(self, rows: Rows) -> dict[str, Tensor]:
        """The batch of n rows, n at least 1 (`models.collate.pad.tensors` names what it holds).

        Raises BatchError where rows lack a column, or do not hold what their columns say.
        """
        sequences = view(rows, self.group)
        for step in self.steps:
            sequences = step(sequences)
        if self.pack is not None:
            sequences = self.pack(sequences)
        return tensors(sequences, self.pad_to)

    @property
    def length_column(self) -> str:
        """The column whose lengths are those of sequences, for batches of like lengths (`models.collate.buckets`)."""
        return "tree_ids" if self.group == "tree" else "input_ids"

    @property
    def datasets(self) -> tuple[str, ...]:
        """Tasks of datasets whose rows it reads, the usual one first."""
        return _DATASETS.get(self.task, (self.task,))

    def check_dataset(self, metadata: Mapping[str, Any]) -> None:
        """Raise BatchError where a dataset of this metadata (`Split.metadata`) holds rows of another task."""
        found = metadata.get("task")
        if found not in self.datasets:
            raise BatchError(
                f"task {self.task!r} learns from rows of task {' or '.join(self.datasets)}, the dataset's are of "
                f"{found!r}: preprocess the corpus for the task"
            )

    def _needed(self) -> tuple[str, ...]:
        needed = list(self.columns)
        if not needed:
            needed += _VIEWS[self.group or "base"]
            needed += TASKS[self.task].columns
            needed += SPLITS.get(self.group or "", ()) if self.task == "choice" else ()
        needed += [name for step in self.steps for name in step.columns]
        if self.group == "tree" and any(name in OF_TRUNK for name in needed):
            needed.append("tree_trunk_index")
        return tuple(dict.fromkeys(needed))
