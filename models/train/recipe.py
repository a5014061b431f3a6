"""The recipe: everything that a run of training depends on, in one typed YAML file.

What is not written has the default that is named here. `models.train.reading` reads the file.
"""

from __future__ import annotations

import fractions
import math
from typing import Annotated, Any, Literal, get_args

from pydantic import Field, field_validator, model_validator

from corpora.files import is_uri
from corpora.sections import MOST, Count, Section, number
from models.evaluate.options import HEEDED, Options

Positive = Annotated[float, Field(gt=0)]
Share = Annotated[float, Field(ge=0, lt=1)]
Name = Annotated[str, Field(min_length=1)]
ModelName = Literal["bert", "kbert", "unilm", "sgnet", "ambert"]
TaskName = Literal["mlm", "nsp", "pretrain", "classify", "regress", "tag", "span", "choice"]
TASK_NAMES: tuple[str, ...] = get_args(TaskName)
_PROGRESS = ("out", "workers", "threads", "save_every", "keep", "log_every", "eval_every", "tensorboard")
"""Keys by which no weight changes: a run may go on with others."""
LOOKED = ("best", "eval_every", "scores")
"""Keys by which the best look is chosen: a run may go on with others as long as there is none."""


class Source(Section):
    """A dataset, one of several."""

    folder: Name
    """The folder that `treegraft preprocess` or `encode` wrote, or its URI."""
    weight: Positive = 1.0
    """Share of the rows, beside those of the other datasets."""


class Data(Section):
    """What is read."""

    folder: list[Source]
    """Folder of the dataset; or a list, also of `{folder, weight}`: rows mixed by weight (for `mlm` tasks may
    differ, but seq2seq goes with its like alone)."""
    split: str = "train"
    """The split that is learned from."""
    dev: str | None = None
    """Another split, whose loss and metrics are told as training goes on."""
    dev_folder: Name | None = None
    """The folder of `dev`; default: the first of `folder`."""
    order: Literal["sequential", "block", "global"] = "block"
    """Rows as they lie; mixed in a moving window of blocks; or in any order (reads jump about)."""
    block: Count = 4096
    """Rows of a block."""
    window: Count = 16
    """Blocks among which rows are mixed."""

    @field_validator("folder", mode="before")
    @classmethod
    def _sources(cls, value: Any) -> Any:
        values = value if isinstance(value, list) else [value]
        if not values:
            raise ValueError("names no dataset: give at least one folder")
        return [{"folder": one} if isinstance(one, str) else one for one in values]

    @property
    def folder_of_dev(self) -> str:
        """Where `dev` lies."""
        return self.dev_folder or self.folder[0].folder


class BatchSize(Section):
    """How much is learned from at each step: the same rows for any number of processes and pieces."""

    rows: Count | None = None
    """Rows of a step, over all processes and pieces. Default: 32, unless `tokens` is given."""
    tokens: Count | None = None
    """Instead of `rows`: tokens of a step, padding included, in rows of like lengths. Of a question all choices
    count."""
    accumulate: Count = 1
    """A step's rows are computed in so many pieces, one after the other, for less memory. But for dropout, whose noise
    is drawn for each piece, gradients are the same; a run may go on with another number."""
    pack: Count | None = None
    """Short rows are packed into sequences of so many tokens (`mlm` and `tag` alone)."""

    @model_validator(mode="after")
    def _one(self) -> BatchSize:
        if self.rows is not None and self.tokens is not None:
            raise ValueError("batch.rows and batch.tokens both say how large a step is: drop one of them")
        return self


class New(Section):
    """A model from scratch: its size."""

    layers: Annotated[int, Field(ge=1, le=1_000)] = 4
    """`new`, instead of `init`, is a model from scratch, whose vocabulary is the dataset's."""
    width: Annotated[int, Field(ge=1, le=65_536)] = 256
    """Width of hidden states, a multiple of `heads`."""
    heads: Count = 4
    """Attention heads of a layer."""
    intermediate: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    """Width within a layer; default: four times `width`."""
    positions: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    """Longest sequence that fits; default: what the dataset needs."""
    dropout: Share = 0.1
    """Of hidden states and of attention."""


class Optim(Section):
    """AdamW, and what becomes of its rate."""

    lr: Positive = 1e-4
    """The highest learning rate."""
    betas: tuple[Share, Share] = (0.9, 0.999)
    """How slowly AdamW's two means forget."""
    eps: Positive = 1e-8
    """What AdamW adds to what it divides by."""
    weight_decay: Annotated[float, Field(ge=0)] = 0.01
    """Of matrices; biases and LayerNorm have none."""
    warmup: Annotated[float, Field(ge=0)] = 0.1
    """The rate rises from 0 over so many steps, or, below 1, over such a share of all steps."""
    schedule: Literal["linear", "cosine", "constant"] = "linear"
    """How the rate falls from then on: to 0 on a line or on a cosine, or not at all."""
    clip: Positive | None = 1.0
    """Longest gradient; a longer one is scaled down to it. `null`: any."""
    steps: Count | None = None
    """Steps of the run."""
    epochs: Annotated[float, Field(gt=0, le=MOST)] | None = None
    """Instead of `steps`: times that the data is gone through."""

    @model_validator(mode="after")
    def _one(self) -> Optim:
        if (self.steps is None) == (self.epochs is None):
            raise ValueError("the length of a run is optim.steps or optim.epochs: write one of them")
        return self

    def steps_in_all(self, epoch: int) -> int:
        """Steps of a run whose epochs have so many each; 0.07 times 100 is 7, which floats have a little more for."""
        return self.steps or math.ceil(fractions.Fraction(str(self.epochs)) * epoch)


class Recipe(Section):
    """One run of training."""

    model: ModelName
    """Which system."""
    task: TaskName
    """What is learned: masked tokens (`mlm`, of any rows but those of choice), next sentences (`nsp`), or both
    (`pretrain`); else what the rows are labelled for. `mlm` by `model: unilm` learns the targets of seq2seq rows."""
    options: dict[str, Any] = {}
    """Options of the model, switches of ablations; default: those that `init` was saved with, but for `lm`. kbert:
    `graph`, `soft_positions`, `visible_matrix`; unilm: `lm`, `types`, `smoothing` (of labels; the paper's 0.1 for
    generation); sgnet: `direction`, `alpha`, `aggregation`, `softmax`; ambert: `variant`, `granularity`, `masked`,
    `classifiers`, `agreement` (0.01 where masked tokens alone taught small weights; variant `hybrid` has none),
    `agree_on` (`cls`, `predictions`)."""
    init: Name | None = None
    """Checkpoint to begin from: a folder (such as `model` in the `out` of another run) or an id on the hub."""
    new: New | None = None
    """Instead of `init`: a model from scratch. Its vocabulary is the dataset's."""
    dropout: Share | None = None
    """Of hidden states and of attention, instead of that of `init`: fine-tuning often wants another than pretraining.
    (Of a model from scratch: `new.dropout`.)"""
    data: Data
    batch: BatchSize = BatchSize()
    masking: dict[str, Any] = {}
    """Which tokens are masked and how, for tasks that predict them (`models.collate.mlm.Masking`): `rate` (0.15; of
    seq2seq rows 0.7 of the target), `units` (`token`, `word`, `coarse`, `ngram`), `part` (`all`,
    `target`), `budget`, `max_predictions`, `branches`, `shares`, `corrupted_by`, `coarse`"""
    kinds: dict[str, Any] = {}
    """Of unilm: shares of its kinds of language model, `bidirectional`, `left_to_right`, `right_to_left` and `seq2seq`;
    default: a third, a sixth, a sixth, a third; seq2seq rows: `seq2seq` alone. With `options.lm` all rows are of it."""
    optim: Optim
    precision: Literal["fp32", "bf16"] = "fp32"
    """`bf16`: matrices are multiplied in bfloat16 (autocast); weights and their updates stay in single precision."""
    attention: Literal["sdpa", "eager", "flex_attention"] = "sdpa"
    """Code of the attention: `sdpa` is torch's, which keeps no scores of all pairs (who sees whom is a byte for each,
    once for all layers); `eager` keeps them, and is a quarter faster in bf16 on processors while rows are short;
    `flex_attention` is compiled, for GPUs."""
    compile: bool = False
    """Compile the layers with torch.compile: slow to begin, faster from then on."""
    checkpointing: bool = False
    """Keep only what goes into each layer, and compute the rest again going back: less memory, a third slower."""
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    """Of new weights, order, masks and dropout."""
    deterministic: bool = True
    """Same bits from run to run on a GPU too, where that is slower; on processors it is so anyway."""
    out: str
    """Folder for checkpoints, metrics, curves and the trained model."""
    workers: Annotated[int, Field(ge=0, le=4096)] = 0
    """Processes that read ahead; 0 reads in between, which is enough for most on processors. A GPU waits for it: there
    take 1 or more."""
    threads: Annotated[int, Field(ge=1, le=4096)] | None = None
    """Processor threads of a process; default: `OMP_NUM_THREADS`, or the cores there are, divided among the
    processes. Sums over another number of threads may differ in the last bit."""
    save_every: Count = 500
    """Steps from one checkpoint to the next."""
    keep: Count = 2
    """Checkpoints that are kept, the newest."""
    log_every: Count = 10
    """Steps from one line of metrics.jsonl to the next. (The screen shows one every few seconds.)"""
    eval_every: Count | None = None
    """Steps from one look at `data.dev` to the next; default: at each end of an epoch. There is one at the end."""
    best: str | None = None
    """A score of `data.dev`, such as `accuracy`, `entity_f1`, `f1`, `loss`: `model` in `out` is then of the look whose
    score is best (the least of losses; of equals that of the least `loss`), not of the last step."""
    scores: Options = Options()
    """How the task is scored, at `data.dev` and by `treegraft evaluate`."""
    tensorboard: bool = False
    """Write metrics for TensorBoard, too (pip install 'treegraft[tensorboard]')."""

    @field_validator("task", mode="before")
    @classmethod
    def _of_targets(cls, value: Any) -> Any:
        if value == "seq2seq":
            raise ValueError("rows of task seq2seq are learned from by model: unilm under task: mlm")
        return value

    @field_validator("options", "masking", "kinds", mode="before")
    @classmethod
    def _numbers_in(cls, value: Any) -> Any:
        return number(value)

    @field_validator("out")
    @classmethod
    def _local(cls, value: str) -> str:
        if not value or is_uri(value):
            raise ValueError(
                f"found {value!r}, expected a folder of this machine (checkpoints are locked and renamed there)"
            )
        return value

    @model_validator(mode="after")
    def _fits_together(self) -> Recipe:
        given = [name for name, value in self.scores if value != Options.model_fields[name].default]
        strange = [name for name in given if name not in HEEDED.get(self.task, ())]
        for wrong, message in (
            (
                self.init is not None and self.new is not None,
                "init and new both say where weights come from: drop one of them",
            ),
            (
                self.init is None and self.new is None,
                "write init: CHECKPOINT, or new: {layers: 4, width: 256, heads: 4} for a model from scratch",
            ),
            (
                self.new is not None and self.new.width % self.new.heads != 0,
                "new.width must be a multiple of new.heads",
            ),
            (
                self.new is not None and self.dropout is not None,
                "dropout is instead of that of init; of a model from scratch write new.dropout, and drop dropout",
            ),
            (
                self.data.dev_folder is not None and self.data.dev is None,
                "data.dev_folder is the folder of data.dev: name the split",
            ),
            (
                self.eval_every is not None and self.data.dev is None,
                "eval_every says when data.dev is looked at: name the split",
            ),
            (self.best is not None and self.data.dev is None, "best is a score of data.dev: name the split"),
            (
                bool(strange),
                f"{', '.join(f'scores.{name}' for name in strange)}: not heeded by task {self.task!r}, which has "
                f"{', '.join(HEEDED.get(self.task, ())) or 'no keys of scores'}: drop it",
            ),
        ):
            if wrong:
                raise ValueError(message)
        return self

    def lasting(self) -> dict[str, Any]:
        """What weights depend on, as plain values: two runs that agree in it are the same run.

        Folders of data are left out, for data may move; a stream knows its rows by their fingerprint.
        """
        found = self.model_dump(mode="json", exclude={*_PROGRESS, "scores"})
        if self.best is not None:  # by which looks, and by whose rules
            found["eval_every"] = self.eval_every
            if scores := self.scores.model_dump(mode="json", exclude_defaults=True):
                found["scores"] = scores
        del found["batch"]["accumulate"]
        found["data"]["folder"] = [source["weight"] for source in found["data"]["folder"]]
        found["data"].pop("dev_folder")
        return settled(found)


def settled(lasting: dict[str, Any]) -> dict[str, Any]:
    """The same with the defaults that follow from other keys, and of keys that earlier releases did not have: written
    out they make no other run."""
    match lasting:
        case {"batch": {"rows": None, "tokens": None} as batch}:
            batch["rows"] = 32
    match lasting:
        case {"new": {"intermediate": None, "width": int(width)} as new}:
            new["intermediate"] = 4 * width
    return {"attention": "sdpa", **lasting}  # the only one there was, before it was a key
