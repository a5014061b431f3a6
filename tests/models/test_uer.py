"""UER's checkpoints: to BERT's names and back, and the same outputs as UER's encoder, written out here."""

from __future__ import annotations

from math import erf, sqrt

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from models import checkpoint, uer
from models.checkpoint import CheckpointError
from models.uer import UerError
from tests.models import masks_literal
from tests.models.test_kbert import rows_of, seen_by
from tests.models.tiny import Code, tiny, tree_batch

WIDTH, INNER, LAYERS, VOCAB, HEADS = 32, 48, 2, 120, 4


def weights_of_uer(*heads: str) -> dict[str, torch.Tensor]:
    """Weights as UER's modules name and shape them; `heads`: `target`, `classifier`, `tagger`."""
    draw = torch.Generator().manual_seed(0)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=draw, dtype=torch.float64) * 0.3

    made: dict[str, torch.Tensor] = {}

    def linear(name: str, out: int, into: int) -> None:
        made[f"{name}.weight"], made[f"{name}.bias"] = normal(out, into), normal(out)

    def norm(name: str) -> None:
        made[f"{name}.gamma"], made[f"{name}.beta"] = 1 + normal(WIDTH), normal(WIDTH)

    for table, rows in (("word", VOCAB), ("position", 64), ("segment", 3)):
        made[f"embedding.{table}_embedding.weight"] = normal(rows, WIDTH)
    norm("embedding.layer_norm")
    for number in range(LAYERS):
        layer = f"encoder.transformer.{number}"
        for part in ("linear_layers.0", "linear_layers.1", "linear_layers.2", "final_linear"):
            linear(f"{layer}.self_attn.{part}", WIDTH, WIDTH)
        norm(f"{layer}.layer_norm_1")
        linear(f"{layer}.feed_forward.linear_1", INNER, WIDTH)
        linear(f"{layer}.feed_forward.linear_2", WIDTH, INNER)
        norm(f"{layer}.layer_norm_2")
    if "target" in heads:
        linear("target.mlm_linear_1", WIDTH, WIDTH)
        norm("target.layer_norm")
        linear("target.mlm_linear_2", VOCAB, WIDTH)
        linear("target.nsp_linear_1", WIDTH, WIDTH)
        linear("target.nsp_linear_2", 2, WIDTH)
    if "classifier" in heads:
        linear("output_layer_1", WIDTH, WIDTH)
        linear("output_layer_2", 3, WIDTH)
    if "tagger" in heads:
        linear("output_layer", 5, WIDTH)
    return made


def forward_of_uer(weights, ids, segments, positions, visible, *, unbiased: bool) -> np.ndarray:
    """UER's BertEmbedding and BertEncoder as K-BERT runs them, a token and a head at a time: float64[T, D]."""
    w = {name: x.double().numpy() for name, x in weights.items()}

    def norm(name, x):
        spread = np.std(x, ddof=1 if unbiased else 0) + 1e-6
        return w[f"{name}.gamma"] * (x - x.mean()) / spread + w[f"{name}.beta"]

    def linear(name, x):
        return w[f"{name}.weight"] @ x + w[f"{name}.bias"]

    tables = [w[f"embedding.{table}_embedding.weight"] for table in ("word", "position", "segment")]
    states = [
        norm("embedding.layer_norm", tables[0][i] + tables[1][p] + tables[2][s])
        for i, p, s in zip(ids, positions, segments, strict=True)
    ]
    for number in range(LAYERS):
        layer = f"encoder.transformer.{number}"
        query, key, value = (
            [linear(f"{layer}.self_attn.linear_layers.{k}", x) for x in states] for k in range(3)
        )
        size, after = WIDTH // HEADS, []
        for q in range(len(states)):
            mixed = np.zeros(WIDTH)
            for head in range(HEADS):
                own = slice(head * size, (head + 1) * size)
                scores = np.array(
                    [
                        query[q][own] @ key[k][own] / sqrt(size) + (1 - visible[q, k]) * -10000.0
                        for k in range(len(states))
                    ]
                )
                probabilities = np.exp(scores - scores.max())
                probabilities /= probabilities.sum()
                mixed[own] = sum(p * value[k][own] for k, p in enumerate(probabilities))
            inter = norm(
                f"{layer}.layer_norm_1", linear(f"{layer}.self_attn.final_linear", mixed) + states[q]
            )
            inner = linear(f"{layer}.feed_forward.linear_1", inter)
            inner = np.array([x * 0.5 * (1 + erf(x / sqrt(2))) for x in inner])
            after.append(
                norm(f"{layer}.layer_norm_2", linear(f"{layer}.feed_forward.linear_2", inner) + inter)
            )
        states = after
    return np.stack(states)


@pytest.mark.parametrize("exact", [True, False])
def test_outputs_are_those_of_the_literal_encoder(exact, tmp_path):
    """Exactly: UER's own; else those of UER with a layer norm like BERT's."""
    weights = weights_of_uer()
    torch.save(weights, tmp_path / "google_model.bin")
    uer.convert(tmp_path / "google_model.bin", tmp_path / "made", heads=HEADS, exact=exact)
    model = checkpoint.load(tmp_path / "made", "kbert", dtype=torch.float64).eval()
    row = next(row for row in rows_of(3) if max(row["tree_branch"]) > 1)
    batch, visible = tree_batch([row]), seen_by([row])[0]
    segments = [kind + 1 for kind in row["tree_token_type_ids"]]
    arguments = (weights, row["tree_ids"], segments, row["tree_soft_positions"], visible)
    expected = forward_of_uer(*arguments, unbiased=exact)
    hidden = model(batch).logits["hidden"][0].detach().numpy()
    np.testing.assert_allclose(hidden, expected, atol=1e-5)
    other = forward_of_uer(*arguments, unbiased=not exact)
    assert np.abs(hidden - other).max() > 1e-2
    assert masks_literal.visible(row)[0] != set(range(len(row["tree_ids"])))


@pytest.mark.parametrize("heads", [(), ("target",), ("classifier",), ("tagger",), ("target", "tagger")])
def test_there_and_back_weights_are_the_same(heads):
    weights = weights_of_uer(*heads)
    weights["embedding.segment_embedding.weight"][0] = 0
    back = uer.to_uer(uer.from_uer(weights))
    assert back.keys() == weights.keys() and all(torch.equal(back[name], weights[name]) for name in weights)
    back = uer.to_uer(uer.from_uer(weights, exact=True), exact=True)
    for name in weights:
        torch.testing.assert_close(back[name], weights[name])


@pytest.mark.parametrize(
    ("head", "model", "task"),
    [
        ("target", "bert", "pretrain"),
        ("target", "bert", "mlm"),
        ("classifier", "kbert", "classify"),
        ("tagger", "kbert", "tag"),
    ],
)
def test_a_file_of_uer_starts_a_model_whole(head, model, task, tmp_path):
    weights = weights_of_uer(head)
    torch.save(weights, tmp_path / "model.bin")
    uer.convert(tmp_path / "model.bin", tmp_path / "made", heads=HEADS)
    made = checkpoint.load(tmp_path / "made", model, task, dtype=torch.float64)
    assert made.drawn == ()
    back = uer.to_uer(made.state_dict())
    for name, x in back.items():
        if not name.startswith("embedding.segment"):
            assert torch.equal(x, weights[name]), name
    assert set(weights) - set(back) <= {name for name in weights if "nsp" in name}


def test_pretrained_weights_of_bert_go_out_and_in(tmp_path):
    torch.manual_seed(0)
    model = checkpoint.new(tiny(), "bert", "pretrain")
    torch.save(uer.to_uer(model.state_dict()), tmp_path / "model.bin")
    uer.convert(tmp_path / "model.bin", tmp_path / "made", heads=4)
    again = checkpoint.load(tmp_path / "made", "bert", "pretrain")
    assert again.config.tie_word_embeddings
    mine, theirs = model.state_dict(), again.state_dict()
    assert mine.keys() == theirs.keys() and all(torch.equal(mine[name], theirs[name]) for name in mine)


@pytest.mark.parametrize("task", ["mlm", "pretrain"])
def test_weights_of_a_file_go_out_whole(task, tmp_path):
    """Of weights that are one, a saved file has one name; UER's scripts need both."""
    torch.manual_seed(0)
    model = checkpoint.new(tiny(), "bert", task)
    with torch.no_grad():
        model.cls.predictions.bias.normal_()
    checkpoint.save(model, tmp_path / "saved")
    saved = load_file(tmp_path / "saved/model.safetensors")
    whole, out = uer.to_uer(model.state_dict()), uer.to_uer(saved)
    assert len(saved) < len(model.state_dict()) and out.keys() == whole.keys()
    assert all(torch.equal(out[name], whole[name]) for name in whole)
    back = uer.from_uer(out)
    assert back.keys() == model.state_dict().keys()
    assert all(torch.equal(back[name], x) for name, x in model.state_dict().items())


def test_what_is_no_checkpoint_of_uer_is_refused(tmp_path):
    weights = weights_of_uer()
    with pytest.raises(UerError, match=r"expected weights named as UER does.*found bert.x"):
        uer.from_uer({"bert.x": torch.zeros(1)})
    with pytest.raises(UerError, match=r"encoder.rnn.weight has no counterpart"):
        uer.from_uer({**weights, "encoder.rnn.weight": torch.zeros(1)})
    with pytest.raises(UerError, match="weights of UER's encoder are missing"):
        without = {name: x for name, x in weights.items() if not name.startswith("encoder")}
        uer.config_of(uer.from_uer(without), heads=HEADS)
    with pytest.raises(UerError, match="5 heads"):
        uer.config_of(uer.from_uer(weights), heads=5)
    with pytest.raises(UerError, match=r"syntax_layer.* has no counterpart in UER's BERT"):
        uer.to_uer({"syntax_layer.output.dense.weight": torch.zeros(1)})
    (tmp_path / "text.bin").write_text("no weights")
    with pytest.raises(UerError, match="cannot be read as a file of weights"):
        uer.read(tmp_path / "text.bin")
    (tmp_path / "junk.bin").write_bytes(b"junk" * 50)
    with pytest.raises(UerError, match="cannot be read as a file of weights"):
        uer.read(tmp_path / "junk.bin")
    with pytest.raises(UerError, match="cannot be read as a file of weights"):
        uer.read(tmp_path / "missing.bin")
    torch.save(weights, tmp_path / "model.bin")
    with pytest.raises(CheckpointError, match=r"is a file.*models.uer.convert"):
        checkpoint.load(tmp_path / "model.bin")


WORDS, SEGMENTS = "embedding.word_embedding.weight", "embedding.segment_embedding.weight"
INTO = "encoder.transformer.{}.feed_forward.linear_1.weight"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({3: torch.zeros(1)}, "no weights by name"),
        ({WORDS: torch.zeros(5)}, "word_embeddings.weight is of shape"),
        ({INTO.format(0): torch.tensor(1.0)}, "intermediate.dense.weight is of shape"),
        ({INTO.format(1): torch.zeros(7, WIDTH)}, "layer.1.intermediate.dense.weight is of shape"),
        ({INTO.format(1): None}, "layer.1.intermediate.dense.weight is not there"),
        ({INTO.format(9): torch.zeros(INNER, WIDTH)}, "layer.9.* in a BERT of 3 layers"),
        ({SEGMENTS: torch.zeros(1, WIDTH)}, "segment_embedding.weight of 3 rows"),
        ({SEGMENTS: torch.tensor(1.0)}, "segment_embedding.weight of 3 rows"),
        ({"embedding.position_embedding.weight": None}, "position_embeddings.weight is not there"),
        ({"embedding.layer_norm.gamma": torch.zeros(0)}, "LayerNorm.weight is of shape"),
        ({"embedding.layer_norm.zeta": torch.zeros(WIDTH)}, "LayerNorm.zeta"),
        ({"target.mlm_linear_2.weight": torch.zeros(3, 3)}, "decoder.weight is of shape"),
    ],
)
def test_weights_that_make_no_whole_bert(changes, message, tmp_path):
    weights = {**weights_of_uer("target"), **changes}
    torch.save({name: x for name, x in weights.items() if x is not None}, tmp_path / "model.bin")
    with pytest.raises(UerError, match=message):
        uer.read(tmp_path / "model.bin", HEADS, exact=True)


@pytest.mark.parametrize("heads", [0, -1, 5])
def test_numbers_of_heads_that_there_cannot_be(heads):
    with pytest.raises(UerError, match=f"does not part into {heads} heads"):
        uer.config_of(uer.from_uer(weights_of_uer()), heads)


def test_a_file_with_code_is_not_run(tmp_path):
    torch.save({"embedding.word_embedding.weight": Code(tmp_path / "was-run")}, tmp_path / "model.bin")
    with pytest.raises(UerError, match="cannot be read as a file of weights"):
        uer.read(tmp_path / "model.bin")
    assert not (tmp_path / "was-run").exists()
