"""The loop. A step: its rows, their gradients, one move of the weights; now and then a look, now and then a checkpoint.

Two things make a run the same however it is computed. The loss of a step is a mean over its predictions, so each
piece of it (on another process, or one after the other) weighs its own by how many there are in all: gradients of any
number of ranks and pieces are those of one batch. And nothing random has a state: order and masks are functions of
the recipe's seed and a row's number, dropout begins anew at each step from (seed, step, rank); so a run that goes on
from a checkpoint does what it would have done. (With another number of ranks dropout differs, and nothing else.)
"""

from __future__ import annotations

import contextlib
import itertools
import math
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import torch
from rich.console import Console
from torch import Tensor

from models.bert import Bert
from models.evaluate.evaluation import columns_of, evaluate
from models.output import Output
from models.ranks import Ranks, joined
from models.stream.hashing import key_of
from models.stream.loader import Loader
from models.stream.loader import StateError as LoaderError
from models.train import folder
from models.train import state as states
from models.train.curves import write_curves
from models.train.data import (
    Share,
    check_rows,
    check_steps,
    make_buckets,
    make_collator,
    make_loader,
    open_dev,
    open_rows,
    row_ids,
)
from models.train.facts import facts, grouped
from models.train.interrupt import deferred
from models.train.log import Log, Losses
from models.train.parts import (
    check_model,
    make_model,
    make_optimizer,
    prepare,
    rate,
    same_tokens,
)
from models.train.recipe import Recipe

T = TypeVar("T")
_NO_LIMIT = math.inf


class TrainingError(ValueError):
    """Training cannot go on; the message says at which step, and of which rows."""


def train(recipe: Recipe, console: Console, *, overwrite: bool = False) -> Path:
    """Train as a recipe says, from its newest checkpoint on if there is one; the folder of the trained model.

    A run that is interrupted (Ctrl-C, SIGTERM) ends its step, keeps a checkpoint and raises KeyboardInterrupt.

    Raises RecipeError, StateError, TrainingError and what opening datasets raises: all ValueErrors or OSErrors.
    """
    out = Path(recipe.out)
    with contextlib.ExitStack() as held, joined(recipe.threads, recipe.deterministic) as ranks:
        newest, error = None, None
        try:  # the first process alone holds the folder; the others learn from it what is there
            if ranks.first:
                check_model(recipe)
                check_steps(recipe)
                newest = held.enter_context(folder.held(out, recipe, overwrite))
        except (ValueError, OSError) as raised:
            error = raised
        ranks.together(error)
        newest = ranks.gather(newest)[0]
        try:
            run = _Run(recipe, console, ranks, newest)
        except (ValueError, OSError) as raised:
            error = raised
        ranks.together(error)
        return run.train()


class _Run:
    """One process's run: what the recipe was made into."""

    stops = False
    """Whether a process was asked to stop before the step."""
    asked: Callable[[], bool] = staticmethod(lambda: False)
    """Whether this one was, by now."""

    def __init__(self, recipe: Recipe, console: Console, ranks: Ranks, newest: Path | None) -> None:
        self.recipe, self.ranks, self.out = recipe, ranks, Path(recipe.out)
        split = open_rows(recipe)
        check_rows(recipe, split.metadata)
        if recipe.data.dev:
            check_rows(recipe, open_dev(recipe, ("input_ids",)).metadata)
        self.model = make_model(recipe, split, str(newest) if newest else None).to(ranks.device)
        collator = make_collator(recipe, self.model, split.metadata)
        self.collator = collator
        self.loader = make_loader(recipe, collator, ranks)
        self.dev = open_dev(recipe, columns_of(self.model, collator)) if recipe.data.dev else None
        self.optimizer = make_optimizer(self.model, recipe.optim)
        self.tokenizer = states.read_tokenizer(recipe.data.folder[0].folder)
        self.steps = recipe.optim.steps or math.ceil((recipe.optim.epochs or 1) * len(self.loader))
        self.begin, window = 0, None
        if newest is not None:
            found = states.read(newest)
            states.restore(newest, self.model, self.optimizer)
            self.resume(found.loader)
            self.begin, window = found.step, found.window
        prepare(self.model, recipe)
        self.module = ranks.shared(self.model)
        self.log = Log(self.out, console, recipe, self.begin, self.steps, quiet=not ranks.first)
        self.log.window = window or self.log.window
        if ranks.first:
            folder.write_run(self.out, facts(recipe, self.model, collator, self.steps, split, ranks))
        self.tell(newest)

    def tell(self, newest: Path | None) -> None:
        """What is about to be done, to who watches."""
        recipe, device, log = self.recipe, self.ranks.device.type, self.log
        times = f"{self.ranks.count} x " if self.ranks.count > 1 else ""
        how = f"{times}{device}, {recipe.precision}"
        if newest is not None:
            log.say(f"going on after step {self.begin:,} of {self.steps:,} ({newest}) · {how}")
        else:
            log.say(f"{recipe.model} {recipe.task}: {_size(self.model)} · {how} · {self.loader.describe()}")
        if device == "cpu" and recipe.precision == "bf16":
            log.say("precision: bf16 is slower than fp32 on a processor; it is for GPUs")
        if recipe.init is None or newest is not None:
            return
        if self.model.drawn:
            log.say(f"not in {recipe.init}, so begun anew: {', '.join(grouped(self.model.drawn))}")
        if not same_tokens(recipe.init, recipe.data.folder[0].folder):
            log.say(
                f"{recipe.init} has neither tokenizer.json nor vocab.txt here, so whether its tokens are the dataset's "
                "was not compared"
            )

    def resume(self, state: Mapping[str, Any]) -> None:
        """Put the stream where a checkpoint left it. Raises StateError where that was another."""
        try:
            self.loader.load_state_dict(state)
        except LoaderError as error:
            mine, there = self.loader.state_dict()["stream"], state.get("stream")
            other = isinstance(there, Mapping) and there.get("data") != mine["data"]
            folders = ", ".join(source.folder for source in self.recipe.data.folder)
            said = f"data.folder: other rows there than those of {folders}" if other else str(error)
            raise folder.another(self.out, [said]) from None

    def train(self) -> Path:
        """All steps that are left."""
        recipe, optim = self.recipe, self.recipe.optim
        self.model.train()
        shares, epoch = _endless(self.loader), self.loader.epoch
        with self.log, deferred(self.ranks.count == 1) as self.asked:
            for step in range(self.begin + 1, self.steps + 1):
                share = next(shares)
                torch.manual_seed(key_of(recipe.seed, step, self.ranks.rank))
                learning = rate(optim, step - 1, self.steps)
                for group in self.optimizer.param_groups:
                    group["lr"] = learning
                losses = self.gradients(share)
                norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), optim.clip or _NO_LIMIT)
                self.check(step, share, losses, float(norm))
                self.optimizer.step()
                self.optimizer.zero_grad()
                self.log.step(step, losses, lr=learning, grad_norm=float(norm))
                last, ended = step == self.steps, self.loader.epoch != epoch
                epoch = self.loader.epoch
                with self.aside():
                    due = step % recipe.eval_every == 0 if recipe.eval_every else ended
                    if self.dev is not None and (last or due):
                        self.log.dev(step, self.look())
                    stops = not last and (self.stops or (self.ranks.count == 1 and self.asked()))
                    if self.ranks.first and (last or stops or step % recipe.save_every == 0):
                        self.save(step)
                    if stops:
                        self.stop(step)
            if self.ranks.first:
                return self.finish()
        return self.out / folder.MODEL

    def gradients(self, share: Share) -> Losses:
        """Add a step's gradients to those there are; its losses."""
        parts = self.model.parts
        counted = [self.model.counts(batch) for batch in share.batches]
        own = [sum(int(counts.get(name, 0)) for counts in counted) for name in parts]
        # Of several processes one alone may have been asked to stop: all stop after the same step.
        *known, tokens, stops = self.ranks.sum(torch.tensor([*own, share.tokens, self.asked()])).tolist()
        self.stops = stops > 0
        counts = dict(zip(parts, known, strict=True))
        if not any(known):
            raise TrainingError(
                f"no row of the step has anything to predict (rows {_some(share.numbers.tolist())}): does split "
                f"{self.recipe.data.split!r} have labels?"
            )
        on_device = {name: torch.tensor(count, device=self.ranks.device) for name, count in counts.items()}
        totals = torch.zeros(len(parts), dtype=torch.float64, device=self.ranks.device)
        for left, batch in zip(reversed(range(len(share.batches))), share.batches, strict=True):
            # Ranks exchange gradients once a step, with the last piece.
            apart = self.module.no_sync() if left and self.ranks.count > 1 else contextlib.nullcontext()
            with apart:
                output = self.forward(batch)
                # DDP takes the mean over ranks, of what is a sum.
                (output.share(on_device) * self.ranks.count).backward()
            totals += torch.stack([output.parts[name].detach() * output.counts[name] for name in parts])
        sums = self.ranks.sum(totals).tolist()
        means = {name: total / max(counts[name], 1) for name, total in zip(parts, sums, strict=True)}
        return Losses(means, counts, output.weights, tokens)

    def forward(self, batch: Mapping[str, Tensor]) -> Output:
        batch = {name: tensor.to(self.ranks.device, non_blocking=True) for name, tensor in batch.items()}
        half = self.recipe.precision == "bf16"
        with torch.autocast(self.ranks.device.type, torch.bfloat16, enabled=half):
            return self.module(batch)

    def check(self, step: int, share: Share, losses: Losses, norm: float) -> None:
        """Raise TrainingError where a loss or a gradient is no number; the weights have not moved yet."""
        if math.isfinite(norm) and all(math.isfinite(mean) for mean in losses.means.values()):
            return
        numbers = list(itertools.chain(*self.ranks.gather(share.numbers.tolist())))
        said = ", ".join(f"{name} {mean}" for name, mean in losses.means.items())
        raise TrainingError(
            f"step {step:,}: {said}, length of the gradient {norm}: not a number any more. Rows of the batch: "
            f"{_some(numbers)}; their ids: {_some(row_ids(self.recipe, share.numbers[:8]))}. The weights are as "
            "they were before the step. A lower optim.lr, a longer optim.warmup or precision fp32 may help"
        )

    def look(self) -> dict[str, float]:
        """Losses and the task's scores over the dev split."""
        assert self.dev is not None
        result = evaluate(
            self.model,
            self.dev,
            self.collator,
            batch_size=-(-(self.recipe.batch.rows or 32) // self.recipe.batch.accumulate),
            grouping=make_buckets(self.recipe, self.collator),
            ranks=self.ranks,
            precision=self.recipe.precision,
        )
        return result.scores

    def save(self, step: int) -> None:
        found = states.State(step, self.loader.state_dict(), self.log.window, self.recipe.lasting())
        states.save(self.out, found, self.model, self.optimizer, self.tokenizer, self.recipe.keep)
        write_curves(self.out)

    def stop(self, step: int) -> NoReturn:
        """Leave, once the checkpoint is there."""
        self.ranks.gather(None)
        kept = self.out / folder.CHECKPOINTS / f"step-{step:08}"
        self.log.say(f"stopped after step {step:,} of {self.steps:,}; kept in {kept}")
        raise KeyboardInterrupt if self.ranks.first else SystemExit(130)

    def finish(self) -> Path:
        made = states.save_model(self.out, self.model, self.tokenizer)
        write_curves(self.out)
        return made

    @contextlib.contextmanager
    def aside(self) -> Iterator[None]:
        """What is done here is no step's time."""
        began = time.perf_counter()
        yield
        self.log.pause(time.perf_counter() - began)


def _endless(loader: Loader[T]) -> Iterator[T]:
    while True:
        yield from loader


def _size(model: Bert) -> str:
    return f"{sum(weight.numel() for weight in model.parameters()) / 1e6:,.1f} million weights"


def _some(values: list[Any]) -> str:
    return ", ".join(map(str, values[:8])) + (f", ... ({len(values):,} in all)" if len(values) > 8 else "")
