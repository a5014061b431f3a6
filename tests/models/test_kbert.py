"""K-BERT against a literal encoder; what a branch changes, and what it does not."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch

from models import checkpoint
from models.bert_batch import BatchError
from tests.models import bert_literal, masks_literal
from tests.models.tiny import tiny, tree_batch
from tests.rows import GROUPS, make_row

# On a CPU FlexAttention runs as plain torch (`Bert.__call__`), which torch warns of.
pytestmark = pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")


def rows_of(seed: int, count: int = 4):
    rng = random.Random(seed)
    return [make_row(rng, "tag", GROUPS, "a#0", most_words=6) for _ in range(count)]


def seen_by(rows) -> np.ndarray:
    return masks_literal.matrix(
        [[masks_literal.visible(row)] for row in rows], max(len(row["tree_ids"]) for row in rows)
    )


def made(task="none", layers=2, **settings):
    torch.manual_seed(0)
    return checkpoint.new(tiny(num_hidden_layers=layers), "kbert", task, **settings).eval()


@pytest.mark.parametrize("seed", range(3))
def test_hidden_states_are_those_of_the_literal_encoder(seed):
    model, rows = made(), rows_of(seed)
    batch = tree_batch(rows)
    expected = bert_literal.bert(bert_literal.weights_of(model), batch, seen_by(rows), heads=4)
    real = batch["sequence_id"] > 0
    for dtype, tolerance in ((torch.float32, 1e-5), (torch.float64, 1e-10)):
        hidden = model.to(dtype)(batch).logits["hidden"]
        np.testing.assert_allclose(hidden[real].detach(), expected[real], atol=tolerance)


@pytest.mark.parametrize("attention", ["eager", "flex_attention"])
def test_other_attentions_agree(attention):
    model, other, batch = made(), made(attention=attention), tree_batch(rows_of(7))
    with torch.no_grad():
        mine, theirs = (m(batch).logits["hidden"] for m in (model, other))
    torch.testing.assert_close(mine, theirs, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("layers", [1, 2])
def test_a_changed_branch_token_changes_just_what_sees_it(layers):
    """Through one layer its anchor and its branch; through two, by way of the anchor, all the rest."""
    model, rows = made(layers=layers), rows_of(3)
    batch = tree_batch(rows)
    before = model(batch).logits["hidden"]
    for number, (row, seen) in enumerate(zip(rows, seen_by(rows), strict=True)):
        reach = np.linalg.matrix_power(seen.astype(int), layers) > 0
        for token in np.flatnonzero(row["tree_branch"]):
            ids = batch["input_ids"].clone()
            ids[number, token] = ids[number, token] % 100 + 1
            changed = (model({**batch, "input_ids": ids}).logits["hidden"] != before).any(-1)
            assert not changed[:number].any() and not changed[number + 1 :].any()
            np.testing.assert_array_equal(changed[number], reach[:, token])
            assert layers > 1 or not changed[number, 0]  # [CLS] sees no branch


def test_soft_positions_are_what_the_embedding_reads():
    model, batch = made(), tree_batch(rows_of(3))
    other = {**batch, "position_ids": torch.arange(batch["input_ids"].shape[1]).expand_as(batch["input_ids"])}
    assert not torch.allclose(model(batch).logits["hidden"], model(other).logits["hidden"])
    far = batch["position_ids"].clone()
    far[0, 1] = 120
    with pytest.raises(BatchError, match="position_ids holds 120, expected 0 to 119"):
        model({**batch, "position_ids": far})


def test_labels_of_branch_tokens_count_nothing():
    model, rows = made("tag", labels=["a", "b", "c"]), rows_of(3)
    batch = tree_batch(rows)
    labels = torch.arange(batch["input_ids"].numel()).view_as(batch["input_ids"]) % 3
    trunk = torch.where((batch["branch"] == 0) & (batch["sequence_id"] > 0), labels, -100)
    anything = torch.where(batch["branch"] == 0, trunk, labels)
    output = model({**batch, "token_labels": anything})
    assert torch.equal(output.loss, model({**batch, "token_labels": trunk}).loss)
    assert output.counts["tag"] == (trunk >= 0).sum() < (anything >= 0).sum()


def test_classification_learns_from_a_branch_alone():
    """Rows that differ in what hangs from a mention are told apart."""
    model = made("classify", labels=["a", "b"])
    row = next(row for row in rows_of(3) if any(row["tree_branch"]))
    row["tree_ids"] = [
        30 if branch else token for token, branch in zip(row["tree_ids"], row["tree_branch"], strict=True)
    ]
    other = {**row, "tree_ids": [31 if token == 30 else token for token in row["tree_ids"]]}
    assert row["tree_ids"] != other["tree_ids"]
    batch = {**tree_batch([row, other]), "label": torch.tensor([0, 1])}
    step = torch.optim.Adam(model.train().parameters(), 1e-3)
    for _ in range(30):
        step.zero_grad()
        output = model(batch)
        output.loss.backward()
        step.step()
    assert output.loss < 0.1


def test_a_batch_without_a_tree_says_which_columns_make_one():
    batch = tree_batch(rows_of(3))
    del batch["branch"]
    with pytest.raises(BatchError, match=r"reads 'branch'.*add 'tree' to encode.columns"):
        made()(batch)


def test_columns():
    assert made().columns == (
        "tree_ids",
        "tree_token_type_ids",
        "tree_soft_positions",
        "tree_branch",
        "tree_mention",
        "branch_parents",
    )
    assert made("tag").columns[-2:] == ("token_labels", "tree_trunk_index")
    assert made("choice").columns[-2:] == ("choice_tree", "choice_branches")


def test_flex_attention_on_a_cpu_takes_batches_of_any_shape():
    """Nothing is compiled: torch's code for a CPU fails at the second shape, after most of a minute."""
    model, other = made(), made(attention="flex_attention")
    began = torch._dynamo.utils.counters["stats"]["unique_graphs"]
    with torch.no_grad():
        for seed, count in ((3, 3), (4, 2), (5, 4)):
            batch = tree_batch(rows_of(seed)[:count])
            mine, theirs = (m(batch).logits["hidden"] for m in (model, other))
            torch.testing.assert_close(mine, theirs, atol=1e-5, rtol=1e-5)
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == began
