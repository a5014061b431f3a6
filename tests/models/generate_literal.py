"""Beam search written from UniLM's released code, one row at a time: every step runs the whole model anew, nothing is
kept, and it goes on to the limit. Hypotheses are tuples."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from models.generate.search import Search
from models.masks import LM_KINDS
from models.unilm import UniLM

Tokens = tuple[int, ...]


def batch_of(sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> dict[str, Tensor]:
    """Sources as segment 0, targets as segment 1, of kind seq2seq."""
    rows = [[*source, *target] for source, target in zip(sources, targets, strict=True)]
    most = max(map(len, rows))
    batch = {
        name: torch.zeros(len(rows), most, dtype=torch.int64) for name in ("input_ids", "token_type_ids")
    }
    batch["sequence_id"] = torch.zeros(len(rows), most, dtype=torch.int32)
    for n, (row, source) in enumerate(zip(rows, sources, strict=True)):
        batch["input_ids"][n, : len(row)] = torch.tensor(row)
        batch["token_type_ids"][n, len(source) : len(row)] = 1
        batch["sequence_id"][n, : len(row)] = 1
    batch["position_ids"] = torch.arange(most).expand(len(rows), -1)
    batch["lm_kind"] = torch.full((len(rows),), LM_KINDS.index("seq2seq"))
    batch["row_weight"] = torch.ones(len(rows))
    return batch


def log_probs(
    model: UniLM, sources: Sequence[Sequence[int]], prefixes: Sequence[Tokens], mask: int
) -> list[list[float]]:
    """Of each vocabulary entry at a [MASK] behind each prefix."""
    batch = batch_of(sources, [[*prefix, mask] for prefix in prefixes])
    logits = model(batch).logits["mlm"]
    at = [len(source) + len(prefix) for source, prefix in zip(sources, prefixes, strict=True)]
    return logits[torch.arange(len(at)), at].log_softmax(-1).tolist()


def repeats(tokens: Tokens, size: int, may_repeat: Sequence[int] = ()) -> bool:
    """Whether the last `size` tokens stand earlier, too."""
    last = tokens[-size:]
    if not size or len(tokens) <= size or set(last) & set(may_repeat):
        return False
    return any(tokens[i : i + size] == last for i in range(len(tokens) - size))


def search(model: UniLM, source: Sequence[int], how: Search) -> list[tuple[float, Tokens]]:
    """Scores and tokens ([SEP] among them) of the best answers."""
    live: list[tuple[float, Tokens]] = [(0.0, ())]
    found: list[tuple[float, Tokens]] = []
    for step in range(how.max_target_length):
        predicted = log_probs(model, [source] * len(live), [tokens for _, tokens in live], how.mask)
        grown = []
        for (score, tokens), scores in zip(live, predicted, strict=True):
            for token, more in enumerate(scores):
                early = token == how.end and step < how.min_length
                longer = (*tokens, token)
                if (
                    not early
                    and token not in how.forbidden
                    and not repeats(longer, how.no_repeat_ngram_size, how.may_repeat)
                ):
                    grown.append((score + more, longer))
        live = []
        for score, tokens in sorted(grown, reverse=True)[: how.beam_size]:
            if tokens[-1] == how.end or step == how.max_target_length - 1:
                found.append((score / ((5 + len(tokens)) / 6) ** how.length_penalty, tokens))
            else:
                live.append((score, tokens))
        if not live:
            break
    return sorted(found, reverse=True)[: how.n_best]
