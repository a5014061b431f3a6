"""Predictions are counted from labels as the losses count them: else pieces of a step would weigh wrongly."""

from __future__ import annotations

import pytest
import torch

from models import checkpoint
from tests.models.tiny import COARSE, VOCAB, fine_batch, tiny

LENGTHS = [9, 4, 7, 5, 6, 8]


def labels(batch: dict, seed: int) -> dict:
    """Labels of every task, some missing; two rows of weight 0."""
    draw = torch.Generator().manual_seed(seed)

    def some(*shape: int, most: int) -> torch.Tensor:
        made = torch.randint(0, most, shape, generator=draw)
        return made.masked_fill(torch.rand(shape, generator=draw) < 0.4, -100)

    rows, width = batch["input_ids"].shape
    weight = torch.ones(rows)
    weight[torch.randperm(rows, generator=draw)[:2]] = 0
    score = torch.rand(rows, generator=draw)
    score[int(torch.randint(0, rows, (), generator=draw))] = float("nan")
    stop = some(rows, most=4)
    return batch | {
        "row_weight": weight,
        "mlm_labels": some(rows, width, most=VOCAB),
        "label": some(rows, most=2),
        "label_score": score,
        "token_labels": some(rows, width, most=2),
        "answer_start": torch.where(stop < 0, -100, stop),
        "answer_stop": torch.where(stop < 0, -100, stop + 1),
        "lm_kind": torch.randint(0, 4, (rows,), generator=draw),
    }


@pytest.mark.parametrize("model", ["bert", "unilm", "ambert"])
@pytest.mark.parametrize("task", ["mlm", "nsp", "pretrain", "classify", "regress", "tag", "span", "choice"])
def test_counts_are_those_of_the_losses(model, task):
    kind = checkpoint.MODELS[model]
    if task not in kind.tasks:
        pytest.skip(f"{model} has no task {task}")
    options = {"coarse_vocab_size": COARSE} if model == "ambert" else {}
    made = checkpoint.new(tiny(), model, task, labels=["a", "b"], **options).eval()
    for seed in range(5):
        batch = labels(fine_batch(LENGTHS, seed), seed)
        if model == "ambert":
            coarse = {f"coarse_{name}": x for name, x in fine_batch(LENGTHS, seed + 9).items()}
            coarse.pop("coarse_row_weight")
            wanted = labels(fine_batch(LENGTHS, seed), seed + 1)["mlm_labels"]
            batch |= coarse | {"coarse_mlm_labels": wanted, "coarse_index": batch["position_ids"].int()}
        if task == "choice":
            batch |= {"choices": torch.tensor([0, 0, 0, 1, 1, 1]), "label": torch.tensor([1, -100])}
        output = made(batch)
        found = made.counts(batch)
        assert {n: int(c) for n, c in found.items()} == {n: int(c) for n, c in output.counts.items()}
        assert tuple(output.parts) == tuple(found) and set(made.parts) == set(found)
        # A batch is a piece of itself.
        torch.testing.assert_close(output.share(found), output.loss)


def test_shares_of_pieces_add_up():
    made = checkpoint.new(tiny(), "bert", "pretrain").eval()
    batch = labels(fine_batch(LENGTHS), 3)
    whole = made(batch)
    pieces = [{n: x[a:b] for n, x in batch.items()} for a, b in ((0, 1), (1, 4), (4, 6))]
    shares = [made(piece).share(whole.counts) for piece in pieces]
    torch.testing.assert_close(torch.stack(shares).sum(), whole.loss)
    means = torch.stack([made(piece).loss for piece in pieces]).mean()
    assert abs(means - whole.loss) > 1e-3, "the mean of means is another number: this test can fail"


def test_without_labels_there_is_nothing_to_count():
    made = checkpoint.new(tiny(), "bert", "pretrain")
    assert made.counts(fine_batch(LENGTHS)) == {}
