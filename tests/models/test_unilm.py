"""UniLM: four masks over one network, types that tell the kind, and what each loss counts."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor
from transformers import BertForPreTraining

from models import checkpoint
from models.bert_batch import BatchError
from models.checkpoint import CheckpointError
from models.masks import LM_KINDS
from models.unilm import UniLM
from tests.models import bert_literal, masks_literal
from tests.models.tiny import fine_batch, tiny

# On a CPU FlexAttention runs as plain torch (`Bert.__call__`), which torch warns of.
pytestmark = pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")

TABLE = [[0, 1], [2, 2], [3, 3], [4, 5]]
"""Token types of segments 0 and 1 by kind (the published code's `forward` of its pretraining model)."""


def made(task: str = "none", seed: int = 0, **options: object) -> UniLM:
    torch.manual_seed(seed)
    config = tiny(**{name: options.pop(name) for name in ("type_vocab_size",) if name in options})
    return checkpoint.new(config, "unilm", task, **options).eval()


def apart(model: UniLM) -> UniLM:
    """Types that differ from each other, as training makes them."""
    with torch.no_grad():
        model.bert.embeddings.token_type_embeddings.weight.normal_(std=0.5)
    return model


def of_kinds(batch: dict[str, Tensor], *kinds: int) -> dict[str, Tensor]:
    return {**batch, "lm_kind": torch.tensor(kinds)}


def seen_by(batch: dict[str, Tensor]) -> np.ndarray:
    packs = []
    for kind, types, sequence in zip(
        batch["lm_kind"], batch["token_type_ids"], batch["sequence_id"], strict=True
    ):
        rows = [types[sequence == n].tolist() for n in range(1, int(sequence.max()) + 1)]
        packs.append([masks_literal.unilm(LM_KINDS[kind], {"token_type_ids": row}) for row in rows])
    return masks_literal.matrix(packs, batch["input_ids"].shape[1])


@pytest.mark.parametrize("task", ["none", "mlm", "pretrain", "classify", "regress", "tag", "span", "choice"])
def test_bidirectional_it_is_bert_bit_for_bit(task):
    batch = fine_batch([12, 9, 5])
    torch.manual_seed(1)
    bert = checkpoint.new(tiny(), "bert", task).eval()
    wanted = bert(batch).logits
    for options in ({}, {"types": "by_kind"}):
        model = made(task, 1, **options)
        with torch.no_grad():
            model.bert.embeddings.token_type_embeddings.weight[2:] += 1
        for kinds in ({}, of_kinds(batch, 0, 0, 0)):
            mine = model({**batch, **kinds}).logits
            assert mine.keys() == wanted.keys()
            assert all(torch.equal(mine[name], wanted[name]) for name in mine)


@pytest.mark.parametrize("types", ["shared", "by_kind"])
def test_hidden_states_are_those_of_the_literal_encoder(types):
    model = apart(made(types=types))
    batch = of_kinds(fine_batch([12, 9, 5, 11]), 3, 1, 2, 0)
    told = batch
    if types == "by_kind":
        told = {
            **batch,
            "token_type_ids": torch.tensor(TABLE)[batch["lm_kind"][:, None], batch["token_type_ids"]],
        }
    expected = bert_literal.bert(bert_literal.weights_of(model), told, seen_by(batch), heads=4)
    real = batch["sequence_id"] > 0
    for dtype, tolerance in ((torch.float32, 1e-5), (torch.float64, 1e-10)):
        hidden = model.to(dtype)(batch).logits["hidden"]
        np.testing.assert_allclose(hidden[real].detach(), expected[real], atol=tolerance)


@pytest.mark.parametrize("attention", ["eager", "flex_attention"])
def test_other_attentions_agree(attention):
    batch = of_kinds(fine_batch([12, 9, 5, 11]), 3, 1, 2, 0)
    with torch.no_grad():
        mine, theirs = (m(batch).logits["hidden"] for m in (made(), made(attention=attention)))
    real = batch["sequence_id"] > 0
    torch.testing.assert_close(mine[real], theirs[real], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("kind", range(4))
def test_a_changed_token_changes_just_what_sees_it(kind):
    """So nothing leaks from the future; layers add nothing, since each kind is an order."""
    model, batch = apart(made("mlm", types="by_kind")), of_kinds(fine_batch([11, 8]), kind, kind)
    before, seen = model(batch).logits["mlm"], seen_by(batch)
    for row, length in enumerate((11, 8)):
        for token in range(length):
            ids = batch["input_ids"].clone()
            ids[row, token] = ids[row, token] % 100 + 1
            changed = (model({**batch, "input_ids": ids}).logits["mlm"] != before).any(-1)
            assert not changed[1 - row].any()
            np.testing.assert_array_equal(changed[row], seen[row, :, token])


def test_right_to_left_is_left_to_right_in_a_mirror():
    model, batch = made(), fine_batch([11, 11])
    left = model(of_kinds(batch, 1, 1)).logits["hidden"]
    mirrored = {name: x.flip(1) if x.ndim == 2 else x for name, x in batch.items()}
    right = model(of_kinds(mirrored, 2, 2)).logits["hidden"]
    torch.testing.assert_close(left, right.flip(1))
    assert not torch.allclose(left, model(of_kinds(batch, 2, 2)).logits["hidden"], atol=1e-2)


@pytest.mark.parametrize("kind", range(4))
def test_packed_sequences_are_as_if_alone(kind):
    model, alone = apart(made("mlm", types="by_kind")), fine_batch([5, 7])
    packed = {
        name: torch.cat([alone[name][0, :5], alone[name][1]])[None]
        for name in ("input_ids", "token_type_ids", "position_ids")
    }
    packed["sequence_id"] = torch.tensor([[1] * 5 + [2] * 7])
    together = model(of_kinds(packed, kind)).logits["mlm"]
    single = model(of_kinds(alone, kind, kind)).logits["mlm"]
    torch.testing.assert_close(together[0, :5], single[0, :5])
    torch.testing.assert_close(together[0, 5:], single[1])


@pytest.mark.parametrize("kind", LM_KINDS)
def test_rows_without_a_kind_are_of_the_models(kind):
    model, batch = made("mlm", lm=kind), fine_batch([9, 8])
    number = LM_KINDS.index(kind)
    wanted = model(of_kinds(batch, number, number)).logits["mlm"]
    assert torch.equal(model(batch).logits["mlm"], wanted)


def test_what_reads_a_text_as_a_whole_is_bidirectional_whatever_a_row_says():
    batch = fine_batch([9, 8])
    wanted = made("classify")(batch).logits["classify"]
    assert torch.equal(made("classify", lm="seq2seq")(of_kinds(batch, 1, 3)).logits["classify"], wanted)


def test_next_sentences_count_for_bidirectional_rows_alone():
    model, batch = made("pretrain"), fine_batch([9, 9, 9, 9])
    labels = {"label": torch.tensor([1, 1, 0, 1]), "mlm_labels": batch["input_ids"]}
    output = model({**of_kinds(batch, 3, 0, 1, 2), **labels})
    assert output.counts["nsp"] == 1 and output.counts["mlm"] == 36
    torch.testing.assert_close(output.parts["nsp"], -output.logits["nsp"][1].log_softmax(-1)[1])
    none = made("pretrain", lm="seq2seq")({**batch, **labels})
    assert none.counts["nsp"] == 0 and none.parts["nsp"] == 0 and torch.equal(none.loss, none.parts["mlm"])


def test_two_types_grow_to_six_as_the_published_code_grows_them(tmp_path):
    torch.manual_seed(3)
    bert = BertForPreTraining(tiny())
    bert.save_pretrained(tmp_path / "bert")
    old = bert.bert.embeddings.token_type_embeddings.weight
    model = checkpoint.load(tmp_path / "bert", "unilm", "pretrain", types="by_kind").eval()
    assert model.drawn == () and model.config.type_vocab_size == 6
    types = model.bert.embeddings.token_type_embeddings
    assert torch.equal(types.weight, old[[0, 1, 0, 0, 0, 1]])
    batch = of_kinds(fine_batch([9, 8]), 3, 0)
    same = checkpoint.load(tmp_path / "bert", "unilm", "pretrain").eval()
    assert same.settings["types"] == "shared" and torch.equal(
        same(batch).logits["mlm"], model(batch).logits["mlm"]
    )
    model.train()({**batch, "mlm_labels": batch["input_ids"]}).loss.backward()
    assert types.weight.grad.any(1).tolist() == [True, True, False, False, True, True]
    checkpoint.save(apart(model), tmp_path / "six")
    again = checkpoint.load(tmp_path / "six")
    assert again.settings["types"] == "by_kind" and again.drawn == ()
    assert torch.equal(again.bert.embeddings.token_type_embeddings.weight, types.weight)


def test_a_checkpoint_of_six_types_is_one_by_kind():
    assert made(type_vocab_size=6).settings["types"] == "by_kind"
    assert made(type_vocab_size=6, types="shared").settings["types"] == "shared"
    with pytest.raises(CheckpointError, match="grows two token types to six; the checkpoint has 3"):
        made(type_vocab_size=3, types="by_kind")


def test_unknown_options_and_numbers_are_refused_by_name():
    with pytest.raises(CheckpointError, match="lm is 'causal', expected one of bidirectional, left_to_right"):
        made(lm="causal")
    with pytest.raises(CheckpointError, match="types is 'six', expected one of shared, by_kind"):
        made(types="six")
    with pytest.raises(CheckpointError, match="has no task 'nsp'"):
        made("nsp")
    model, batch = made("mlm", types="by_kind"), fine_batch([9, 8])
    with pytest.raises(BatchError, match="lm_kind holds 4, expected 0 to 3"):
        model(of_kinds(batch, 0, 4))
    with pytest.raises(BatchError, match="token_type_ids holds 2, expected 0 to 1"):
        model({**batch, "token_type_ids": batch["token_type_ids"] * 2})
    with pytest.raises(BatchError, match="'unilm' reads 'input_ids'"):
        model({name: x for name, x in batch.items() if name != "input_ids"})


def test_labels_are_smoothed_in_training_alone():
    """The paper's fine-tuning of generation: a share of each label lies on the whole vocabulary."""
    batch = fine_batch([9, 8])
    batch["mlm_labels"] = torch.where(batch["position_ids"] % 3 == 1, batch["input_ids"], -100)
    plain, smooth = made("mlm"), made("mlm", smoothing=0.1)
    assert torch.equal(smooth(batch).loss, plain(batch).loss)
    output = smooth.train()(batch)  # these have no dropout
    labels = batch["mlm_labels"][batch["mlm_labels"] != -100]
    scores = output.logits["mlm"].log_softmax(-1)
    wanted = -0.9 * scores[torch.arange(len(labels)), labels] - 0.1 * scores.mean(-1)
    torch.testing.assert_close(output.loss, wanted.mean())
    assert torch.equal(plain.train()(batch).loss, plain.eval()(batch).loss)


def test_next_sentences_are_not_smoothed():
    batch = fine_batch([9, 8]) | {"label": torch.tensor([0, 1])}
    plain, smooth = (made("pretrain", smoothing=share).train() for share in (0, 0.1))
    assert torch.equal(plain(batch).loss, smooth(batch).loss)


@pytest.mark.parametrize("smoothing", [1, 1.0, -0.1, float("nan"), True, "x"])
def test_smoothing_leaves_something_of_a_label(smoothing):
    with pytest.raises(CheckpointError, match=r"smoothing is .*, expected a number"):
        made("mlm", smoothing=smoothing)
