"""AMBERT against a literal encoder; one encoder that is two; the losses of its fine-tuning."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch
from torch.nn import functional

from models import checkpoint
from models.ambert_options import VARIANTS
from models.bert_batch import BatchError
from models.checkpoint import CheckpointError
from tests.models import bert_literal as literal
from tests.models.tiny import COARSE, coarse_batch, tiny, together
from tests.rows import GROUPS, make_row

# On a CPU FlexAttention runs as plain torch (`Bert.__call__`), which torch warns of.
pytestmark = pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")


def batch_of(seed: int, count: int = 4):
    rng = random.Random(seed)
    return coarse_batch([make_row(rng, "pretrain", GROUPS, "a#0", most_words=6) for _ in range(count)])


THREE = ("classify", "regress", "tag", "span", "choice")
"""Tasks that `classifiers: three` fine-tunes."""


def made(task="none", variant="shared", **settings):
    torch.manual_seed(0)
    settings.setdefault("coarse_vocab_size", COARSE)
    return checkpoint.new(tiny(), "ambert", task, variant=variant, **settings).eval()


LABELS = {
    "classify": lambda batch: {"label": torch.tensor([2, 0, 1, 1])},
    "regress": lambda batch: {"label_score": torch.tensor([0.0, 2, 1, 4])},
    "choice": lambda batch: {"choices": torch.tensor([0, 0, 1, 1]), "label": torch.tensor([1, 0])},
    "tag": lambda batch: {
        "token_labels": torch.where(batch["sequence_id"] > 0, batch["input_ids"] % 3, -100)
    },
    "span": lambda batch: {
        "answer_start": torch.tensor([0, 1, 0, 1]),
        "answer_stop": torch.tensor([1, 2, 1, 2]),
    },
    "mlm": lambda batch: {
        "mlm_labels": torch.where(batch["sequence_id"] > 0, batch["input_ids"] % 3, -100),
        "coarse_mlm_labels": torch.where(batch["coarse_sequence_id"] > 0, 7, -100),
    },
}
"""Of a batch of four rows, by task."""


def coarse_numbers(batch):
    return (batch[f"coarse_{name}"].numpy() for name in ("input_ids", "token_type_ids", "position_ids"))


def coarse_together(batch):
    return together({"sequence_id": batch["coarse_sequence_id"]})


@pytest.mark.parametrize("variant", VARIANTS)
def test_hidden_states_are_those_of_the_literal_encoder(variant):
    model, batch = made(variant=variant).double(), batch_of(1)
    w = literal.weights_of(model)
    table = "coarse.embeddings" if variant == "combo" else "coarse_embeddings"
    coarse = literal.embed(w, table, *coarse_numbers(batch))
    if variant == "hybrid":
        numbers = (batch[name].numpy() for name in ("input_ids", "token_type_ids", "position_ids"))
        both = np.concatenate([literal.embed(w, "bert.embeddings", *numbers), coarse], 1)
        joined = torch.cat([batch["sequence_id"], batch["coarse_sequence_id"]], 1)
        hidden = literal.layers(w, "bert.encoder", both, together({"sequence_id": joined}), 4)
        fine, coarse = np.split(hidden, [batch["input_ids"].shape[1]], 1)
    else:
        fine = literal.bert(w, batch, together(batch), 4)
        encoder = "coarse.encoder" if variant == "combo" else "bert.encoder"
        coarse = literal.layers(w, encoder, coarse, coarse_together(batch), 4)
    for dtype, tolerance in ((torch.float64, 1e-10), (torch.float32, 1e-5)):
        logits = model.to(dtype)(batch).logits
        for name, wanted, prefix in (("hidden", fine, ""), ("coarse_hidden", coarse, "coarse_")):
            real = batch[f"{prefix}sequence_id"] > 0
            np.testing.assert_allclose(logits[name][real].detach(), wanted[real], atol=tolerance)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("attention", ["eager", "flex_attention"])
def test_other_attentions_agree(attention, variant):
    model, other, batch = made(variant=variant), made(variant=variant, attention=attention), batch_of(2)
    with torch.no_grad():
        mine, theirs = model(batch).logits, other(batch).logits
    for name in mine:
        torch.testing.assert_close(mine[name], theirs[name], atol=1e-5, rtol=1e-5)


def test_layers_are_the_same_tensors_and_get_one_gradient():
    model, batch = made("mlm"), batch_of(3)
    query = model.bert.encoder.layer[0].attention.self.query.weight
    fine = {**batch, "mlm_labels": torch.where(batch["sequence_id"] > 0, batch["input_ids"], -100)}
    coarse = {**batch, "coarse_mlm_labels": torch.where(batch["coarse_sequence_id"] > 0, 7, -100)}
    gradients = []
    for labelled in (fine, coarse, {**fine, **coarse}):
        model.zero_grad()
        output = model(labelled)
        output.loss.backward()
        gradients.append(query.grad.clone())
    assert gradients[0].any() and gradients[1].any()
    torch.testing.assert_close(gradients[2], gradients[0] + gradients[1])
    assert set(output.parts) == {"mlm", "coarse_mlm"}
    names = [name for name, _ in model.named_parameters()]
    assert not any(name.startswith("coarse") and ".layer." in name for name in names)


def test_combo_shares_nothing():
    model, batch = made("mlm", variant="combo"), batch_of(3)
    model({**batch, "coarse_mlm_labels": torch.where(batch["coarse_sequence_id"] > 0, 7, -100)}).parts[
        "coarse_mlm"
    ].backward()
    touched = {name for name, p in model.named_parameters() if p.grad is not None and p.grad.any()}
    assert touched and all(name.startswith("coarse") for name in touched)


def test_in_hybrid_alone_fine_tokens_see_coarse_ones():
    batch = batch_of(3)
    other = {**batch, "coarse_input_ids": (batch["coarse_input_ids"] + 1) % COARSE}
    for variant in VARIANTS:
        model = made(variant=variant)
        changed = (model(batch).logits["hidden"] != model(other).logits["hidden"]).any(-1)
        changed = changed[batch["sequence_id"] > 0]
        assert changed.all() if variant == "hybrid" else not changed.any()


def test_tokens_are_predicted_from_their_own_embeddings():
    model, batch = made("mlm"), batch_of(3)
    assert model.coarse_decoder.weight is model.coarse_embeddings.word_embeddings.weight
    assert model.cls.predictions.decoder.weight is model.bert.embeddings.word_embeddings.weight
    logits = model(batch).logits
    assert logits["mlm"].shape[-1] == 120 and logits["coarse_mlm"].shape[-1] == COARSE


@pytest.mark.parametrize("variant", VARIANTS)
def test_fine_tuning_adds_up_three_losses_and_the_distance(variant):
    model = made("classify", variant=variant, labels=["a", "b", "c"], agreement=0.5, classifiers="three")
    batch, label = batch_of(4), torch.tensor([2, 0, -100, 1])
    weight = torch.tensor([1.0, 1, 1, 0])
    output = model({**batch, "label": label, "row_weight": weight})
    fine, coarse = (x[:, 0].double() for x in model.encode_both(batch))
    poolers = [model.bert.pooler, (model.coarse if variant == "combo" else model.bert).pooler]
    first, second = (
        torch.tanh(pooler.dense(x.float())) for pooler, x in zip(poolers, (fine, coarse), strict=True)
    )
    scores = (
        model.classifier(first),
        model.coarse_classifier(second),
        model.joint_classifier(torch.cat([first, second], 1)),
    )
    losses = [functional.cross_entropy(score[:2], label[:2]) for score in scores]
    cosine = (fine * coarse).sum(1) / fine.norm(dim=1) / coarse.norm(dim=1)
    distance = (2 - 2 * cosine)[:3].mean()  # of the rows that are rows, labelled or not
    torch.testing.assert_close(output.loss, sum(losses) + 0.5 * distance.float())
    torch.testing.assert_close(output.logits["classify"], scores[2])
    assert set(output.parts) == {"classify", "classify_fine", "classify_coarse", "agreement"}
    unweighed = made("classify", labels=["a", "b", "c"], agreement=0.0)
    assert unweighed({**batch, "label": label}).parts["agreement"] > 0


@pytest.mark.parametrize("task", THREE)
def test_hybrid_is_fine_tuned_as_bert(task):
    """One head over the first sequence of two that are end to end (section 3.4): no second loss, no agreement."""
    model, batch = made(task, variant="hybrid", labels=["a", "b", "c"]), batch_of(4)
    assert model.settings["classifiers"] == "one" and model.settings["agreement"] is None
    assert model.parts == model.task.parts and "coarse_index" not in model.columns
    batch |= LABELS[task](batch)
    output = model(batch)
    fine, _ = model.encode_both(batch)
    if model.task.pooled:
        pooled = torch.tanh(model.bert.pooler.dense(fine[:, 0]))
        scores = {task: model.classifier(pooled) if task == "classify" else model.classifier(pooled)[:, 0]}
    else:
        scores = {"tag": model.classifier(fine)} if task == "tag" else {}
    if task == "span":
        both = model.qa_outputs(fine).masked_fill(
            (batch["sequence_id"] == 0)[..., None], output.logits["start"].min()
        )
        scores = dict(zip(("start", "stop"), both.unbind(-1), strict=True))
    torch.testing.assert_close(output.logits, scores)
    assert set(output.parts) == set(model.parts)
    torch.testing.assert_close(output.loss, sum(output.parts.values()))
    other = {**batch, "coarse_input_ids": (batch["coarse_input_ids"] + 1) % COARSE}
    assert not torch.allclose(model(other).loss, output.loss), "coarse tokens are seen all the same"


def test_a_checkpoint_goes_on_as_another_variant(tmp_path):
    """What it was saved with of the agreement is kept where there is one, and is in nobody's way where there is none."""
    checkpoint.save(made("mlm", agreement=0.25), tmp_path / "shared")
    assert (
        checkpoint.load(tmp_path / "shared", task="classify", labels=["a", "b"]).settings["agreement"] == 0.25
    )
    one = checkpoint.load(tmp_path / "shared", task="classify", labels=["a", "b"], variant="hybrid")
    assert one.settings["agreement"] is None and one.parts == ("classify",)
    checkpoint.save(made("mlm", variant="hybrid"), tmp_path / "hybrid")
    three = checkpoint.load(tmp_path / "hybrid", task="classify", labels=["a", "b"], classifiers="three")
    assert three.settings["agreement"] == 1.0 and len(three.parts) == 4
    checkpoint.save(three, tmp_path / "three")
    assert checkpoint.load(tmp_path / "three").parts == three.parts
    fine = checkpoint.load(tmp_path / "hybrid", task="classify", granularity="fine", agreement=0.01)
    assert fine.parts == ("classify",), "an ablation takes the recipe as it is"


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("task", [*THREE, "mlm"])
def test_every_task_trains_every_weight_it_uses(task, variant):
    model, batch = made(task, variant=variant, labels=["a", "b", "c"]), batch_of(5)
    labels = LABELS[task](batch)
    output = model({**batch, **labels})
    output.loss.backward()
    assert output.loss.isfinite()
    idle = [name for name, p in model.named_parameters() if p.grad is None or not p.grad.any()]
    # Keys get one bias and a question's choices another: neither changes anything.
    assert [name for name in idle if not name.endswith(("key.bias", "classifier.bias"))] == []


def test_tags_read_the_coarse_token_that_covers_the_fine_one():
    model, batch = made("tag", labels=["a", "b", "c"]), batch_of(5)
    logits = model(batch).logits["tag"]
    fine, coarse = model.encode_both(batch)
    row, token = 1, 2
    covering = coarse[row, batch["coarse_index"][row, token]]
    expected = model.classifier(torch.cat([fine[row, token], covering]))
    torch.testing.assert_close(logits[row, token], expected)
    del batch["coarse_index"]
    with pytest.raises(BatchError, match=r"reads 'coarse_index'.*add 'coarse' to encode.columns"):
        model(batch)


def test_saved_and_loaded_it_is_the_same(tmp_path):
    for variant in VARIANTS:
        for task in ("mlm", "classify"):
            model, batch = made(task, variant=variant, labels=["a", "b"]), batch_of(6)
            folder = tmp_path / f"{variant}-{task}"
            checkpoint.save(model, folder)
            again = checkpoint.load(folder).eval()
            assert again.drawn == () and again.settings == model.settings
            mine, theirs = model(batch).logits, again(batch).logits
            assert mine.keys() == theirs.keys() and all(
                torch.equal(mine[name], theirs[name]) for name in mine
            )


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"coarse_vocab_size": None}, "coarse_vocab_size is None.*dataset's metadata"),
        ({"variant": "both"}, "variant is 'both', expected one of shared, combo, hybrid"),
        ({"agreement": -1}, "agreement is -1"),
        ({"classifiers": "two"}, "classifiers is 'two', expected one of three, one"),
        ({"classifiers": "one", "variant": "combo"}, "fine tokens of variant 'combo' see no coarse ones"),
        (
            {"variant": "hybrid", "agreement": 0.01},
            "agreement is 0.01, and one classifier has none to agree with",
        ),
        (
            {"variant": "hybrid", "classifiers": "three", "agreement": "x"},
            "agreement is 'x', expected a number",
        ),
        ({"task": "pretrain"}, "no task 'pretrain'"),
    ],
)
def test_wrong_options_are_refused(settings, says):
    with pytest.raises(CheckpointError, match=says):
        made(**settings)


def test_how_to_pass_the_coarse_vocabulary_is_said():
    with pytest.raises(
        CheckpointError, match=r'load\(\.\.\., coarse_vocab_size=split\.metadata\["coarse_vocab_size"\]\)'
    ):
        made(coarse_vocab_size=None)


def test_numbers_without_a_row_are_refused_by_name():
    model, batch = made(), batch_of(5)
    wrong = batch["coarse_input_ids"].clone()
    wrong[0, 1] = COARSE
    with pytest.raises(BatchError, match=f"coarse_input_ids holds {COARSE}, expected 0 to {COARSE - 1}"):
        model({**batch, "coarse_input_ids": wrong})
    with pytest.raises(BatchError, match="coarse_vocab_size is 141, the model's coarse vocabulary has 140"):
        model.check_dataset({"vocab_size": 120, "coarse_vocab_size": 141})


def test_columns():
    coarse = ("input_ids", "token_type_ids", "coarse_ids", "coarse_token_type_ids")
    assert made("mlm").columns == coarse
    assert made("classify").columns == (*coarse, "label")
    assert made("tag").columns == (*coarse, "token_labels", "coarse_index")
    assert made("choice").columns == (*coarse, "label", "choice_lengths", "choice_coarse")


# --- the agreement ----------------------------------------------------------------------------


def predicted(task, score):
    return score[:, None] if task == "regress" else score.softmax(-1)


@pytest.mark.parametrize("variant", ["shared", "combo"])
@pytest.mark.parametrize("task", ["classify", "regress", "choice"])
def test_predictions_agree_by_their_distance(task, variant):
    """Not squared, over rows or questions that are some, labelled or not; without a gradient where it is 0."""
    model = made(task, variant, labels=["a", "b", "c"], agree_on="predictions", agreement=0.5)
    batch = batch_of(4, count=6)
    batch["row_weight"] = torch.tensor([1.0, 1, 1, 1, 0, 0])
    batch |= {
        "classify": {"label": torch.tensor([2, 0, -100, 1, 1, 1])},
        "regress": {"label_score": torch.tensor([0.0, 2, float("nan"), 4, 1, 1])},
        "choice": {
            "choices": torch.tensor([0, 0, 0, 1, 2, 2]),  # padding's is a question, too, that nobody asks
            "label": torch.tensor([-100, 0, 0]),
        },
    }[task]
    output = model(batch)
    fine, coarse = (output.logits[f"{task}_{name}"] for name in ("fine", "coarse"))
    if task == "choice":
        apart = [(fine[:3].softmax(0) - coarse[:3].softmax(0)).norm(), torch.tensor(0.0)]
    else:
        apart = list((predicted(task, fine) - predicted(task, coarse))[:4].norm(dim=-1))
    torch.testing.assert_close(output.parts["agreement"], torch.stack(apart).mean())
    others = sum(part for name, part in output.parts.items() if name != "agreement")
    torch.testing.assert_close(output.loss, others + 0.5 * output.parts["agreement"])
    assert {n: int(c) for n, c in model.counts(batch).items()} == {
        n: int(c) for n, c in output.counts.items()
    }
    output.loss.backward()
    assert all(p.grad.isfinite().all() for p in model.parameters() if p.grad is not None)


def test_what_agrees_is_as_before_unless_it_is_said():
    batch = batch_of(4) | {"label": torch.tensor([2, 0, 1, 1])}
    mine, named = (
        made("classify", labels=["a", "b", "c"]),
        made("classify", labels=["a", "b", "c"], agree_on="cls"),
    )
    assert mine.settings["agree_on"] == "cls" and torch.equal(mine(batch).loss, named(batch).loss)
    with pytest.raises(CheckpointError, match="agree_on is 'logits', expected one of cls, predictions"):
        made(agree_on="logits")
    with pytest.raises(CheckpointError, match="agree_on is 'cls', and one classifier has none to agree with"):
        made(variant="hybrid", agree_on="cls")


# --- equation 1 -------------------------------------------------------------------------------


def masked_batch(seed, count=4):
    batch = batch_of(seed, count)
    draw = torch.Generator().manual_seed(seed)

    def some(name, share):
        ids = batch[f"{name}input_ids"]
        chosen = (torch.rand(ids.shape, generator=draw) < share) & (batch[f"{name}sequence_id"] > 0)
        return torch.where(chosen, ids, -100)

    return batch | {"mlm_labels": some("", 0.6), "coarse_mlm_labels": some("coarse_", 0.2)}


@pytest.mark.parametrize("variant", VARIANTS)
def test_equation_1_is_one_mean_over_the_masked_tokens_of_both(variant):
    batch = masked_batch(7)
    output = made("mlm", variant, masked="together")(batch)
    total = sum(
        functional.cross_entropy(output.logits[name], labels[labels != -100], reduction="sum")
        for name, labels in (("mlm", batch["mlm_labels"]), ("coarse_mlm", batch["coarse_mlm_labels"]))
    )
    every = sum(int((batch[name] != -100).sum()) for name in ("mlm_labels", "coarse_mlm_labels"))
    torch.testing.assert_close(output.loss, total / every)
    apart = made("mlm", variant)(batch)
    assert torch.equal(apart.loss, apart.parts["mlm"] + apart.parts["coarse_mlm"])
    assert all(torch.equal(apart.parts[name], part) for name, part in output.parts.items())


def test_shares_of_one_mean_add_up_to_it():
    """Whatever pieces have of either granularity, of which one has no coarse label at all."""
    model, batch = made("mlm", masked="together"), masked_batch(8, count=6)
    batch["coarse_mlm_labels"][0] = -100
    whole = model(batch)
    pieces = [{n: x[a:b] for n, x in batch.items()} for a, b in ((0, 1), (1, 4), (4, 6))]
    counts = [model.counts(piece) for piece in pieces]
    assert int(counts[0]["coarse_mlm"]) == 0 < int(counts[1]["coarse_mlm"])
    known = {name: sum(of[name] for of in counts) for name in whole.parts}
    torch.testing.assert_close(torch.stack([model(piece).share(known) for piece in pieces]).sum(), whole.loss)


def test_one_mean_of_nothing_is_nothing():
    batch = masked_batch(9)
    nothing = {name: torch.full_like(batch[name], -100) for name in ("mlm_labels", "coarse_mlm_labels")}
    assert made("mlm", masked="together")({**batch, **nothing}).loss == 0
    assert made("mlm", masked="together")(batch_of(9)).loss is None


def test_ablations_of_one_granularity_have_one_mean_anyway():
    batch = masked_batch(9)
    for granularity in ("fine", "coarse"):
        one, other = (
            made("mlm", granularity=granularity, masked=how)(batch) for how in ("apart", "together")
        )
        assert torch.equal(one.loss, other.loss) and one.weights == other.weights


# --- beginnings -------------------------------------------------------------------------------


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("task", ["mlm", "classify"])
def test_from_bert_coarse_tokens_begin_as_fine_ones_but_for_their_words(tmp_path, variant, task):
    torch.manual_seed(4)
    bert = checkpoint.new(tiny(), "bert", "pretrain")
    checkpoint.save(bert, tmp_path / "bert")
    options = {"variant": variant, "coarse_vocab_size": COARSE}
    model = checkpoint.load(tmp_path / "bert", "ambert", task, labels=["a", "b"], **options)
    weights = model.state_dict()
    table = "coarse.embeddings" if variant == "combo" else "coarse_embeddings"
    for name in (
        "position_embeddings.weight",
        "token_type_embeddings.weight",
        "LayerNorm.weight",
        "LayerNorm.bias",
    ):
        assert torch.equal(weights[f"{table}.{name}"], weights[f"bert.embeddings.{name}"])
        assert weights[f"{table}.{name}"].data_ptr() != weights[f"bert.embeddings.{name}"].data_ptr()
    if variant == "combo":
        for name, weight in model.bert.encoder.state_dict().items():
            assert torch.equal(model.coarse.encoder.state_dict()[name], weight)
    drawn = {name for name in model.drawn if not name.split(".")[0].endswith("classifier")}
    words = f"{table}.word_embeddings.weight"
    assert drawn - {"coarse_decoder.weight"} == {words} | (
        {"coarse_decoder.bias"} if task == "mlm" else set()
    )
    with torch.no_grad():
        weights[f"{table}.position_embeddings.weight"] += 1
    checkpoint.save(model, tmp_path / "own")
    again = checkpoint.load(tmp_path / "own")
    assert again.drawn == ()
    assert torch.equal(
        again.state_dict()[f"{table}.position_embeddings.weight"],
        weights[f"{table}.position_embeddings.weight"],
    )


def test_what_the_checkpoint_lacks_of_fine_tokens_too_is_drawn(tmp_path):
    checkpoint.save(checkpoint.new(tiny(), "bert", "none"), tmp_path)
    model = checkpoint.load(
        tmp_path, "ambert", "classify", labels=["a", "b"], variant="combo", coarse_vocab_size=COARSE
    )
    assert {"bert.pooler.dense.weight", "coarse.pooler.dense.weight"} <= set(model.drawn)
    assert not torch.equal(model.bert.pooler.dense.weight, model.coarse.pooler.dense.weight)


# --- what points at coarse tokens -------------------------------------------------------------


@pytest.mark.parametrize("wrong", [-1, None])
def test_a_coarse_token_that_is_not_there_is_named(wrong):
    model, batch = made("tag", labels=["a", "b"]), batch_of(5)
    shortest = int((batch["coarse_sequence_id"] > 0).sum(1).argmin())
    length = int((batch["coarse_sequence_id"][shortest] > 0).sum())
    batch["coarse_index"][shortest, 1] = length if wrong is None else wrong
    with pytest.raises(
        BatchError,
        match=rf"coarse_index of token 1 of row {shortest} .* is -?\d+, and the row has {length} coarse",
    ):
        model(batch)
