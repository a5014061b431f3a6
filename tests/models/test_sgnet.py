"""SG-Net against a literal layer; what a word changes along the parse; the ways to mix."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch
from torch.nn import functional
from transformers import BertModel

from models import checkpoint
from models.bert_batch import BatchError
from models.checkpoint import CheckpointError
from tests.models import bert_literal, masks_literal
from tests.models.tiny import syntax_batch, tiny, together
from tests.rows import GROUPS, make_row

# On a CPU FlexAttention runs as plain torch (`Bert.__call__`), which torch warns of.
pytestmark = pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")


def rows_of(seed: int, count: int = 4):
    rng = random.Random(seed)
    return [make_row(rng, "pretrain", GROUPS, "a#0", most_words=6) for _ in range(count)]


def seen_by(rows, direction="ancestors") -> np.ndarray:
    literal = getattr(masks_literal, direction)
    return masks_literal.matrix([[literal(row)] for row in rows], max(len(row["input_ids"]) for row in rows))


def made(task="none", **settings):
    torch.manual_seed(0)
    return checkpoint.new(tiny(), "sgnet", task, **settings).eval()


@pytest.mark.parametrize("softmax", [True, False, "multiplied"])
@pytest.mark.parametrize("direction", ["ancestors", "descendants"])
@pytest.mark.parametrize("aggregation", ["fixed", "learned", "concat"])
def test_hidden_states_are_those_of_the_literal_layer(aggregation, direction, softmax):
    model = made(aggregation=aggregation, direction=direction, softmax=softmax, alpha=0.3).double()
    if aggregation == "learned":
        with torch.no_grad():
            model.mix.shares.copy_(torch.tensor([0.2, 0.9], dtype=torch.float64))
            model.mix.scale.fill_(1.5)
    rows = rows_of(1)
    batch = syntax_batch(rows)
    w = bert_literal.weights_of(model)
    first = bert_literal.bert(w, batch, together(batch), heads=4)
    within = together(batch) if softmax == "multiplied" else None
    second = bert_literal.layer(w, "syntax_layer", first, seen_by(rows, direction), 4, bool(softmax), within)
    share = np.exp(0.2) / (np.exp(0.2) + np.exp(0.9))
    expected = {
        "fixed": 0.3 * first + 0.7 * second,
        "learned": 1.5 * (share * first + (1 - share) * second),
        "concat": np.concatenate([first, second], -1),
    }[aggregation]
    real = batch["sequence_id"] > 0
    for dtype, tolerance in ((torch.float64, 1e-10), (torch.float32, 1e-5)):
        hidden = model.to(dtype)(batch).logits["hidden"]
        np.testing.assert_allclose(hidden[real].detach(), expected[real], atol=tolerance)


@pytest.mark.parametrize("softmax", [True, False])
@pytest.mark.parametrize("direction", ["ancestors", "descendants"])
def test_a_changed_state_changes_just_the_words_that_see_it(direction, softmax):
    """Of the syntax-guided layer: the encoder below lets all see all."""
    model, rows = made(direction=direction, softmax=softmax), rows_of(2)
    batch, seen = syntax_batch(rows), seen_by(rows, direction)
    real = batch["sequence_id"] > 0
    states = torch.randn(*batch["input_ids"].shape, 32)
    guided = {}

    def keep(_module, inputs, output):
        guided["out"] = output

    def put(_module, inputs):
        return (guided["in"], *inputs[1:])

    model.syntax_layer.register_forward_hook(keep)
    model.syntax_layer.register_forward_pre_hook(put)

    def through(hidden):
        guided["in"] = hidden
        with torch.no_grad():
            model(batch)
        return guided["out"]

    before = through(states)
    for token in range(states.shape[1]):
        other = states.clone()
        other[:, token] += 1
        changed = (through(other) != before).any(-1)
        np.testing.assert_array_equal(changed[real], seen[:, :, token][real])


@pytest.mark.parametrize("attention", ["eager", "flex_attention"])
def test_other_attentions_agree(attention):
    model, other, batch = made(), made(attention=attention), syntax_batch(rows_of(5))
    with torch.no_grad():
        mine, theirs = (m(batch).logits["hidden"] for m in (model, other))
    torch.testing.assert_close(mine, theirs, atol=1e-5, rtol=1e-5)


def test_alpha_one_is_bert():
    model, batch = made("span", alpha=1.0), syntax_batch(rows_of(5))
    torch.manual_seed(0)
    plain = checkpoint.new(tiny(), "bert", "span").eval()
    plain.load_state_dict(model.state_dict(), strict=False)
    with torch.no_grad():
        assert torch.equal(model(batch).logits["start"], plain(batch).logits["start"])


@pytest.mark.parametrize("aggregation", ["fixed", "learned", "concat"])
@pytest.mark.parametrize("task", ["span", "choice"])
def test_tasks_of_the_paper_train_every_weight_they_use(task, aggregation):
    model, batch = made(task, aggregation=aggregation), syntax_batch(rows_of(5))
    labels = {
        "span": {"answer_start": torch.tensor([0, 1, 0, 1]), "answer_stop": torch.tensor([1, 2, 1, 2])},
        "choice": {"choices": torch.tensor([0, 0, 1, 1]), "label": torch.tensor([1, 0])},
    }[task]
    output = model({**batch, **labels})
    output.loss.backward()
    assert output.loss.isfinite()
    idle = [name for name, p in model.named_parameters() if p.grad is None or not p.grad.any()]
    # Each of a softmax's keys gets the same bias, and a choice's score too: neither changes anything.
    assert [name for name in idle if not name.endswith(("key.bias", "classifier.bias"))] == []


def test_by_the_letter_of_equation_2_hidden_words_are_seen_and_padding_is_not():
    model, rows = made(softmax="multiplied"), rows_of(2)
    batch = syntax_batch(rows)
    wider = {name: functional.pad(x, (0, 3)) if x.ndim == 2 else x for name, x in batch.items()}
    hidden, real = model(batch).logits["hidden"], batch["sequence_id"] > 0
    torch.testing.assert_close(model(wider).logits["hidden"][:, : real.shape[1]][real], hidden[real])
    assert not torch.allclose(made()(batch).logits["hidden"][real], hidden[real], atol=1e-3)


def test_starts_from_a_bert_checkpoint_at_halves(tmp_path):
    torch.manual_seed(0)
    BertModel(tiny()).save_pretrained(tmp_path)
    model = checkpoint.load(tmp_path, "sgnet", "span", aggregation="learned")
    assert model.mix.shares.tolist() == [0, 0] and model.mix.scale.tolist() == [1]
    assert {name.split(".")[0] for name in model.drawn} == {"mix", "qa_outputs", "syntax_layer"}
    assert model.syntax_layer.attention.self.query.weight.std() > 0


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"aggregation": "sum"}, "aggregation is 'sum', expected one of fixed, learned, concat"),
        ({"alpha": 1.5}, "alpha is 1.5"),
        ({"direction": "up"}, "direction is 'up'"),
        ({"beta": 1}, "no option 'beta'; its options: direction"),
        ({"task": "mlm"}, "no task 'mlm'"),
        ({"softmax": 1}, "softmax is 1, expected true, false or 'multiplied'"),
    ],
)
def test_wrong_options_are_refused(settings, says):
    with pytest.raises(CheckpointError, match=says):
        made(**settings)


def test_a_batch_without_a_parse_says_which_columns_make_one():
    batch = syntax_batch(rows_of(3))
    del batch["dfs_in"]
    with pytest.raises(BatchError, match=r"reads 'dfs_in'.*add 'syntax' to encode.columns"):
        made()(batch)


def test_columns():
    syntax = ("input_ids", "token_type_ids", "word_index", "word_dfs_in", "word_dfs_out")
    assert made("span").columns == (*syntax, "answer_start", "answer_stop")
    assert made("choice").columns == (*syntax, "label", "choice_lengths", "choice_words")
