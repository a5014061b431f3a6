"""Tokens masked per CPU second, 64 rows of mean length 128 at a time: beside transformers, the published loop, the limit.

`DataCollatorForLanguageModeling` masks padded tensors (its own padding is not counted, and special tokens are given to
it); ours masks flat arrays, and what either masks is real tokens, so padding is its loss. The loop is
that of BERT's published code with Python's own generator; the limit is one hash and one comparison of each token.

Measured on one of two busy cores: 29 million tokens a second chosen by chance, 21 exactly, 7 as n-grams, 6 as words; 5.3,
3.9, 1.3 and 13 times transformers, 11, 7.9, 2.6 and 2.3 times the loop; 0.14, 0.10, 0.03 and 0.03 of the limit. The bar,
less than collating without masks, is missed: 1.9, 2.5, 7.8 and 8.5 times that.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable

import numpy as np
import pytest
import torch
from transformers import BertTokenizerFast, DataCollatorForLanguageModeling

from corpora.ragged import bounds
from models.collate.collator import Collator
from models.collate.mlm import Masking, Vocabulary
from models.collate.pad import padded
from models.collate.views import view
from models.stream.hashing import mix
from models.stream.rows import Rows

pytestmark = pytest.mark.bench

ROWS, VOCAB = 64, 21128
SPECIAL = {"pad": 0, "unk": 1, "cls": 2, "sep": 3, "mask": 4}
ROUNDS, SECONDS = 5, 0.1


def rows() -> Rows:
    rng = np.random.default_rng(0)
    lengths = rng.integers(64, 193, ROWS)
    offsets = bounds(lengths)
    ids = rng.integers(5, VOCAB, offsets[-1]).astype(np.int32)
    words = np.concatenate([np.cumsum(rng.random(n) < 0.7) for n in lengths]).astype(np.int16)
    ids[offsets[:-1]], ids[offsets[1:] - 1] = 2, 3
    words[offsets[:-1]] = words[offsets[1:] - 1] = -1
    lists = {"input_ids": ids, "token_type_ids": np.zeros(offsets[-1], np.int8), "word_index": words}
    made = Rows(np.arange(ROWS), np.zeros(ROWS, np.int64), np.ones(ROWS, np.float32))
    made.lists = {name: (values, offsets) for name, values in lists.items()}
    return made


def seconds(work: Callable[[], object]) -> float:
    """CPU seconds of a call: the least of some rounds' means."""
    work()
    means = []
    for _ in range(ROUNDS):
        calls, start = 0, time.process_time()
        while time.process_time() - start < SECONDS:
            work()
            calls += 1
        means.append((time.process_time() - start) / calls)
    return min(means)


def published(lists: list[list[int]], words: list[list[int]] | None, rng: random.Random) -> None:
    """`create_masked_lm_predictions`, with whole words where they are given."""
    for row, ids in enumerate(lists):
        candidates: list[list[int]] = []
        last = None
        for place, token in enumerate(ids):
            if token in (2, 3):
                continue
            if words is not None and words[row][place] == last and candidates:
                candidates[-1].append(place)
            else:
                candidates.append([place])
            last = words[row][place] if words is not None else None
        rng.shuffle(candidates)
        output, quota = list(ids), max(1, round(len(ids) * 0.15))
        chosen: list[tuple[int, int]] = []
        for unit in candidates:
            if len(chosen) >= quota:
                break
            if len(chosen) + len(unit) > quota:
                continue
            for place in unit:
                if rng.random() < 0.8:
                    output[place] = 4
                elif rng.random() >= 0.5:
                    output[place] = rng.randint(0, VOCAB - 1)
                chosen.append((place, ids[place]))
        chosen.sort()


def test_tokens_per_second() -> None:
    torch.set_num_threads(1)
    data = rows()
    flat = view(data)
    tokens = int(flat.fine.offsets[-1])
    batch = padded(flat.fine, 1)
    ids, sequence = batch["input_ids"], batch["sequence_id"]
    special = ((ids <= 4) | (sequence == 0)).long()
    words = np.where(sequence.numpy() > 0, flat_words(data, sequence), -1)
    starts = 2 * np.arange(ids.shape[1]) + np.zeros_like(words)
    offsets = np.stack(
        [starts, starts + np.where(np.roll(words, -1, 1) == words, 2, 1)], 2
    )  # words touch no other
    tokenizer = BertTokenizerFast(
        vocab={f"[{k.upper()}]": v for k, v in SPECIAL.items()} | {f"w{i}": i for i in range(5, VOCAB)}
    )
    plain = DataCollatorForLanguageModeling(tokenizer, seed=1)
    whole = DataCollatorForLanguageModeling(
        tokenizer, whole_word_mask=True, mask_replace_prob=1.0, random_replace_prob=0.0, seed=1
    )
    plain.create_rng("pt")
    whole.create_rng("pt")
    cuts = flat.fine.offsets[1:-1]
    lists = [part.tolist() for part in np.split(flat.fine.columns["input_ids"], cuts)]
    of_words = [part.tolist() for part in np.split(flat.fine.columns["word_index"], cuts)]
    rng = random.Random(0)
    vocabulary = Vocabulary(SPECIAL, VOCAB)
    places, keys = flat.fine.places.astype(np.uint64), flat.fine.spread(np.arange(ROWS, dtype=np.uint64))
    ways: dict[str, Callable[[], object]] = {
        "limit: hash and compare": lambda: mix(places, keys) < np.uint64(2**61),
        "token, independent": lambda: made["independent"](flat),
        "token, exact": lambda: made["exact"](flat),
        "ngram, exact": lambda: made["ngram"](flat),
        "word, exact": lambda: made["word"](flat),
        "transformers, token": lambda: plain.torch_mask_tokens(ids.clone(), special.clone()),
        "transformers, word": lambda: whole.torch_mask_tokens(
            ids.clone(), special.clone(), torch.tensor(offsets)
        ),
        "published loop, token": lambda: published(lists, None, rng),
        "published loop, word": lambda: published(lists, of_words, rng),
    }
    made = {
        "independent": Masking(vocabulary, budget="independent"),
        "exact": Masking(vocabulary),
        "ngram": Masking(vocabulary, units="ngram"),
        "word": Masking(vocabulary, units="word"),
    }
    cost = {name: seconds(work) for name, work in ways.items()}
    print(f"\n{tokens} tokens in {ROWS} rows")
    for name, spent in cost.items():
        print(f"{name:26} {tokens / spent / 1e6:8.2f} million tokens a second, {spent * 1e6:9.0f} us")
    for name in ("token, independent", "token, exact", "ngram, exact", "word, exact"):
        unit = "word" if name.startswith("word") else "token"
        print(
            f"{name:20} {cost[f'transformers, {unit}'] / cost[name]:6.1f} x transformers, "
            f"{cost[f'published loop, {unit}'] / cost[name]:6.1f} x the loop, "
            f"{cost['limit: hash and compare'] / cost[name]:5.2f} x the limit"
        )
    collating = seconds(lambda: Collator()(data))
    print(f"collating without masking  {collating * 1e6:9.0f} us: the view and padding of three columns")
    for name, step in made.items():
        masked = seconds(lambda step=step: Collator(steps=(step,))(data))  # type: ignore[misc]
        print(
            f"collating, masked ({name:11}) {masked * 1e6:9.0f} us; masking alone {cost_of(cost, name) / collating:5.2f} x collating"
        )


def cost_of(cost: dict[str, float], name: str) -> float:
    return cost[{"independent": "token, independent", "exact": "token, exact"}.get(name, f"{name}, exact")]


def flat_words(data: Rows, sequence: torch.Tensor) -> np.ndarray:
    words = np.full(sequence.shape, -1)
    words[sequence.numpy() > 0] = data.lists["word_index"][0]
    return words
