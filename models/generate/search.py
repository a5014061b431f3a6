"""Beam search for the targets of a batch, as UniLM's released code searches.

A step takes the `beam_size` best continuations of a row, by sum of log probabilities; those that end with [SEP] are
set aside and the rest go on. The best of those set aside, and of those that reached the limit, is the answer, by
sum / ((5 + tokens) / 6) ** length_penalty, [SEP] being a token (GNMT, Wu et al. 2016, equation 14). A row stops when
no beam can reach what is set aside any more, which changes no result; the released code goes on to the limit.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from models.bert import Bert
from models.bert_batch import Batch, BatchError
from models.generate.decoder import Decoder, pick
from models.output import widened
from models.unilm import UniLM

_MOST = 2**31 - 1
"""Of whatever is counted: products of two are numbers of 64 bits."""
_MOST_BEAMS = 1_000
"""Each of which is a row of the model's batch."""


@dataclass(frozen=True)
class Search:
    """How to search; lengths are in tokens of the target.

    Attributes:
        mask: id of [MASK].
        end: id of [SEP], which ends a target.
        max_target_length: most tokens, [SEP] among them.
        min_length: fewest tokens before [SEP].
        beam_size: 1 is greedy; at most 1,000.
        n_best: answers a row, at most `beam_size`.
        length_penalty: exponent of the penalty, at most 10; 0 compares sums, more favours longer answers.
        no_repeat_ngram_size: no answer has a sequence of so many tokens twice; 0: any may.
        may_repeat: tokens, such as a full stop, whose sequences may be repeated all the same.
        forbidden: tokens that are never written.

    Raises:
        ValueError: a number is out of its range.
    """

    mask: int
    end: int
    max_target_length: int = 128
    min_length: int = 0
    beam_size: int = 1
    n_best: int = 1
    length_penalty: float = 0.0
    no_repeat_ngram_size: int = 0
    may_repeat: tuple[int, ...] = ()
    forbidden: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        for name, least, most, why in (
            ("max_target_length", 1, _MOST, ""),
            ("min_length", 0, self.max_target_length - 1, " (max_target_length, less one for [SEP])"),
            ("beam_size", 1, _MOST_BEAMS, ""),
            ("n_best", 1, self.beam_size, " (beam_size)"),
            ("no_repeat_ngram_size", 0, _MOST, ""),
        ):
            value = getattr(self, name)
            if not _whole(value) or not least <= value <= most:
                raise ValueError(f"{name} is {value!r}, expected a whole number from {least} to {most}{why}")
        penalty = self.length_penalty
        if isinstance(penalty, bool) or not isinstance(penalty, int | float) or not 0 <= penalty <= 10:
            raise ValueError(f"length_penalty is {penalty!r}, expected a number from 0 to 10")
        for name, tokens in self.tokens.items():
            if wrong := [token for token in tokens if not _whole(token) or token < 0]:
                raise ValueError(f"{name} is token {wrong[0]!r}, expected an id of 0 or more")
        if self.end in self.forbidden:
            raise ValueError(f"token {self.end} is forbidden, but it is the one that ends a target")

    @classmethod
    def of(cls, special_ids: Mapping[str, int], *, unknown: bool = False, **settings: Any) -> Search:
        """By `special_ids` of a dataset's metadata; forbids [PAD], [CLS], [MASK] and, unless `unknown`, [UNK]."""
        never = [special_ids[name] for name in ("pad", "cls", "mask", *(() if unknown else ("unk",)))]
        forbidden = (*never, *settings.pop("forbidden", ()))
        return cls(special_ids["mask"], special_ids["sep"], forbidden=forbidden, **settings)

    @property
    def tokens(self) -> dict[str, tuple[int, ...]]:
        """All ids of tokens, by the names of what they are for."""
        lists = {"may_repeat": self.may_repeat, "forbidden": self.forbidden}
        return {"mask": (self.mask,), "end": (self.end,), **lists}

    def penalty(self, length: int) -> float:
        """What a sum of log probabilities of so many tokens is divided by."""
        return ((5 + length) / 6) ** self.length_penalty


@dataclass
class Generated:
    """Answers of B rows, N each, the best first; rows of weight 0 and rows without a source have none.

    Attributes:
        tokens: int64[B, N, L], L the greatest length there may be; behind an answer's end, [SEP].
        length: int64[B, N], tokens of each, [SEP] not counted.
        score: float32[B, N], float64 of a model in double precision: log probability of its tokens, [SEP] among
            them, divided by the penalty; -inf where fewer than N answers were found.
        ended: bool[B, N], false where the limit cut it.
    """

    tokens: Tensor
    length: Tensor
    score: Tensor
    ended: Tensor

    @classmethod
    def none(cls, rows: int, search: Search, like: Tensor) -> Generated:
        """No answer yet; `like`: scores, for their dtype and device."""
        shape = (rows, search.n_best)
        return cls(
            like.new_full((*shape, search.max_target_length), search.end, dtype=torch.int64),
            like.new_zeros(shape, dtype=torch.int64),
            like.new_full(shape, -math.inf),
            like.new_zeros(shape, dtype=torch.bool),
        )

    def add(self, rows: Tensor, found: Generated) -> None:
        """Keep the best N of what these rows, int64[R], had and have found."""
        scores = torch.cat([self.score[rows], found.score], 1)
        self.score[rows], best = scores.topk(self.score.shape[1])
        for mine, more in (
            (self.tokens, found.tokens),
            (self.length, found.length),
            (self.ended, found.ended),
        ):
            mine[rows] = pick(torch.cat([mine[rows], more], 1), best)

    def lists(self) -> list[list[list[int]]]:
        """Tokens of every answer of every row, without [SEP]; a row has as many as were found."""
        found = zip(self.tokens.tolist(), self.length.tolist(), self.score.isfinite().tolist(), strict=True)
        return [[t[:n] for t, n, there in zip(*row, strict=True) if there] for row in found]


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def able(model: Bert) -> UniLM:
    """The model, if it can generate. Raises ValueError unless it is a UniLM with the head that predicts tokens."""
    if not isinstance(model, UniLM) or not model.task.vocabulary:
        raise ValueError(
            f"model {model.kind!r} of task {model.task.name!r} cannot generate: load it as model 'unilm', task 'mlm'"
        )
    return model


@torch.no_grad()
def generate(model: UniLM, batch: Batch, search: Search) -> Generated:
    """Answers to the sources of a batch, one sequence a row.

    A row's source is its segment 0; what stands behind counts for nothing. Runs without dropout, whatever mode the
    model is in.

    Raises:
        ValueError: the model is no UniLM with the head that predicts tokens, or the search names a token that it
            has not.
        BatchError: the batch does not fit the model, a row is packed, source and target are longer than the
            model's positions, or what the model predicts is no number.
    """
    able(model)
    model.check(batch)
    for name, tokens in search.tokens.items():
        if max(tokens, default=0) >= model.config.vocab_size:
            raise ValueError(
                f"{name} is token {max(tokens)}, and the model has tokens 0 to {model.config.vocab_size - 1}"
            )
    source = _source(batch)
    asked = source.any(1)
    if "row_weight" in batch:
        asked = asked & (batch["row_weight"] > 0)
    last = batch["position_ids"].masked_fill(~(source & asked[:, None]), -1).amax(1)
    _check_positions(last, search, model.config.max_position_embeddings)
    rows = asked.nonzero()[:, 0]
    answers = Generated.none(len(source), search, widened(last.new_zeros(0, dtype=model.dtype)))
    if len(rows):
        training = model.training
        model.eval()
        try:
            width = int(source.any(0).nonzero().max()) + 1
            names = ("input_ids", "token_type_ids", "position_ids")
            cut = {name: batch[name][rows, :width] for name in names}
            slots = search.beam_size * search.max_target_length
            decoder = Decoder(model, cut, source[rows, :width], last[rows] + 1, search.mask, slots)
            _search(decoder, rows, search, answers)
        finally:
            model.train(training)
    return answers


def _search(decoder: Decoder, rows: Tensor, search: Search, answers: Generated) -> None:
    """Search for answers to these rows of the batch, int64[R], which are the decoder's."""
    most, device = search.max_target_length, rows.device
    total = torch.zeros(len(rows), 1, device=device)
    written = torch.full((len(rows), 1, most), search.end, device=device)
    forbidden, may_repeat = (
        torch.tensor(x, dtype=torch.int64, device=device) for x in (search.forbidden, search.may_repeat)
    )
    for step in range(most):
        scores = widened(decoder.step(written[..., step - 1] if step else None)).log_softmax(-1)
        odd = scores[..., 0].isnan().any(1)  # of one logit that is no number, all are
        scores.index_fill_(-1, forbidden, -math.inf)
        if step < search.min_length:
            scores[..., search.end] = -math.inf
        _forbid_repeats(scores, written[..., :step], search.no_repeat_ngram_size, may_repeat)
        vocabulary = scores.shape[-1]
        scores = (total[..., None] + scores).flatten(1)
        total, chosen = scores.topk(min(search.beam_size, scores.shape[1]))
        parent, token = chosen // vocabulary, chosen % vocabulary
        written = pick(written, parent)
        written[..., step] = token
        ended = token == search.end
        done = torch.ones_like(ended) if step == most - 1 else ended
        found = (total / search.penalty(step + 1)).masked_fill(~done, -math.inf)
        answers.add(rows, Generated(written, step + 1 - ended.long(), found, ended))
        total = total.masked_fill(done, -math.inf)
        # Sums only fall and the penalty only grows, so this is the most that a beam can still reach.
        going = total.amax(1) / search.penalty(most) > answers.score[rows, -1]
        decoder.follow(parent)
        failed, all_go_on = torch.stack([odd.any(), going.all()]).tolist()  # one wait for a GPU
        if failed:
            raise BatchError(
                f"what the model predicts for rows {rows[odd].tolist()} of the batch is no number (NaN or infinite): "
                "its weights are, or half precision is too narrow for them (take bfloat16, or float32)"
            )
        if not all_go_on:
            rows, total, written = rows[going], total[going], written[going]
            if not len(rows):
                return
            decoder.select(going)


def _forbid_repeats(scores: Tensor, written: Tensor, size: int, may_repeat: Tensor) -> None:
    """Set to -inf, in scores float[R, K, V], what would end a sequence of `size` tokens that int64[R, K, t] has."""
    length = written.shape[-1]
    if not 0 < size <= length:
        return
    sequences = written.unfold(-1, size, 1)
    tail = written[..., length - size + 1 :]
    again = (sequences[..., :-1] == tail[..., None, :]).all(-1)
    if len(may_repeat):
        again &= ~torch.isin(sequences, may_repeat).any(-1)
    scores.scatter_add_(
        -1, sequences[..., -1], torch.zeros_like(again, dtype=scores.dtype).masked_fill_(again, -math.inf)
    )


def _source(batch: Batch) -> Tensor:
    """bool[B, T], true at tokens of the source. Raises BatchError for packed rows."""
    sequence = batch["sequence_id"]
    if (sequence > 1).any():
        raise BatchError(
            "generation takes one sequence a row, and rows are packed: make batches without packing"
        )
    return (sequence > 0) & (batch["token_type_ids"] == 0)


def _check_positions(last: Tensor, search: Search, most: int) -> None:
    """Raise BatchError where a target behind the source's last position, int64[B], could pass the model's."""
    if not len(last):
        return
    longest, row = (int(x) for x in last.max(0))
    room = most - 1 - longest
    if search.max_target_length > room:
        raise BatchError(
            f"row {row} of the batch: its source takes positions 0 to {longest}, and a target of "
            f"{search.max_target_length} tokens may follow; the checkpoint's max_position_embeddings is {most}: lower "
            f"max_target_length to {max(room, 0)}, or encode.max_length"
        )
