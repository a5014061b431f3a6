"""The loop. A step: its rows, their gradients, one move of the weights; now and then a look, now and then a checkpoint.

Two things make a run the same however it is computed. The loss of a step is a mean over its predictions, so each
piece of it (on another process, or one after the other) weighs its own by how many there are in all: but for dropout
the gradients of any number of ranks and pieces are those of one batch. And nothing random has a state: order and masks
are functions of the recipe's seed and a row's number, dropout begins anew at each step from (seed, step, rank); so a
run that goes on from a checkpoint does what it would have done. (With other ranks or pieces dropout's noise differs.)
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import math
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import torch
from rich.console import Console
from torch import Tensor, nn

from models.evaluate.evaluation import evaluate
from models.evaluate.predict import moved
from models.output import Output
from models.ranks import Ranks, joined
from models.stream.hashing import key_of
from models.stream.loader import Loader, StateError
from models.train import data, folder, parts
from models.train import state as states
from models.train.best import Best
from models.train.curves import write_curves
from models.train.data import Share
from models.train.facts import computed_by, facts, opening
from models.train.interrupt import deferred
from models.train.log import Log, Losses
from models.train.recipe import Recipe

T = TypeVar("T")
_NO_LIMIT = math.inf


class TrainingError(ValueError):
    """Training cannot go on; the message says at which step, and of which rows."""


def train(recipe: Recipe, console: Console, *, overwrite: bool = False) -> Path:
    """Train as a recipe says, from its newest checkpoint on if there is one; the folder of the trained model.

    A run that is interrupted (Ctrl-C, SIGTERM) ends its step, keeps a checkpoint and raises KeyboardInterrupt.

    Raises RecipeError, FolderError, TrainingError and what opening datasets raises: all ValueErrors or OSErrors.
    """
    out = Path(recipe.out)
    with contextlib.ExitStack() as held, joined(recipe.threads, recipe.deterministic) as ranks:
        newest = None
        with ranks.agreed():
            if ranks.first:  # it alone holds the folder; the others learn from it what is there
                parts.check_model(recipe)
                data.check_steps(recipe)
                newest = held.enter_context(folder.held(out, recipe, overwrite))
        newest = ranks.gather(newest)[0]
        with ranks.agreed():
            run = _Run(recipe, console, ranks, newest)
        with ranks.agreed():  # only now, when all could be opened, is an old run lost
            run.take(overwrite)
        return run.train()


class _Run:
    """One process's run: what the recipe was made into."""

    stops = False
    """Whether a process was asked to stop before the step."""
    asked: Callable[[], bool] = staticmethod(lambda: False)
    """Whether this one was, by now."""
    owed: bool
    """Whether the look of the step that the run goes on from failed."""
    skipped = False
    """Whether it was told that steps without any label move nothing."""

    def __init__(self, recipe: Recipe, console: Console, ranks: Ranks, newest: Path | None) -> None:
        self.recipe, self.ranks, self.out = recipe, ranks, Path(recipe.out)
        found = states.read_whole(newest) if newest else states.State(step=0, loader={})
        split = data.open_rows(recipe)
        data.check_rows(recipe, split.metadata)
        self.model = parts.make_model(recipe, split, str(newest) if newest else None).to(ranks.device)
        compared = parts.check_tokens(recipe, self.model, newest is not None)
        self.collator = collator = data.make_collator(recipe, self.model, split.metadata)
        self.loader = data.make_loader(recipe, self.model, collator, ranks)
        self.dev = data.open_dev(recipe, self.model, collator) if recipe.data.dev else None
        self.optimizer = parts.make_optimizer(self.model, recipe.optim)
        self.tokenizer = states.read_tokenizer(recipe.data.folder[0].folder)
        self.steps = recipe.optim.steps_in_all(len(self.loader))
        self.best = Best(recipe, self.model, self.dev, collator)
        self.begin, self.owed = found.step, found.owed
        if newest is not None:
            states.restore(newest, self.model, self.optimizer)
            self.resume(found.loader)
            self.best.go_on(found.best)
        parts.prepare(self.model, recipe)
        self.log = Log(self.out, console, recipe, self.begin, self.steps, not ranks.first, found.window)
        self.facts = facts(recipe, self.model, collator, self.steps, split, ranks)
        place = (self.begin, self.steps, newest, found.computed)
        self.told = list(opening(recipe, self.model, ranks, self.loader.describe(), place, compared))
        self.told += data.remarks(recipe, collator, split.metadata)

    @functools.cached_property
    def module(self) -> nn.Module:
        """The model as all processes have it. All of them take part in making it, so only once none can fail alone."""
        return self.ranks.shared(self.model)

    def take(self, overwrite: bool) -> None:
        """Make the folder this run's, and tell what is about to be done."""
        if self.ranks.first:
            folder.begin(self.out, self.recipe, overwrite, self.facts)
        self.log.open()
        for line in self.told:
            self.log.say(line)

    def resume(self, state: Mapping[str, Any]) -> None:
        """Put the stream where a checkpoint left it. Raises FolderError where that was another."""
        try:
            self.loader.load_state_dict(state)
        except StateError as error:
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
            if self.owed:
                with self.aside():
                    self.look(self.begin)
                    if self.ranks.first:
                        self.save(self.begin)
            for step in range(self.begin + 1, self.steps + 1):
                share = next(shares)
                torch.manual_seed(key_of(recipe.seed, step, self.ranks.rank))
                learning = parts.set_rate(self.optimizer, optim, step - 1, self.steps)
                losses, norm = self.gradients(share)
                self.check(step, share, losses, norm)
                if data.labels_in(self.model, losses.counts):
                    self.optimizer.step()
                else:
                    losses = self.skip(step, share, losses)
                self.optimizer.zero_grad()
                self.log.step(step, losses, lr=learning, grad_norm=norm)
                last, ended = step == self.steps, self.loader.epoch != epoch
                epoch = self.loader.epoch
                with self.aside():
                    due = step % recipe.eval_every == 0 if recipe.eval_every else ended
                    if self.dev is not None and (last or due):
                        self.look(step)
                    stops = not last and (self.stops or (self.ranks.count == 1 and self.asked()))
                    if last or stops or step % recipe.save_every == 0:
                        self.check_weights(step)
                        if self.ranks.first:
                            self.save(step)
                    if stops:
                        self.stop(step)
            if self.ranks.first:
                return self.finish()
        return self.out / folder.MODEL

    def gradients(self, share: Share) -> tuple[Losses, float]:
        """Add a step's gradients to those there are, and clip them; its losses, and how long the gradient was."""
        names = self.model.parts
        counted = [self.model.counts(batch) for batch in share.batches]
        own = [sum(int(counts.get(name, 0)) for counts in counted) for name in names]
        # Of several processes one alone may have been asked to stop: all stop after the same step.
        *known, tokens, stops = self.ranks.sum(torch.tensor([*own, share.tokens, self.asked()])).tolist()
        self.stops = stops > 0
        counts = dict(zip(names, known, strict=True))
        on_device = dict(zip(names, torch.tensor(known, device=self.ranks.device), strict=True))
        totals = torch.zeros(len(names), dtype=torch.float64, device=self.ranks.device)
        for left, batch in zip(reversed(range(len(share.batches))), share.batches, strict=True):
            # Ranks exchange gradients once a step, with the last piece.
            apart = self.module.no_sync() if left and self.ranks.count > 1 else contextlib.nullcontext()
            with apart:
                output = self.forward(batch)
                # DDP takes the mean over ranks, of what is a sum.
                (output.share(on_device) * self.ranks.count).backward()
            totals += torch.stack([output.parts[name].detach() * output.counts[name] for name in names])
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), self.recipe.optim.clip or _NO_LIMIT)
        # What leaves a GPU is waited for, so all of it leaves at once.
        *sums, length = torch.cat([self.ranks.sum(totals), norm.double().view(1)]).tolist()
        means = {name: total / max(counts[name], 1) for name, total in zip(names, sums, strict=True)}
        return Losses(means, counts, output.weights, tokens), length

    def forward(self, batch: Mapping[str, Tensor]) -> Output:
        batch = moved(self.model, batch, self.ranks.device)
        with torch.autocast(self.ranks.device.type, torch.bfloat16, enabled=self.recipe.precision == "bf16"):
            return self.module(batch)

    def check(self, step: int, share: Share, losses: Losses, norm: float) -> None:
        """Raise TrainingError where a loss or a gradient is no number; the weights have not moved yet."""
        if math.isfinite(norm) and all(math.isfinite(mean) for mean in losses.means.values()):
            return
        numbers = list(itertools.chain(*self.ranks.gather(share.numbers.tolist())))
        said = ", ".join(f"{name} {mean}" for name, mean in losses.means.items())
        raise TrainingError(
            f"step {step:,}: {said}, length of the gradient {norm}: not a number any more. Rows of the batch: "
            f"{_some(numbers)}; their ids: {_some(data.row_ids(self.recipe, share.numbers[:8]))}. The weights are as "
            "they were before the step. A lower optim.lr, a longer optim.warmup or precision fp32 may help"
        )

    def check_weights(self, step: int) -> None:
        """Raise TrainingError where a weight is no number any more, before any of them is kept."""
        if lost := parts.lost(self.model):
            raise TrainingError(
                f"step {step:,}: weights are no numbers any more, so not kept: {_some(lost)}. Lower optim.lr"
            )

    def skip(self, step: int, share: Share, losses: Losses) -> Losses:
        """Tell once of a step without any label: neither weights nor moments move. What counts of its losses: none."""
        if not self.skipped:
            rows = _some(list(itertools.chain(*self.ranks.gather(share.numbers.tolist()))))
            self.log.say(
                f"step {step:,}: no row of the batch has a label ({rows}): no weight moves, here and later"
            )
            self.skipped = True
        return Losses({}, {}, losses.weights, losses.tokens)

    def look(self, step: int) -> None:
        """Losses and the task's scores over the dev split; the best weights are kept.

        If that fails, a checkpoint is, which owes the look: a run that goes on from it begins with that.
        """
        assert self.dev is not None
        self.check_weights(step)
        before = self.best.look
        try:
            result = evaluate(
                self.model,
                self.dev,
                self.collator,
                options=self.recipe.scores,
                ranks=self.ranks,
                precision=self.recipe.precision,
                **data.batches_of_look(self.recipe, self.collator),
            )
            if self.best.take(step, result.scores) and self.ranks.first:
                self.best.write(self.model, self.tokenizer)
        except Exception:
            self.best.look = before
            if self.ranks.first:
                self.save(step, owed=True)
            raise
        self.log.dev(step, result, self.best.look.step if self.best.look else None)

    def save(self, step: int, owed: bool = False) -> None:
        loader, window, best = self.loader.state_dict(), self.log.window, self.best.look
        computed = computed_by(self.recipe, self.ranks)
        found = states.State(step=step, loader=loader, window=window, best=best, owed=owed, computed=computed)
        states.save(self.out, found, self.model, self.optimizer, self.tokenizer, self.recipe.keep)
        self.best.tidy()
        write_curves(self.out, self.log.say)

    def stop(self, step: int) -> NoReturn:
        """Leave, once the checkpoint is there."""
        self.ranks.gather(None)
        kept = self.out / folder.CHECKPOINTS / folder.named(step)
        said = f"stopped after step {step:,} of {self.steps:,}; kept in {kept}"
        raise KeyboardInterrupt(said) if self.ranks.first else SystemExit(130)

    def finish(self) -> Path:
        if self.best.look is not None:
            self.log.say(self.best.finish())
            best = dict(self.best.look) | {"score": self.recipe.best}
            folder.write_run(self.out, self.facts | {"best": best})
        else:  # of no score, or one that was never a number
            states.save_model(self.out / folder.MODEL, self.model, self.tokenizer)
        write_curves(self.out, self.log.say)
        return self.out / folder.MODEL

    @contextlib.contextmanager
    def aside(self) -> Iterator[None]:
        """What is done here is no step's time."""
        began = time.perf_counter()
        yield
        self.log.pause(time.perf_counter() - began)


def _endless(loader: Loader[T]) -> Iterator[T]:
    while True:
        yield from loader


def _some(values: list[Any]) -> str:
    return ", ".join(map(str, values[:8])) + (f", ... ({len(values):,} in all)" if len(values) > 8 else "")
