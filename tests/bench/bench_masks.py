"""What masks cost to build, for 32 rows of 256 tokens on one core of a CPU, and beside one forward step of BERT-base.

Beside the same matrices by the loop of K-BERT's released code (`brain/knowgraph.py`: lists of places, a float64 matrix
filled token by token; its segmenter, look-ups and tokens are not counted here), and beside the two ways that torch
offers: its own broadcasting, and `create_bidirectional_mask` of transformers.

Measured on one of two shared cores, CPU time: 1.0 ms the visible matrix, 1.3 with packing and padding, 1.5 with branches
of branches, too; 39 to 64 times, 30 to 52 and 25 to 43 times as fast as that loop (more where fewer tokens are on
branches); torch's broadcasting takes 7 ms, the way of transformers 34. Other masks 0.4 to 1 ms. A forward step takes
12 to 39 s: the mask is 0.01 to 0.05 % of it. The bars are 50 times the whole of that code (91 ms on as many characters of real
reviews), and 5 %.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from transformers import BertConfig, BertModel
from transformers.masking_utils import create_bidirectional_mask

from models.masks import LM_KINDS, Mask, same_sequence, syntax, unilm, visible
from tests.rows import depth_first, make_heads

pytestmark = pytest.mark.bench

ROWS, TOKENS = 32, 256
ROUNDS, REPEATS = 7, 10
BAR, STEP_BAR = 50, 0.05

Entities = list[tuple[list[int], list[list[int]]]]
"""Places of a word's tokens, and of each of its branches; a word without branches, too."""


def tree(rng: random.Random, mentions: float) -> Entities:
    """Words of one to three tokens, `mentions` of them with one or two branches of one to four, `TOKENS` in all."""
    entities: Entities = []
    at = 0
    while at < TOKENS:
        lengths = [rng.randint(1, 3)]
        if rng.random() < mentions:
            lengths += [rng.randint(1, 4) for _ in range(rng.randint(1, 2))]
        places = []
        for length in lengths:
            places.append(list(range(at, min(at + length, TOKENS))))
            at += len(places[-1])
        entities.append((places[0], [p for p in places[1:] if p]))
    return entities


def released(entities: Entities) -> np.ndarray:
    """The matrix as `add_knowledge_with_vm` fills it."""
    trunk = [place for own, _ in entities for place in own]
    total = sum(len(own) + sum(map(len, branches)) for own, branches in entities)
    matrix = np.zeros((total, total))
    for own, branches in entities:
        for place in own:
            matrix[place, trunk + [p for branch in branches for p in branch]] = 1
        for branch in branches:
            for place in branch:
                matrix[place, branch + own] = 1
    return matrix


def batch_of(rng: random.Random, trees: list[Entities]) -> dict[str, torch.Tensor]:
    """Columns of all masks; trees fill their rows, as do words of two pieces, by a parse of sentences of twenty."""
    made: dict[str, list[list[int]]] = {n: [] for n in ("branch", "mention", "dfs_in", "dfs_out")}
    for entities in trees:
        branch, mention = [0] * TOKENS, [-1] * TOKENS
        number = 0
        for count, (own, branches) in enumerate(entities):
            for place in own if branches else []:
                mention[place] = count
            for places in branches:
                number += 1
                for place in places:
                    branch[place], mention[place] = number, count
        words = range(TOKENS // 2)
        enter, leave = depth_first(make_heads(rng, [word // 20 for word in words], extra_roots=0))
        for name, column in zip(
            made,
            (branch, mention, *([x[w // 2] for w in range(TOKENS)] for x in (enter, leave))),
            strict=True,
        ):
            made[name].append(column)
    batch = {name: torch.tensor(column, dtype=torch.int32) for name, column in made.items()}
    batch["parent"] = torch.zeros_like(batch["branch"])
    batch["sequence_id"] = torch.ones_like(batch["branch"])
    batch["token_type_ids"] = (torch.arange(TOKENS) >= TOKENS // 2).long().repeat(ROWS, 1)
    batch["lm_kind"] = torch.arange(ROWS) % len(LM_KINDS)
    return batch


def two_levels(batch: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The second branch of a mention hangs from the first."""
    branch, mention = batch["branch"], batch["mention"]
    before = torch.where((branch > 1) & (mention == mention.roll(1, 1)), branch.roll(1, 1), 0)
    parent = torch.zeros_like(branch)
    for row in range(ROWS):
        for number in range(2, int(branch[row].max()) + 1):
            own = branch[row] == number
            parent[row][own] = before[row][own][0]
    return batch | {"parent": parent}


def by_torch(mask: Mask, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    """The same predicate by torch's broadcasting."""
    numbers, sees = mask.bind(batch)
    return sees([x[:, None, :, None] for x in numbers], [x[:, None, None] for x in numbers])


def by_transformers(mask: Mask, batch: dict[str, torch.Tensor]) -> Any:
    config = SimpleNamespace(_attn_implementation="sdpa")
    shape = torch.empty(ROWS, TOKENS, 0)
    return create_bidirectional_mask(config, shape, None, and_mask_function=mask.mask_mod(batch))  # type: ignore[arg-type]


def medians(**ways: Callable[[], Any]) -> dict[str, float]:
    """CPU milliseconds of each way, all of them taken in turns, `REPEATS` at a time."""
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(ROUNDS):
        for name, way in ways.items():
            start = time.process_time()
            for _ in range(REPEATS):
                way()
            taken[name].append(1e3 * (time.process_time() - start) / REPEATS)
    return {name: statistics.median(times) for name, times in taken.items()}


def trees(mentions: float) -> list[Entities]:
    rng = random.Random(0)
    return [tree(rng, mentions) for _ in range(ROWS)]


@pytest.fixture
def one_thread() -> Any:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.parametrize("mentions", [0.1, 0.4])
def test_visible_matrices(mentions: float, one_thread: None) -> None:
    made = trees(mentions)
    batch = batch_of(random.Random(0), made)
    deep = two_levels(batch)
    assert deep["parent"].any()
    mask = same_sequence & visible
    loop = np.stack([released(entities) for entities in made])
    np.testing.assert_array_equal(mask.dense(batch)[:, 0].numpy(), loop > 0)
    took = medians(
        loop=lambda: [released(entities) for entities in made],
        visible=lambda: visible.dense(batch),
        ours=lambda: mask.dense(batch),
        deep=lambda: mask.dense(deep),
        torch=lambda: by_torch(mask, batch),
        transformers=lambda: by_transformers(mask, batch),
    )
    share = float((batch["branch"] > 0).float().mean())
    print(f"\n32 x 256 tokens, {share:.0%} of them on branches; CPU ms: " + show(took))
    print(
        f"loop of K-BERT / visible {took['loop'] / took['visible']:.0f}, / with packing and padding "
        f"{took['loop'] / took['ours']:.0f}, / and two levels {took['loop'] / took['deep']:.0f} (bar {BAR})"
    )


def test_other_masks(one_thread: None) -> None:
    batch = batch_of(random.Random(0), trees(0.2))
    masks = {"same_sequence": same_sequence, "ancestors": syntax(), "descendants": syntax("descendants")}
    masks |= {kind: unilm(kind) for kind in LM_KINDS} | {"kinds by row": unilm()}
    took = medians(**{name: lambda m=mask: m.dense(batch) for name, mask in masks.items()})  # type: ignore[misc]
    print("\nCPU ms, dense: " + show(took))
    eager, sdpa = (SimpleNamespace(_attn_implementation=how) for how in ("eager", "sdpa"))
    mask = same_sequence & unilm()
    took = medians(
        **{name: lambda c=c: mask.attention(batch, c) for name, c in (("sdpa", sdpa), ("eager", eager))}
    )  # type: ignore[misc]
    print("for attention of transformers: " + show(took))


@pytest.mark.parametrize("threads", [1, None], ids=["one thread", "all threads"])
def test_beside_a_step_of_bert_base(threads: int | None) -> None:
    """Wall time: threads of the step count once."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads or before)
    batch = batch_of(random.Random(0), trees(0.2))
    mask = same_sequence & visible
    model = BertModel(BertConfig(attn_implementation="sdpa"), add_pooling_layer=False).eval()
    ids = torch.randint(5, 20_000, (ROWS, TOKENS))
    built, stepped = [], []
    with torch.no_grad():
        for _ in range(2):
            start = time.perf_counter()
            made = mask.attention(batch, model.config)
            built.append(time.perf_counter() - start)
            start = time.perf_counter()
            model(input_ids=ids, attention_mask=made)
            stepped.append(time.perf_counter() - start)
    torch.set_num_threads(before)
    print(
        f"\n{threads or before} threads: mask {1e3 * min(built):.1f} ms, forward step of BERT-base {min(stepped):.1f} s: "
        f"{min(built) / min(stepped):.4%} (bar {STEP_BAR:.0%})"
    )


def show(took: dict[str, float]) -> str:
    return ", ".join(f"{name} {ms:.2f}" for name, ms in took.items())
