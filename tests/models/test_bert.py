"""BERT: equal to transformers' classes on the same weights; masks, labels and errors."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch
import transformers
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from models import checkpoint
from models.bert import Bert
from models.bert_batch import BatchError
from models.heads import TASKS
from tests.models import bert_literal as literal
from tests.models.tiny import VOCAB, fine_batch, tiny, together

# On a CPU FlexAttention runs as plain torch (`Bert.__call__`), which torch warns of.
pytestmark = pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")

LABELS = ["a", "b", "c"]


def attention_mask(batch: dict[str, Tensor]) -> dict[str, Tensor]:
    return {
        "input_ids": batch["input_ids"],
        "token_type_ids": batch["token_type_ids"],
        "attention_mask": (batch["sequence_id"] > 0).long(),
    }


def pair(task: str, tmp_path):
    """Our model of a task and transformers' own, loaded from what ours saved."""
    torch.manual_seed(1)
    ours = checkpoint.new(tiny(), "bert", task, labels=LABELS if task in ("classify", "tag") else None).eval()
    checkpoint.save(ours, tmp_path)
    theirs = (
        getattr(transformers, ours.task.like).from_pretrained(tmp_path, attn_implementation="sdpa").eval()
    )
    return ours, theirs


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("task", sorted(set(TASKS) - {"choice"}))
def test_equals_transformers_bit_for_bit(task, padded, tmp_path):
    ours, theirs = pair(task, tmp_path)
    batch = fine_batch([12, 9, 5] if padded else [12, 12])
    real = batch["sequence_id"] > 0
    with torch.no_grad():
        mine, reference = ours(batch).logits, theirs(**attention_mask(batch))
    wanted = {
        "none": lambda: {"hidden": reference.last_hidden_state},
        "pretrain": lambda: {"mlm": reference.prediction_logits, "nsp": reference.seq_relationship_logits},
        "span": lambda: {"start": reference.start_logits, "stop": reference.end_logits},
        "regress": lambda: {"regress": reference.logits[:, 0]},
    }.get(task, lambda: {task: reference.logits})()
    assert set(mine) == set(wanted)
    for name, value in wanted.items():
        per_token = value.ndim > 1 and value.shape[1] == real.shape[1]
        where = real if per_token else slice(None)
        assert torch.equal(mine[name][where], value[where]), name


@pytest.mark.parametrize("task", ["mlm", "pretrain", "nsp", "classify", "regress", "tag", "span"])
def test_losses_equal_transformers(task, tmp_path):
    ours, theirs = pair(task, tmp_path)
    batch = fine_batch([12, 12, 12])
    tokens = torch.where(torch.arange(36).view(3, 12) % 4 == 1, torch.arange(36).view(3, 12) % 3, -100)
    mine, names = {
        "mlm": ({"mlm_labels": tokens}, {"labels": tokens}),
        "nsp": ({"label": torch.tensor([1, 0, 1])}, {"labels": torch.tensor([1, 0, 1])}),
        "pretrain": (
            {"mlm_labels": tokens, "label": torch.tensor([1, 0, 1])},
            {"labels": tokens, "next_sentence_label": torch.tensor([1, 0, 1])},
        ),
        "classify": ({"label": torch.tensor([2, 0, 1])}, {"labels": torch.tensor([2, 0, 1])}),
        "regress": ({"label_score": torch.tensor([2.0, 0.5, 1])}, {"labels": torch.tensor([2.0, 0.5, 1])}),
        "tag": ({"token_labels": tokens}, {"labels": tokens}),
        "span": (
            {"answer_start": torch.tensor([0, 3, 7]), "answer_stop": torch.tensor([1, 5, 8])},
            {"start_positions": torch.tensor([0, 3, 7]), "end_positions": torch.tensor([0, 4, 7])},
        ),
    }[task]
    output = ours({**batch, **mine})
    torch.testing.assert_close(output.loss, theirs(**attention_mask(batch), **names).loss)
    torch.testing.assert_close(output.loss, sum(output.parts.values()))


def test_choices_of_unequal_numbers_are_softmaxed_by_question(tmp_path):
    ours, theirs = pair("choice", tmp_path)
    batch = fine_batch([9, 7, 8, 9, 6])
    labelled = {**batch, "choices": torch.tensor([0, 0, 0, 1, 1]), "label": torch.tensor([2, 0])}
    output = ours(labelled)
    scores = output.logits["choice"]
    expected = -(scores[:3].log_softmax(0)[2] + scores[3:].log_softmax(0)[0]) / 2
    torch.testing.assert_close(output.loss, expected)
    reference = theirs(**{name: x[None, :3] for name, x in attention_mask(batch).items()}).logits[0]
    torch.testing.assert_close(scores[:3], reference)
    unasked = ours({**labelled, "label": torch.tensor([2, -100])})
    torch.testing.assert_close(unasked.loss, -scores[:3].log_softmax(0)[2])
    assert unasked.counts["choice"] == 1
    with pytest.raises(BatchError, match="question 1 of the batch is 2, of which the batch has 2 choices"):
        ours({**labelled, "label": torch.tensor([2, 2])})


def test_rows_of_weight_zero_and_missing_labels_count_nothing():
    torch.manual_seed(0)
    for task, labels in {
        "classify": {"label": torch.tensor([1, 0, -100, 2])},
        "regress": {"label_score": torch.tensor([1.0, 3.0, float("nan"), 2.0])},
        "tag": {"token_labels": torch.tensor([[1] * 8, [0] * 8, [-100] * 8, [2] * 8])},
        "span": {"answer_start": torch.tensor([1, 2, -100, 3]), "answer_stop": torch.tensor([2, 4, -100, 5])},
        "mlm": {"mlm_labels": torch.tensor([[1] * 8, [0] * 8, [-100] * 8, [2] * 8])},
    }.items():
        model = checkpoint.new(tiny(), "bert", task, labels=LABELS).eval()
        batch = {**fine_batch([8] * 4), **labels}
        batch["row_weight"] = torch.tensor([1.0, 1.0, 1.0, 0.0])
        two = {name: x[:2] for name, x in batch.items()}
        torch.testing.assert_close(model(batch).loss, model(two).loss)
        none = {name: x[2:] for name, x in batch.items()}
        output = model(none)
        assert output.loss == 0 and all(n == 0 for n in output.counts.values())
        output.loss.backward()
        assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())


def test_padding_changes_no_loss():
    torch.manual_seed(0)
    model = checkpoint.new(tiny(), "bert", "span").eval()
    labels = {"answer_start": torch.tensor([0]), "answer_stop": torch.tensor([1])}
    short = fine_batch([7])
    long = {name: torch.nn.functional.pad(x, (0, 5)) if x.ndim == 2 else x for name, x in short.items()}
    torch.testing.assert_close(model({**short, **labels}).loss, model({**long, **labels}).loss)


def test_hidden_states_are_those_of_the_literal_encoder():
    torch.manual_seed(0)
    model = checkpoint.new(tiny(), "bert", "none").eval()
    batch = fine_batch([12, 9, 5])
    expected = literal.bert(literal.weights_of(model), batch, together(batch), heads=4)
    real = batch["sequence_id"] > 0
    for dtype, tolerance in ((torch.float32, 1e-5), (torch.float64, 1e-10)):
        hidden = model.to(dtype)(batch).logits["hidden"]
        np.testing.assert_allclose(hidden[real].detach(), expected[real], atol=tolerance)


def test_packed_sequences_are_as_if_alone():
    torch.manual_seed(0)
    model = checkpoint.new(tiny(), "bert", "none").eval()
    alone = fine_batch([5, 7])
    packed = {
        name: torch.cat([alone[name][0, :5], alone[name][1, :7]])[None]
        for name in ("input_ids", "token_type_ids", "position_ids")
    }
    packed["sequence_id"] = torch.tensor([[1] * 5 + [2] * 7])
    packed_up, apart = model(packed).logits["hidden"], model(alone).logits["hidden"]
    torch.testing.assert_close(packed_up[0, :5], apart[0, :5])
    torch.testing.assert_close(packed_up[0, 5:], apart[1])


@pytest.mark.parametrize("attention", ["eager", "flex_attention"])
def test_other_attentions_agree(attention):
    config = tiny()
    torch.manual_seed(0)
    model = checkpoint.new(config, "bert", "none").eval()
    other = checkpoint.new(config, "bert", "none", attention=attention).eval()
    other.load_state_dict(model.state_dict())
    batch = fine_batch([12, 9, 5])
    real = batch["sequence_id"] > 0
    with torch.no_grad():
        torch.testing.assert_close(
            model(batch).logits["hidden"][real], other(batch).logits["hidden"][real], atol=1e-5, rtol=1e-5
        )


def test_numbers_without_a_row_are_refused_by_name():
    model = checkpoint.new(tiny(), "bert", "classify", labels=LABELS)
    batch = {**fine_batch([12, 9]), "label": torch.tensor([0, 2])}
    for name, value, says in (
        ("input_ids", 120, "input_ids holds 120, expected 0 to 119.*tokenizer"),
        ("token_type_ids", 2, "token_type_ids holds 2.*type_vocab_size"),
        ("position_ids", 120, "position_ids holds 120, expected 0 to 119.*max_length"),
        ("position_ids", -1, "position_ids holds -1"),
        ("sequence_id", 2, "do not pack"),
    ):
        wrong = batch[name].clone()
        wrong[1, 3] = value
        with pytest.raises(BatchError, match=says):
            model({**batch, name: wrong})
    with pytest.raises(BatchError, match="label holds 3, expected 0 to 2"):
        model({**batch, "label": torch.tensor([0, 3])})
    del batch["sequence_id"]
    with pytest.raises(BatchError, match="reads 'sequence_id'; the batch has input_ids"):
        model(batch)


OPTIONS = {"ambert": {"coarse_vocab_size": 120}}


def extra(model: str) -> dict[str, Tensor]:
    """What other models read beside `fine_batch([12, 9])`."""
    plain = fine_batch([12, 9])
    if model == "sgnet":
        return {name: torch.zeros_like(plain["input_ids"]) for name in ("dfs_in", "dfs_out")}
    if model == "ambert":
        index = plain["position_ids"].to(torch.int32)
        return {f"coarse_{name}": x for name, x in plain.items()} | {"coarse_index": index}
    return {}


def test_numbers_of_sequences_are_not_below_zero():
    batch = fine_batch([12, 9])
    batch["sequence_id"][1, 0] = -1
    with pytest.raises(BatchError, match="sequence_id holds -1"):
        checkpoint.new(tiny(), "bert", "mlm")(batch)


@pytest.mark.parametrize("model", ["bert", "sgnet", "ambert", "unilm"])
def test_an_answer_lies_within_its_row(model):
    made = checkpoint.new(tiny(), model, "span", **OPTIONS.get(model, {}))
    batch = {**fine_batch([12, 9]), **extra(model)}
    batch |= {"answer_start": torch.tensor([3, 0]), "answer_stop": torch.tensor([12, 1])}
    assert made(batch).loss < 1e3
    batch |= {"answer_start": torch.tensor([3, -100]), "answer_stop": torch.tensor([12, -100])}
    assert made(batch).loss < 1e3
    for start, stop in ((8, 10), (10**6, 10**6 + 1), (2, 10**6), (-7, 2), (2, -3), (0, 0), (5, 5), (2, -100)):
        wrong = {"answer_start": torch.tensor([3, start]), "answer_stop": torch.tensor([12, stop])}
        with pytest.raises(BatchError, match=rf"answer of row 1 .* tokens {start} to {stop} .* has 9"):
            made({**batch, **wrong})


def test_a_dataset_of_another_vocabulary_or_labels_is_refused():
    model = checkpoint.new(tiny(), "bert", "classify", labels=LABELS)
    model.check_dataset({"vocab_size": 120, "labels": LABELS})
    with pytest.raises(BatchError, match="vocab_size is 121, the checkpoint's vocabulary has 120"):
        model.check_dataset({"vocab_size": 121})
    for labels, says in (
        (["a", "b"], "number 2 is none in the dataset (2: a, b), 'c' in the model's head (3: a, b, c)"),
        (["c"], "number 0 is 'c' in the dataset (1: c), 'a' in the model's head (3: a, b, c)"),
        (
            ["b", "a", "c"],
            "number 0 is 'b' in the dataset (3: b, a, c), 'a' in the model's head (the same labels in",
        ),
    ):
        with pytest.raises(BatchError, match=re.escape(says)) as raised:
            model.check_dataset({"vocab_size": 120, "labels": labels})
        cure, python = str(raised.value).split(" --overwrite`, so that numbers mean the same, or ")
        assert (
            """): write `encode.labels: ["a", "b", "c"]` in the dataset's config and run `treegraft encode"""
            in cure
        )
        assert "fine-tune" in python and "labels=split.metadata" in python
    for labels in (["a", "b", "d"], ["a", "b", "c", "d"]):
        with pytest.raises(
            BatchError, match="'d' is none of the model's: take a dataset of its labels, or fine-tune"
        ):
            model.check_dataset({"vocab_size": 120, "labels": labels})


def test_of_classes_without_names_the_number_is_compared():
    model = checkpoint.new(tiny(), "bert", "tag")
    assert model.config.id2label == {0: "LABEL_0", 1: "LABEL_1"}
    model.check_dataset({"vocab_size": 120, "labels": ["neg", "pos"]})
    with pytest.raises(BatchError, match="3 labels"):
        model.check_dataset({"vocab_size": 120, "labels": LABELS})


def test_of_another_vocabulary_the_tokenizer_to_take_is_named(tmp_path):
    checkpoint.save(checkpoint.new(tiny(), "bert", "mlm"), tmp_path)
    (tmp_path / "vocab.txt").write_text("x")
    with pytest.raises(BatchError, match=f"encode the dataset with `encode.tokenizer: {tmp_path}/vocab.txt`"):
        checkpoint.load(tmp_path).check_dataset({"vocab_size": 121})


def test_half_precision_runs_and_its_loss_is_single():
    model = checkpoint.new(tiny(), "bert", "mlm").to(torch.bfloat16)
    batch = fine_batch([12, 9])
    loss = model(
        {**batch, "mlm_labels": torch.where(batch["input_ids"] % 5 == 1, batch["input_ids"], -100)}
    ).loss
    assert loss.dtype == torch.float32
    loss.backward()


def test_columns_of_each_task():
    columns = {
        task: checkpoint.new(tiny(), "bert", task).columns for task in ("none", "mlm", "choice", "span")
    }
    assert columns["none"] == columns["mlm"] == ("input_ids", "token_type_ids")
    assert columns["choice"] == ("input_ids", "token_type_ids", "label", "choice_lengths")
    assert columns["span"] == ("input_ids", "token_type_ids", "answer_start", "answer_stop")


@pytest.mark.parametrize("model", ["bert", "sgnet", "ambert"])
def test_checkpointing_of_activations_changes_no_gradient(model):
    batch = {**fine_batch([9, 9]), "token_labels": torch.ones(2, 9, dtype=torch.int64)}
    batch |= {
        f"coarse_{name}": batch[name]
        for name in ("input_ids", "token_type_ids", "position_ids", "sequence_id")
    }
    batch |= {
        "coarse_index": batch["position_ids"],
        "dfs_in": batch["position_ids"],
        "dfs_out": batch["position_ids"] + 2,
    }
    torch.manual_seed(0)
    options = {"coarse_vocab_size": 120} if model == "ambert" else {}
    made = checkpoint.new(tiny(), model, "tag", labels=LABELS, **options).train()
    gradients = []
    for again in (False, True):
        if again:
            made.gradient_checkpointing_enable()
        made.zero_grad()
        made(batch).loss.backward()
        gradients.append([p.grad for p in made.parameters() if p.grad is not None])
    assert len(gradients[0]) > 20
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other)


class Waits(TorchDispatchMode):
    """Counts what a GPU would be waited for: numbers that leave it, and how many places a mask has."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = str(func)
        by_mask = name == "aten.index.Tensor" and any(
            x is not None and x.dtype == torch.bool for x in args[1]
        )
        if by_mask or any(part in name for part in ("_local_scalar_dense", "nonzero", "masked_select")):
            self.found.append(name)
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize(("task", "most"), [("pretrain", 1), ("classify", 0), ("span", 0), ("choice", 0)])
def test_a_step_waits_for_the_places_of_masked_tokens_alone(task, most, monkeypatch):
    """Of a batch on a GPU, which is checked before it goes there."""
    model, batch = checkpoint.new(tiny(), "bert", task, labels=["a", "b"]), fine_batch([12] * 6)
    batch |= {
        "mlm_labels": torch.where(batch["position_ids"] % 5 == 2, batch["input_ids"], -100),
        "label": torch.tensor([0, 1] if task == "choice" else [0, 1] * 3),
        "choices": torch.tensor([0, 0, 0, 1, 1, 1]),
        "answer_start": torch.tensor([7] * 6),
        "answer_stop": torch.tensor([9] * 6),
    }
    monkeypatch.setattr(Bert, "check_numbers", lambda self, batch: None)  # what is asked of processors alone
    with Waits() as waits:
        model(batch)
    assert len(waits.found) == most, waits.found


def test_a_batch_is_looked_at_where_looking_is_free():
    """On a device whose numbers cannot be asked for, and not on processors alone."""
    model, wrong = checkpoint.new(tiny(), "bert", "span"), fine_batch([5, 4])
    wrong["input_ids"][0, 0] = VOCAB
    with pytest.raises(BatchError, match="input_ids holds 120"):
        model.check(wrong)
    elsewhere = {name: tensor.to("meta") for name, tensor in wrong.items()}
    model.check(elsewhere)
    del elsewhere["position_ids"]
    with pytest.raises(BatchError, match="reads 'position_ids'"):
        model.check(elsewhere)
