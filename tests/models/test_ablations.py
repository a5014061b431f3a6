"""Switches of ablations: each does away with one thing, and with nothing else, on the same shards."""

from __future__ import annotations

import pytest
import torch

from models import checkpoint
from models.collate.collator import Collator
from models.kbert import places
from models.stream.loader import Loader
from models.stream.open import open_split
from tests.models.test_ambert import batch_of, made
from tests.models.tiny import COARSE, syntax_batch, tiny, tree_batch
from tests.rows import make_rows

OPTIONS = {"coarse_vocab_size": COARSE}


def trees(count=4):
    return tree_batch(make_rows(5, "pretrain", ("base", "tree"), count))


def hidden(batch, model="kbert", **options):
    torch.manual_seed(0)
    made = checkpoint.new(tiny(), model, **options).eval()
    return made(batch).logits["hidden"]


def test_places_count_anew_in_each_sequence():
    ids = torch.tensor([[1, 1, 1, 2, 2, 3, 0, 0], [1, 2, 2, 2, 0, 0, 0, 0], [0] * 8])
    assert places(ids).tolist() == [[0, 1, 2, 0, 1, 0, 0, 0], [0, 0, 1, 2, 0, 0, 0, 0], [0] * 8]


def test_hard_positions_are_those_of_the_flattened_tree():
    batch = trees()
    assert (batch["branch"] > 0).any()
    lying = {**batch, "position_ids": places(batch["sequence_id"])}
    assert not torch.equal(lying["position_ids"], batch["position_ids"])
    torch.testing.assert_close(hidden(batch, soft_positions=False), hidden(lying))
    assert not torch.allclose(hidden(batch, soft_positions=False), hidden(batch))


def test_without_the_visible_matrix_all_see_all():
    batch = trees()
    plain = {name: batch[name] for name in ("input_ids", "token_type_ids", "position_ids", "sequence_id")}
    real = batch["sequence_id"] > 0
    torch.testing.assert_close(
        hidden(batch, visible_matrix=False)[real], hidden(plain, "bert")[real], rtol=1e-5, atol=1e-5
    )
    assert not torch.allclose(hidden(batch)[real], hidden(plain, "bert")[real], atol=1e-3)


CASES = [
    ("kbert", "tag", {"graph": False}),
    ("kbert", "classify", {"graph": False}),
    ("sgnet", "span", {"direction": "none"}),
    ("ambert", "classify", {**OPTIONS, "granularity": "fine"}),
    ("ambert", "span", {**OPTIONS, "granularity": "fine"}),
]


@pytest.mark.parametrize("model, task, options", CASES)
def test_what_is_left_out_needs_no_column(model, task, options):
    """The batch of BERT is enough."""
    made = checkpoint.new(tiny(), model, task, labels=["a", "b"], **options)
    plain = checkpoint.new(tiny(), "bert", task, labels=["a", "b"])
    assert made.group is None and made.columns == plain.columns
    assert Collator.of(made) == Collator.of(plain)
    assert checkpoint.MODELS[model].group is not None, "the class itself is as it was"


@pytest.mark.parametrize("model, task, options", [*CASES[:2], *CASES[3:]])
def test_without_it_the_model_is_bert(datasets, model, task, options):
    made = checkpoint.new(
        tiny(vocab_size=5000, max_position_embeddings=256), model, task, labels=["a", "b"], **options
    ).eval()
    plain = checkpoint.new(
        tiny(vocab_size=5000, max_position_embeddings=256), "bert", task, labels=["a", "b"]
    ).eval()
    plain.load_state_dict(made.state_dict())
    collator = Collator.of(made)
    batch = next(
        iter(Loader(open_split(str(datasets[task]), "train", collator.columns), 4, collate=collator))
    )
    if task == "tag":
        batch["token_labels"] = batch["token_labels"].clamp(max=1)
    one, other = made(batch), plain(batch)
    assert torch.equal(one.loss, other.loss) and one.counts == other.counts
    assert {n: int(c) for n, c in made.counts(batch).items()} == {n: int(c) for n, c in one.counts.items()}


def test_a_syntax_layer_without_direction_sees_all():
    batch = syntax_batch(make_rows(2, "pretrain", ("base", "syntax"), 3))
    bare = {name: x for name, x in batch.items() if not name.startswith("dfs")}
    assert not torch.allclose(hidden(batch, "sgnet"), hidden(batch, "sgnet", direction="none"), atol=1e-3)
    torch.testing.assert_close(
        hidden(bare, "sgnet", direction="none"), hidden(batch, "sgnet", direction="none")
    )


@pytest.mark.parametrize("variant", ["shared", "combo", "hybrid"])
@pytest.mark.parametrize("task", ["mlm", "classify"])
def test_coarse_tokens_alone(tmp_path, variant, task):
    """Fine tokens change nothing; every weight that is learned gets a gradient; a checkpoint of both starts it."""
    batch = batch_of(1)
    if task == "classify":
        batch["label"] = torch.tensor([0, 1, 0, 1])
    else:
        batch["mlm_labels"] = torch.where(batch["sequence_id"] > 0, batch["input_ids"], -100)
        batch["coarse_mlm_labels"] = torch.where(
            batch["coarse_sequence_id"] > 0, batch["coarse_input_ids"], -100
        )
    both = made(task, variant)
    checkpoint.save(both, tmp_path)
    alone = checkpoint.load(tmp_path, granularity="coarse").eval()
    output = alone(batch)
    other = {**batch, "input_ids": batch["input_ids"].flip(0).clamp(min=1)}
    assert torch.equal(output.loss, alone(other).loss)
    output.loss.backward()
    learned = {name for name, w in alone.named_parameters() if w.requires_grad}
    assert learned == {name for name, w in alone.named_parameters() if w.grad is not None}
    assert {n: int(c) for n, c in alone.counts(batch).items()} == {
        n: int(c) for n, c in output.counts.items()
    }
    if task == "mlm":
        whole = both(batch).parts["coarse_mlm"]
        assert torch.allclose(output.loss, whole) == (variant != "hybrid"), "which alone sees fine tokens"


@pytest.mark.parametrize(
    "model, task, options, says",
    [
        ("kbert", "none", {"graph": "no"}, "graph is 'no', expected true or false"),
        ("sgnet", "none", {"direction": "up"}, "expected one of ancestors, descendants, none"),
        ("ambert", "none", {**OPTIONS, "granularity": "all"}, "expected one of both, fine, coarse"),
        (
            "ambert",
            "span",
            {**OPTIONS, "granularity": "coarse"},
            "labels of task 'span' are those of fine tokens",
        ),
    ],
)
def test_switches_that_are_none(model, task, options, says):
    with pytest.raises(checkpoint.CheckpointError) as caught:
        checkpoint.new(tiny(), model, task, **options)
    assert says in str(caught.value)
