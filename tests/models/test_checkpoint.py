"""Checkpoints: there and back, transformers reads what is saved, nothing is random without being named."""

from __future__ import annotations

import json
import logging
import shutil

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers import (
    BertConfig,
    BertForMaskedLM,
    BertForPreTraining,
    BertModel,
    RobertaConfig,
    RobertaModel,
)

from models import checkpoint
from models.checkpoint import MODELS, CheckpointError
from models.heads import TASKS
from tests.models.tiny import COARSE, Code, fine_batch, tiny

OPTIONS = {
    "bert": {},
    "kbert": {},
    "sgnet": {"direction": "descendants", "aggregation": "learned", "alpha": 0.25},
    "ambert": {"coarse_vocab_size": COARSE, "agreement": 0.1},
    "unilm": {"lm": "left_to_right", "types": "by_kind"},
}
PAIRS = [(model, task) for model, kind in MODELS.items() for task in kind.tasks]


def same(mine: dict[str, torch.Tensor], theirs: dict[str, torch.Tensor]) -> bool:
    return mine.keys() == theirs.keys() and all(torch.equal(mine[name], theirs[name]) for name in mine)


@pytest.mark.parametrize(
    ("model", "options"),
    [
        *OPTIONS.items(),
        ("sgnet", {"softmax": False}),
        ("ambert", OPTIONS["ambert"] | {"variant": "combo"}),
        ("ambert", OPTIONS["ambert"] | {"variant": "hybrid", "classifiers": "three"}),
    ],
)
def test_dropout_is_that_of_all_modules(tmp_path, model, options):
    """The layers', attention's, the extra layer's, the other encoder's, the head's; and it is saved."""
    config = tiny(hidden_dropout_prob=0.1, attention_probs_dropout_prob=0.2, classifier_dropout=0.3)
    checkpoint.save(
        checkpoint.new(config, model, "classify", labels=["a", "b"], **options), tmp_path / "init"
    )

    def rates(source, **more):
        loaded = checkpoint.load(source, model, "classify", **more)
        return [module.p for module in loaded.modules() if isinstance(module, torch.nn.Dropout)]

    before, found = rates(tmp_path / "init"), rates(tmp_path / "init", dropout=0.45)
    assert set(before) == {0.1, 0.2, 0.3} and len(before) == len(found) and set(found) == {0.45}
    assert set(rates(tmp_path / "init", dropout=0.0)) == {0.0}
    checkpoint.save(checkpoint.load(tmp_path / "init", model, "classify", dropout=0.45), tmp_path / "saved")
    assert set(rates(tmp_path / "saved")) == {0.45}


def test_dropout_is_heard_in_training_alone(tmp_path):
    checkpoint.save(checkpoint.new(tiny(), "bert", "none"), tmp_path)
    batch, without = fine_batch([9, 7]), checkpoint.load(tmp_path).train()
    hidden = without(batch).logits["hidden"]
    loaded = checkpoint.load(tmp_path, dropout=0.5)
    assert torch.equal(loaded.eval()(batch).logits["hidden"], hidden)
    assert not torch.allclose(loaded.train()(batch).logits["hidden"], hidden)


@pytest.mark.parametrize(("model", "task"), PAIRS)
def test_saved_loaded_saved_it_is_the_same(model, task, tmp_path):
    made = checkpoint.new(tiny(), model, task, labels=["x", "y", "z"], **OPTIONS[model])
    checkpoint.save(made, tmp_path / "one")
    again = checkpoint.load(tmp_path / "one")
    assert type(again) is type(made) and again.settings == made.settings and again.drawn == ()
    assert same(made.state_dict(), again.state_dict())
    checkpoint.save(again, tmp_path / "two")
    for name in ("config.json", "model.safetensors"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
    assert sorted(path.name for path in (tmp_path / "one").iterdir()) == ["config.json", "model.safetensors"]


@pytest.mark.parametrize(("model", "task"), PAIRS)
def test_transformers_reads_what_is_saved(model, task, tmp_path):
    """Its class for the same task where that has the same weights; of any, the encoder."""
    made = checkpoint.new(tiny(), model, task, labels=["x", "y", "z"], **OPTIONS[model])
    checkpoint.save(made, tmp_path)
    encoder, info = BertModel.from_pretrained(tmp_path, add_pooling_layer=False, output_loading_info=True)
    assert not info["missing_keys"]
    assert same(
        encoder.state_dict(),
        {name: x for name, x in made.bert.state_dict().items() if not name.startswith("pooler")},
    )
    like = json.loads((tmp_path / "config.json").read_text())["architectures"]
    assert like == [TASKS[task].like]
    if model in ("bert", "kbert"):
        whole, info = getattr(transformers, like[0]).from_pretrained(tmp_path, output_loading_info=True)
        assert not info["unexpected_keys"] and not info["mismatched_keys"]
        assert not [name for name in info["missing_keys"] if "pooler" not in name]
        if task in ("classify", "tag"):
            assert whole.config.id2label == {0: "x", 1: "y", 2: "z"}


def old_folder(path, names=lambda name: name) -> BertForPreTraining:
    """A folder as those of years ago: pytorch_model.bin."""
    torch.manual_seed(3)
    model = BertForPreTraining(tiny())
    model.config.save_pretrained(path)
    torch.save({names(name): x for name, x in model.state_dict().items()}, path / "pytorch_model.bin")
    return model


def test_reads_old_names_and_pickled_weights_as_weights_alone(tmp_path):
    def old(name: str) -> str:
        return name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta")

    reference = old_folder(tmp_path, old)
    model = checkpoint.load(tmp_path, task="pretrain")
    assert model.drawn == () and same(model.state_dict(), reference.state_dict())


def test_pickled_code_is_refused_and_not_run(tmp_path):
    old_folder(tmp_path)
    torch.save(
        {"bert.embeddings.word_embeddings.weight": Code(tmp_path / "was-run")},
        tmp_path / "pytorch_model.bin",
    )
    with pytest.raises(CheckpointError, match="cannot be read"):
        checkpoint.load(tmp_path)
    assert not (tmp_path / "was-run").exists()


def test_a_plain_encoder_starts_any_model_and_what_is_new_is_named(tmp_path):
    torch.manual_seed(3)
    encoder = BertModel(tiny())
    encoder.save_pretrained(tmp_path)
    for model, task in PAIRS:
        made = checkpoint.load(tmp_path, model, task, labels=["x", "y"], **OPTIONS[model])
        assert torch.equal(
            made.bert.encoder.layer[1].output.dense.weight, encoder.encoder.layer[1].output.dense.weight
        )
        assert not [name for name in made.drawn if name.startswith("bert.")]
        heads = tuple(TASKS[task].modules(made.config, 32))
        owned = [name for name in made.drawn if name.startswith(heads)] if heads else []
        assert bool(owned) == any(list(m.parameters()) for m in TASKS[task].modules(made.config, 32).values())
        assert all(x.isfinite().all() and x.abs().max() < 1e3 for x in made.state_dict().values())


def test_a_head_of_other_labels_is_drawn_anew(tmp_path):
    made = checkpoint.new(tiny(), "bert", "classify", labels=["x", "y", "z"])
    checkpoint.save(made, tmp_path)
    again = checkpoint.load(tmp_path, labels=["p", "q"])
    assert set(again.drawn) == {"classifier.weight", "classifier.bias"}
    assert again.config.label2id == {"p": 0, "q": 1}


def heads(model):
    """Rows of the last layers by the class they are of, and what else there is."""
    names = model.config.id2label.values()
    found = {
        name: x for name, x in model.state_dict().items() if name.partition(".")[0].endswith("classifier")
    }
    return {name: dict(zip(names, x.unbind(), strict=True)) for name, x in found.items()}


@pytest.mark.parametrize(
    "task, other, kept",
    [
        ("choice", "regress", False),
        ("classify", "tag", False),
        ("tag", "tag", True),
        ("mlm", "pretrain", True),
    ],
)
def test_a_head_of_another_task_is_drawn_anew_though_it_has_the_shape(tmp_path, task, other, kept):
    labels = ["x", "y", "z"]
    made = checkpoint.new(tiny(), "bert", task, labels=labels)
    checkpoint.save(made, tmp_path)
    name = "cls.predictions.transform.dense.weight" if task == "mlm" else "classifier.weight"
    again = checkpoint.load(tmp_path, "bert", other, labels=labels)
    assert torch.equal(again.state_dict()[name], made.state_dict()[name]) is kept
    assert (name in again.drawn) is not kept
    assert kept or not again.classifier.bias.any()
    config = json.loads((tmp_path / "config.json").read_text())
    del config["treegraft"]  # a folder of transformers says its class
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert (name in checkpoint.load(tmp_path, "bert", other, labels=labels).drawn) is not kept
    del config["architectures"]  # one that says nothing has the head it seems to have
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert name not in checkpoint.load(tmp_path, "bert", other, labels=labels).drawn


@pytest.mark.parametrize(
    ("model", "task"), [("bert", "classify"), ("kbert", "tag"), ("ambert", "classify"), ("ambert", "tag")]
)
def test_rows_of_a_head_stay_with_their_labels(tmp_path, model, task):
    made = checkpoint.new(tiny(), model, task, labels=["x", "y", "z"], **OPTIONS[model])
    with torch.no_grad():
        for weight in made.parameters():
            weight.normal_()
    checkpoint.save(made, tmp_path)
    again = checkpoint.load(tmp_path, labels=["z", "x", "y"])
    assert again.drawn == () and list(again.config.id2label.values()) == ["z", "x", "y"]
    mine, theirs = heads(made), heads(again)
    assert len(mine) == (6 if (model, task) == ("ambert", "classify") else 2)
    assert mine.keys() == theirs.keys()
    for name in mine:
        assert all(torch.equal(mine[name][label], theirs[name][label]) for label in "xyz"), name
    assert same(made.bert.state_dict(), again.bert.state_dict())


@pytest.mark.parametrize("model", ["bert", "ambert"])
def test_a_head_of_as_many_other_labels_is_drawn_anew(tmp_path, model):
    made = checkpoint.new(tiny(), model, "classify", labels=["x", "y", "z"], **OPTIONS[model])
    with torch.no_grad():
        made.classifier.bias.fill_(5.0)
    checkpoint.save(made, tmp_path)
    again = checkpoint.load(tmp_path, labels=["x", "y", "w"])
    assert set(again.drawn) == set(heads(made)) and not again.classifier.bias.any()
    assert not torch.equal(again.classifier.weight, made.classifier.weight)
    assert float(again.classifier.weight.detach().std()) == pytest.approx(0.3, rel=0.4), (
        "the config's initializer_range"
    )
    assert same(made.bert.state_dict(), again.bert.state_dict())
    kept = checkpoint.load(tmp_path, labels=["x", "y", "z"])
    assert kept.drawn == () and torch.equal(kept.classifier.weight, made.classifier.weight)


def test_a_head_of_classes_without_names_is_kept_if_it_has_as_many(tmp_path):
    made = checkpoint.new(tiny(), "bert", "classify")
    checkpoint.save(made, tmp_path)
    again = checkpoint.load(tmp_path, labels=["p", "q"])
    assert again.drawn == () and torch.equal(again.classifier.weight, made.classifier.weight)


@pytest.mark.parametrize("source", ["out/nowhere", "./bert", "../bert", "~/bert", "/nowhere", "a/b/c"])
def test_a_folder_that_is_not_there_is_not_sought_on_the_hub(tmp_path, monkeypatch, source):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "out").mkdir()
    monkeypatch.setattr(BertConfig, "get_config_dict", lambda *_, **__: pytest.fail("asked the hub"))
    with pytest.raises(
        CheckpointError, match=r"is no checkpoint: expected a folder .* there is no such folder"
    ):
        checkpoint.load(source)


@pytest.mark.parametrize("source", ["bert-base-chinese", "owner/bert"])
def test_an_id_is_sought_on_the_hub(tmp_path, monkeypatch, source):
    asked = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        BertConfig, "get_config_dict", lambda name, **_: (asked.append(name) or tiny().to_dict(), {})
    )
    checkpoint.read_config(source)
    assert asked == [source]


def test_transformers_tells_no_table_of_what_is_drawn(tmp_path, monkeypatch):
    """And is as loud as before afterwards, also where a checkpoint cannot be read."""
    said, logger = [], transformers.logging.get_logger()
    handler = logging.Handler()
    monkeypatch.setattr(handler, "emit", lambda record: said.append(record.getMessage()))
    monkeypatch.setattr(logger, "level", logging.WARNING)
    logger.addHandler(handler)
    logger.manager._clear_cache()  # of levels
    try:
        BertModel(tiny()).save_pretrained(tmp_path)
        assert checkpoint.load(tmp_path, task="classify").drawn and said == []
        assert logger.level == logging.WARNING
        BertForMaskedLM.from_pretrained(tmp_path)
        assert "LOAD REPORT" in "".join(said)
        (tmp_path / "model.safetensors").write_bytes(b"")
        with pytest.raises(CheckpointError):
            checkpoint.load(tmp_path)
        assert logger.level == logging.WARNING
    finally:
        logger.removeHandler(handler)
        logger.manager._clear_cache()


def test_weights_of_another_model_are_refused(tmp_path):
    config = RobertaConfig(
        vocab_size=20, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8
    )
    RobertaModel(config).save_pretrained(tmp_path / "roberta")
    with pytest.raises(CheckpointError, match="a model of type 'roberta', expected 'bert'"):
        checkpoint.load(tmp_path / "roberta")
    RobertaModel(config).save_pretrained(tmp_path / "renamed")
    tiny().save_pretrained(tmp_path / "renamed")
    with pytest.raises(CheckpointError, match=r"of the encoder's weights: bert.embeddings"):
        checkpoint.load(tmp_path / "renamed")
    with pytest.raises(CheckpointError, match="is no checkpoint: expected a folder"):
        checkpoint.load(tmp_path / "nothing")
    BertConfig().save_pretrained(tmp_path / "empty")
    with pytest.raises(CheckpointError, match=r"weights of .*empty cannot be read"):
        checkpoint.load(tmp_path / "empty")
    BertForMaskedLM(tiny()).save_pretrained(tmp_path / "cut")
    file = tmp_path / "cut" / "model.safetensors"
    file.write_bytes(file.read_bytes()[:2000])
    with pytest.raises(CheckpointError, match=r"weights of .*cut cannot be read"):
        checkpoint.load(tmp_path / "cut")
    with pytest.raises(CheckpointError, match="model is 'gpt', expected one of bert"):
        checkpoint.new(tiny(), "gpt")


def test_new_models_are_drawn_from_torchs_random_state():
    def draw(seed: int) -> dict[str, torch.Tensor]:
        torch.manual_seed(seed)
        return checkpoint.new(tiny(), "sgnet", "span").state_dict()

    assert same(draw(1), draw(1)) and not same(draw(1), draw(2))


def test_tied_weights_are_saved_once_and_trained_as_one(tmp_path):
    model = checkpoint.new(tiny(), "bert", "mlm")
    checkpoint.save(model, tmp_path)
    assert "cls.predictions.decoder.weight" not in load_file(tmp_path / "model.safetensors")
    again = checkpoint.load(tmp_path)
    assert again.cls.predictions.decoder.weight is again.bert.embeddings.word_embeddings.weight
    batch = fine_batch([9, 9])
    again({**batch, "mlm_labels": batch["input_ids"]}).loss.backward()
    assert again.bert.embeddings.word_embeddings.weight.grad.any()


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved")
    checkpoint.save(checkpoint.new(tiny(), "bert", "mlm"), folder)
    return folder


def changed(saved, folder, config=None, weights=None):
    """A copy with these values in its config, and these weights pickled instead of its own."""
    read = json.loads((saved / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(read | (config or {})))
    if weights is None:
        shutil.copy(saved / "model.safetensors", folder)
    elif isinstance(weights, bytes):
        (folder / "pytorch_model.bin").write_bytes(weights)
    else:
        torch.save(weights, folder / "pytorch_model.bin")
    return folder


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"hidden_size": "x"}, "hidden_size"),
        ({"num_attention_heads": 0}, "num_attention_heads is 0, expected a whole number from 1"),
        ({"num_attention_heads": -2}, "num_attention_heads is -2"),
        (
            {"num_hidden_layers": 10**6},
            "num_hidden_layers is 1000000, expected a whole number from 1 to 1,000",
        ),
        ({"id2label": None, "num_labels": 10**9}, "num_labels is 1000000000"),
        ({"type_vocab_size": True}, "type_vocab_size is True"),
        ({"layer_norm_eps": -1}, "layer_norm_eps is -1"),
        ({"position_embedding_type": "relative_key"}, "position_embedding_type is 'relative_key'"),
        ({"pruned_heads": {"0": [0]}}, r"pruned_heads is .*, expected \{\}"),
        ({"add_cross_attention": True}, "add_cross_attention is True, expected False"),
        ({"_output_attentions": True}, "cannot be written again.*output_attentions"),
        ({"num_attention_heads": 5}, "not a multiple"),
        ({"hidden_act": "nope"}, "nope"),
        ({"hidden_dropout_prob": 2.0}, "dropout probability"),
        ({"hidden_dropout_prob": 1}, "hidden_dropout_prob is 1, expected .* below 1"),
        ({"attention_probs_dropout_prob": 1.0}, "attention_probs_dropout_prob is 1.0"),
        ({"vocab_size": 0}, "vocab_size is 0"),
        ({"vocab_size": None, "pad_token_id": 0}, "is no checkpoint.*vocab_size"),
        ({"pad_token_id": 10**6}, "pad_token_id is 1000000"),
        ({"pad_token_id": -7}, "pad_token_id is -7"),
        ({"id2label": "x"}, "is no checkpoint"),
        ({"dtype": "zzz"}, "zzz"),
        ({"is_decoder": True}, "is_decoder"),
        ({"num_hidden_layers": 1}, r"layers that its config does not.*layer\.1\..*num_hidden_layers is 1"),
        ({"num_hidden_layers": 3}, r"layer\.2\..*is not there"),
        ({"treegraft": [1]}, r"treegraft of config.json is \[1\]"),
        ({"treegraft": "x"}, "treegraft of config.json is 'x'"),
        ({"treegraft": {"model": ["bert"]}}, r"model is \['bert'\]"),
        ({"treegraft": {"task": [1]}}, r"no task \[1\]"),
        ({"treegraft": {"model": "sgnet", "alpha": "x"}}, "alpha is 'x', expected a number from 0 to 1"),
        ({"treegraft": {"model": "sgnet", "alpha": float("nan")}}, "alpha is nan"),
        (
            {"treegraft": {"model": "sgnet", "softmax": "no"}},
            "softmax is 'no', expected true, false or 'multiplied'",
        ),
        ({"treegraft": {"model": "ambert", "coarse_vocab_size": True}}, "coarse_vocab_size is True"),
        *(
            ({"treegraft": {"model": "ambert", "coarse_vocab_size": 5, "agreement": x}}, "agreement is")
            for x in ("x", float("nan"), float("inf"), -1)
        ),
    ],
)
def test_a_config_that_makes_no_model_is_one_error(config, message, saved, tmp_path):
    with pytest.raises(CheckpointError, match=message):
        checkpoint.load(changed(saved, tmp_path, config))


@pytest.mark.parametrize(
    "switch",
    [
        {"output_attentions": True},
        {"output_hidden_states": True},
        {"return_dict": False},
        {"chunk_size_feed_forward": 3},
        {"torchscript": True},
    ],
)
def test_switches_of_calls_are_no_business_of_a_file(switch, saved, tmp_path):
    plain, loaded = checkpoint.load(saved), checkpoint.load(changed(saved, tmp_path, switch))
    batch = fine_batch([9, 7])
    assert torch.equal(loaded(batch).logits["mlm"], plain(batch).logits["mlm"])
    checkpoint.save(loaded, tmp_path / "again")
    assert json.loads((tmp_path / "again/config.json").read_text()) == json.loads(
        (saved / "config.json").read_text()
    )


@pytest.mark.parametrize("weights", [b"", b"junk" * 50, [1, 2], {1: torch.zeros(1)}])
def test_weights_that_are_none_are_one_error(weights, saved, tmp_path):
    with pytest.raises(CheckpointError, match=r"weights of .* cannot be read"):
        checkpoint.load(changed(saved, tmp_path, weights=weights))


def test_a_config_of_the_first_releases(saved, tmp_path):
    changed(saved, tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({k: v for k, v in config.items() if k != "model_type"}))
    batch = fine_batch([9, 7])
    expected = checkpoint.load(saved)(batch).logits["mlm"]
    assert torch.equal(checkpoint.load(tmp_path)(batch).logits["mlm"], expected)


def test_code_in_a_checkpoint_is_not_run_nor_asked_about(tmp_path, monkeypatch):
    found = {"model_type": "bertx", "auto_map": {"AutoConfig": "configuration_x.Config"}}
    (tmp_path / "config.json").write_text(json.dumps(found))
    code = f"open({str(tmp_path / 'ran')!r}, 'w')\nfrom transformers import BertConfig as Config"
    (tmp_path / "configuration_x.py").write_text(code)
    monkeypatch.setattr("builtins.input", lambda *asked: "y")
    with pytest.raises(CheckpointError, match="a model of type 'bertx'"):
        checkpoint.load(tmp_path)
    assert not (tmp_path / "ran").exists()


def test_files_beside_the_weights_that_are_junk(saved, tmp_path):
    changed(saved, tmp_path, weights=b"")
    (tmp_path / "pytorch_model.bin").rename(tmp_path / "model.safetensors.index.json")
    (tmp_path / "model.safetensors.index.json").write_text('{"x": 1}')
    with pytest.raises(CheckpointError, match="cannot be read; KeyError: 'weight_map'"):
        checkpoint.load(tmp_path)
    (tmp_path / "config.json").write_text("null")
    with pytest.raises(CheckpointError, match="is no checkpoint"):
        checkpoint.load(tmp_path)


@pytest.mark.parametrize("odd", [float("nan"), float("-inf")])
def test_weights_that_are_no_numbers_are_refused(odd, tmp_path):
    made = checkpoint.new(tiny(), "bert", "mlm")
    with torch.no_grad():
        made.bert.encoder.layer[1].output.dense.weight[3, 3] = odd
    checkpoint.save(made, tmp_path)
    with pytest.raises(CheckpointError, match=r"no numbers .*bert.encoder.layer.1.output.dense.weight"):
        checkpoint.load(tmp_path)


@pytest.mark.parametrize("body", ["[1]", '"x"', "3", "null", "{}"])
def test_a_config_without_keys_is_none(saved, tmp_path, body):
    changed(saved, tmp_path)
    (tmp_path / "config.json").write_text(body)
    with pytest.raises(CheckpointError, match="is no checkpoint: expected a folder with"):
        checkpoint.load(tmp_path)


def as_files(folder, weights, how):
    """The weights as transformers may have them: one file or two, safetensors or pickled."""
    kind, halves = how.split()
    name, write = {
        "safe": ("model.safetensors", lambda body, path: save_file(body, path, {"format": "pt"})),
        "pickled": ("pytorch_model.bin", torch.save),
    }[kind]
    (folder / "model.safetensors").unlink()
    if halves == "whole":
        write(weights, folder / name)
        return
    stem, dot = name.split(".")
    names = {key: f"{stem}-{number % 2 + 1:05}-of-00002.{dot}" for number, key in enumerate(sorted(weights))}
    for file in set(names.values()):
        write({key: weights[key] for key in weights if names[key] == file}, folder / file)
    index = {"metadata": {"total_size": 1}, "weight_map": names}
    (folder / f"{name}.index.json").write_text(json.dumps(index))


@pytest.mark.parametrize("how", ["safe whole", "safe halves", "pickled whole", "pickled halves"])
def test_weights_of_no_floating_kind_are_refused(saved, tmp_path, how):
    """Also under the names of the first releases and of a plain encoder; buffers are what they are."""
    good = load_file(saved / "model.safetensors") | {"bert.embeddings.position_ids": torch.arange(120)[None]}
    wrong = "bert.encoder.layer.1.output.LayerNorm.weight"
    old = {name.replace("LayerNorm.weight", "LayerNorm.gamma"): x for name, x in good.items()}
    for number, (body, name) in enumerate(
        (
            (good, wrong),
            (old, f"{wrong[:-6]}gamma"),
            ({k.removeprefix("bert."): x for k, x in good.items()}, wrong[5:]),
        )
    ):
        small = (torch.int8, torch.bool, torch.int64, torch.float8_e4m3fn)
        for kind in (*small, torch.float16, torch.bfloat16, torch.float32):
            folder = tmp_path / f"{number}-{kind}"
            folder.mkdir()
            as_files(changed(saved, folder), body | {name: body[name].to(kind)}, how)
            if kind not in small:
                assert checkpoint.load(folder, task="none").drawn == ()
                continue
            with pytest.raises(
                CheckpointError, match=f"{name} is {str(kind)[6:]}, expected float16 or wider"
            ):
                checkpoint.load(folder)


def test_weights_of_a_hub_id_are_looked_at_too(saved, tmp_path, monkeypatch):
    commit = "0" * 40
    cached = tmp_path / "models--made--tiny"
    (cached / "refs").mkdir(parents=True)
    (cached / "refs/main").write_text(commit)
    shutil.copytree(saved, cached / "snapshots" / commit)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    assert checkpoint.load("made/tiny").drawn == ()
    body = load_file(saved / "model.safetensors")
    as_files(
        cached / "snapshots" / commit, {name: x.to(torch.int32) for name, x in body.items()}, "safe halves"
    )
    with pytest.raises(CheckpointError, match="is int32, expected float16 or wider"):
        checkpoint.load("made/tiny")


def test_a_file_in_the_way_of_a_folder(tmp_path):
    (tmp_path / "model").write_text("x")
    with pytest.raises(CheckpointError, match="is a file, expected a folder to write"):
        checkpoint.save(checkpoint.new(tiny()), tmp_path / "model")
