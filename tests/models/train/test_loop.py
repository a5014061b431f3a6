"""The loop: what it learns, that pieces and interruptions change nothing, and what it says of what is wrong."""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import sys
from importlib.metadata import version

import pytest
import torch
from rich.console import Console
from safetensors.torch import load_file
from transformers import AutoModelForPreTraining, AutoTokenizer

from models import checkpoint
from models.evaluate import predict
from models.ranks import Ranks
from models.stream.open import open_split
from models.train import log
from models.train import state as states
from models.train.facts import grouped
from models.train.folder import FolderError, held, newest
from models.train.loop import TrainingError, _Run
from models.train.reading import RecipeError
from tests.models.tiny import tiny
from tests.models.train.gradients import record
from tests.models.train.lesser import without
from tests.models.train.recipes import TINY, metrics, recipe, run, same, weights, write

OPTIM = {"lr": 2e-3, "steps": 12, "warmup": 2}


def pretraining(datasets, **keys):
    return {"task": "pretrain", "data": {"folder": str(datasets["pretrain"])}, "optim": OPTIM} | keys


def test_pretraining_learns_and_leaves_a_folder_for_transformers(datasets, tmp_path):
    out, said = run(tmp_path, **pretraining(datasets, optim={"lr": 3e-3, "steps": 40}, save_every=20, keep=1))
    losses = [line["loss"] for line in metrics(out)]
    # Of several steps: the losses of single batches lie far apart.
    assert sum(losses[-8:]) / 8 < sum(losses[:4]) / 4 - 0.7
    first = metrics(out)[0]
    assert first["loss"] == pytest.approx(first["mlm"] + first["nsp"]) and first["tokens"] > 0
    assert "weights" in said and "tokens/s" in said
    assert "<polyline" in (out / "curves.svg").read_text()
    assert [path.name for path in (out / "checkpoints").iterdir()] == [f"step-{len(losses):08}"]
    loaded = AutoModelForPreTraining.from_pretrained(out / "model")
    assert torch.equal(
        loaded.cls.predictions.decoder.weight, weights(out)["bert.embeddings.word_embeddings.weight"]
    )
    tokens = AutoTokenizer.from_pretrained(out / "model")
    assert tokens("我在北京")["input_ids"][0] == 2


TOGETHER = {"model": "ambert", "task": "mlm", "options": {"masked": "together"}}


@pytest.mark.parametrize(
    "batch, more",
    [
        ({"rows": 10}, {}),
        ({"tokens": 600}, {}),
        ({"tokens": 600, "pack": 128}, {"task": "mlm"}),
        ({"rows": 10}, TOGETHER),
    ],
)
def test_pieces_change_nothing(datasets, tmp_path, batch, more):
    """A step's rows at once, or in three pieces that do not divide them: the same losses, the same weights."""
    keys = pretraining(datasets, **{"task": "pretrain", "new": TINY | {"dropout": 0.0}} | more)
    whole, _ = run(tmp_path / "whole", **keys | {"batch": batch})
    cut, _ = run(tmp_path / "cut", **keys | {"batch": batch | {"accumulate": 3}})
    for one, other in zip(metrics(whole), metrics(cut), strict=True):
        assert one == pytest.approx(other, rel=1e-4, abs=1e-5)
    first, second = weights(whole), weights(cut)
    assert all(torch.allclose(first[name], second[name], atol=2e-4) for name in first)
    assert not same(first, second), "sums in another order: else this was not cut at all"


@pytest.mark.parametrize("dropout", [0.0, 0.1])
def test_gradients_of_pieces_differ_by_dropout_alone(datasets, tmp_path, dropout):
    """Which is drawn for each piece: without it gradients are those of one batch, within 1e-6."""
    keys = pretraining(datasets, new=TINY | {"dropout": dropout}, optim=OPTIM | {"steps": 3, "clip": None})
    for name, pieces in (("whole", 1), ("cut", 3)):
        path = write(tmp_path / name, **keys | {"batch": {"rows": 8, "accumulate": pieces}})
        record(path, tmp_path / "found" / name, Ranks())
    for step in ("000", "001", "002"):
        one, other = (
            load_file(tmp_path / "found" / name / f"{step}.safetensors") for name in ("whole", "cut")
        )
        assert one.pop("rows").equal(other.pop("rows"))
        apart = max(float((one[name] - other[name]).abs().max()) for name in one)
        assert (apart < 1e-6) == (dropout == 0), apart


class Stop(Exception):
    pass


def stopped(monkeypatch, step: int) -> None:
    """The run dies at this step, its gradients there, the weights not moved."""
    check = _Run.check

    def dying(self, now, *rest):
        if now == step:
            raise Stop
        check(self, now, *rest)

    monkeypatch.setattr(_Run, "check", dying)


@pytest.mark.parametrize("save_every, keep, ends", [(1, 3, (1, 5, 12)), (4, 2, (3, 6, 11))])
def test_a_run_that_was_stopped_ends_in_the_same_bits(
    datasets, tmp_path, monkeypatch, save_every, keep, ends
):
    """Also with other numbers of workers, over the ends of epochs; with dropout and masks drawn anew."""
    keys = pretraining(datasets, save_every=save_every, keep=keep, log_every=3)
    whole, _ = run(tmp_path / "whole", **keys)
    for number, step in enumerate(ends):
        with monkeypatch.context() as patch:
            stopped(patch, step)
            with pytest.raises(Stop):
                run(tmp_path / "part", **keys | {"workers": number % 2})
    out, said = run(tmp_path / "part", **keys)
    assert "going on after step" in said
    assert same(weights(whole), weights(out))
    assert metrics(whole) == metrics(out)
    again, said = run(tmp_path / "part", **keys)
    assert "of 12" in said and same(weights(whole), weights(again))


@pytest.mark.parametrize("dropout", [0.0, 0.1])
def test_a_run_may_go_on_in_other_pieces(datasets, tmp_path, monkeypatch, dropout):
    """As after memory ran out. Without dropout it ends as it would have, but for rounding; with it a line tells."""
    keys = pretraining(datasets, new=TINY | {"dropout": dropout}, save_every=4)
    cut = keys | {"batch": {"rows": 8, "accumulate": 2}}
    whole, _ = run(tmp_path / "whole", **keys)
    for pieces, ends in ((keys, 6), (cut, 10)):
        with monkeypatch.context() as patch:
            stopped(patch, ends)
            with pytest.raises(Stop):
                run(tmp_path / "part", **pieces)
        shutil.copytree(tmp_path / "part", tmp_path / f"after-{ends}")
    line = "batch.accumulate 2 instead of 1: dropout falls on other places"
    out, said = run(tmp_path / "after-6", **cut)
    assert "going on after step 4" in said and (line in said) == (dropout > 0)
    apart = max(float((weights(whole)[name] - weight).abs().max()) for name, weight in weights(out).items())
    assert (apart < 2e-4) == (dropout == 0)
    assert "instead of" not in run(tmp_path / "after-10", **cut)[1], "by then it was cut already"
    shutil.copytree(out, tmp_path / "older/out")
    place = tmp_path / "older/out/checkpoints/step-00000008/training.json"
    shutil.rmtree(place.parent.with_name("step-00000012"))
    body = json.loads(place.read_text())
    del body["computed"]  # as earlier releases wrote it
    place.write_text(json.dumps(body))
    assert "going on after step 8" in (said := run(tmp_path / "older", **keys)[1]) and "instead" not in said


@pytest.mark.parametrize("number, workers", [(signal.SIGINT, 0), (signal.SIGTERM, 1)])
def test_an_interrupt_keeps_what_was_learned(datasets, tmp_path, monkeypatch, number, workers):
    """With no checkpoint due: the step is ended and kept, and the run goes on from it to the same bits."""
    keys = pretraining(datasets, save_every=500, log_every=3)
    whole, _ = run(tmp_path / "whole", **keys)
    before = signal.getsignal(number)
    check = _Run.check

    def asked(self, step, *rest):
        if step == 5:
            os.kill(os.getpid(), number)
        check(self, step, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(_Run, "check", asked)
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path / "part", **keys | {"workers": workers})
    assert signal.getsignal(number) == before
    assert [path.name for path in (tmp_path / "part/out/checkpoints").iterdir()] == ["step-00000005"]
    out, said = run(tmp_path / "part", **keys)
    assert "going on after step 5 of 12" in said
    assert same(weights(whole), weights(out)) and metrics(whole) == metrics(out)


def test_speed_is_of_tokens_that_this_process_read(tmp_path, monkeypatch):
    """A window that a checkpoint kept has tokens of before, and opening the data takes no step's time."""
    now = [0.0]
    monkeypatch.setattr(log.time, "perf_counter", lambda: now[0])
    settings = recipe(tmp_path, task="mlm", data={"folder": "x"}, optim={"steps": 30}, log_every=10)
    losses = log.Losses({"mlm": 1.0}, {"mlm": 1}, {"mlm": 1.0}, 1000)
    window, told, said = None, [], io.StringIO()
    for begin, end in ((0, 9), (9, 30)):
        made = log.Log(tmp_path, Console(file=said, width=200), settings, begin, 30, quiet=False)
        made.window = window or made.window
        made.open()
        now[0] += 100.0  # what it takes to begin
        with made:
            for step in range(begin + 1, end + 1):
                now[0] += 0.04
                made.step(step, losses)
        window = log.Window.model_validate_json(made.window.model_dump_json())
    told = log.read_metrics(tmp_path)
    assert [(line["step"], line["tokens"]) for line in told] == [(10, 10_000), (20, 10_000), (30, 10_000)]
    assert [line["tokens_per_second"] for line in told] == pytest.approx([25_000] * 3)
    assert "25,000 tokens/s · 0:01 left" in said.getvalue()


def test_one_kind_of_language_model_is_what_all_rows_are(datasets, tmp_path):
    """`options.lm` without kinds: as if the kinds were of it alone, whose masks are the same."""
    keys = pretraining(datasets, model="unilm", task="mlm")
    told, _ = run(tmp_path / "lm", **keys | {"options": {"lm": "left_to_right"}})
    drawn, _ = run(tmp_path / "kinds", **keys | {"kinds": {"left_to_right": 1}})
    other, _ = run(tmp_path / "other", **keys)
    assert same(weights(told), weights(drawn)) and not same(weights(told), weights(other))


def test_a_folder_says_what_its_run_did(datasets, tmp_path):
    keys = pretraining(datasets, model="unilm", optim={"lr": 1e-3, "epochs": 1}, precision="bf16")
    out, said = run(tmp_path, **keys)
    assert "cpu (1 thread), bf16" in said
    found = json.loads((out / "run.json").read_text())
    assert found["recipe"]["data"]["folder"] == [{"folder": str(datasets["pretrain"]), "weight": 1.0}]
    assert found["recipe"]["seed"] == 0 and found["in_effect"]["steps"] == len(metrics(out))
    assert (
        found["in_effect"]["masking"]["rate"] == 0.15
        and found["in_effect"]["options"]["lm"] == "bidirectional"
    )
    assert found["in_effect"]["kinds"]["seq2seq"] == pytest.approx(1 / 3)
    assert found["device"]["type"] == "cpu" and found["versions"]["torch"] == version("torch")
    assert len(found["dataset"]["fingerprint"]) > 8 and found["dataset"]["rows"] > 0


def test_new_weights_are_told_by_module():
    names = [f"syntax_layer.{n}" for n in range(16)] + ["classifier.bias", "classifier.weight"]
    assert grouped(names) == ["syntax_layer.* (16)", "classifier.bias", "classifier.weight"]


def test_what_a_kill_leaves_half_written_misleads_nobody(datasets, tmp_path):
    keys = pretraining(datasets, save_every=5, keep=9)
    whole, _ = run(tmp_path / "whole", **keys)
    out, _ = run(tmp_path / "part", **keys)
    checkpoints = out / "checkpoints"
    shutil.rmtree(out / "model")
    for step in (10, 12):  # as they lie while they are written, and while they are deleted
        (checkpoints / f"step-{step:08}").rename(checkpoints / f".new-step-{step:08}")
    (checkpoints / ".new-step-00000012/training.json").unlink()
    (out / ".new-model").mkdir()
    with (out / "metrics.jsonl").open("a") as sink:
        sink.write('{"step": 13, "lo')
    out, said = run(tmp_path / "part", **keys)
    assert "going on after step 5 of 12" in said
    assert same(weights(whole), weights(out)) and metrics(whole) == metrics(out)
    assert not list(out.glob(".new-*")) and not list(checkpoints.glob(".*"))


def test_fine_tuning_tells_of_the_dev_split(datasets, tmp_path):
    before, _ = run(tmp_path / "before", **pretraining(datasets))
    data = {"folder": str(datasets["classify"]), "dev": "dev"}
    out, said = run(
        tmp_path / "after",
        task="classify",
        init=str(before / "model"),
        data=data,
        optim={"lr": 1e-3, "epochs": 2},
        batch={"rows": 16},
    )
    assert "begun anew: classifier.bias, classifier.weight" in said
    looks = [line for line in metrics(out) if "dev_loss" in line]
    assert [line["step"] for line in looks] == [3, 6] and 0 <= looks[-1]["dev_accuracy"] <= 1
    model = checkpoint.load(out / "model")
    assert model.task.name == "classify" and list(model.config.id2label.values()) == ["0", "1"]


@pytest.mark.parametrize("batch", [{"pack": 256}, {"pack": 256, "accumulate": 2}, {"accumulate": 2}])
def test_looks_keep_to_the_budget_of_tokens(datasets, tmp_path, monkeypatch, batch):
    """Of a piece, where a step is computed in several; looks unpack, so padding counts."""
    sizes, in_order = [], predict.in_order

    def counted(*given):
        for one, rows in in_order(*given):
            sizes.append(one["input_ids"].numel())
            yield one, rows

    monkeypatch.setattr(predict, "in_order", counted)
    data = {"folder": str(datasets["tag"]), "dev": "train"}
    keys = {"task": "tag", "data": data, "optim": {"lr": 1e-3, "steps": 1}}
    run(tmp_path, **keys, batch=batch | {"tokens": 400})
    most = 400 // batch.get("accumulate", 1)
    assert most * 3 // 4 < max(sizes) <= most


def test_dropout_of_fine_tuning_is_its_own(datasets, tmp_path, monkeypatch):
    """Not that of pretraining; a run that goes on keeps it, and the saved config tells of it."""
    vocabulary = open_split(str(datasets["classify"]), "train").metadata["vocab_size"]
    init = checkpoint.new(tiny(vocab_size=vocabulary, max_position_embeddings=256), "bert", "mlm")
    checkpoint.save(init, tmp_path / "init")
    data = {"folder": str(datasets["classify"])}
    keys = {"task": "classify", "init": str(tmp_path / "init"), "data": data, "optim": OPTIM}
    plain, _ = run(tmp_path / "plain", **keys)
    whole, _ = run(tmp_path / "whole", **keys, dropout=0.3)
    assert not same(weights(plain), weights(whole))
    config = json.loads((whole / "model/config.json").read_text())
    assert config["hidden_dropout_prob"] == config["attention_probs_dropout_prob"] == 0.3
    with monkeypatch.context() as patch:
        stopped(patch, 5)
        with pytest.raises(Stop):
            run(tmp_path / "part", **keys, dropout=0.3, save_every=2)
    part, said = run(tmp_path / "part", **keys, dropout=0.3, save_every=2)
    assert "going on after step 4" in said and same(weights(whole), weights(part))
    with pytest.raises(FolderError, match=r"dropout: 0\.3 there, 0\.2 here"):
        run(tmp_path / "part", **keys, dropout=0.2)


def test_a_loss_that_is_no_number_names_the_rows(datasets, tmp_path):
    before, _ = run(tmp_path / "before", **pretraining(datasets, optim={"lr": 1e-3, "steps": 1}))
    model = checkpoint.load(before / "model")
    with torch.no_grad():
        model.bert.embeddings.LayerNorm.bias[3] = 3e38  # a number, until it is multiplied
    checkpoint.save(model, tmp_path / "bad")
    keys = pretraining(
        datasets,
        init=str(tmp_path / "bad"),
        data={"folder": str(datasets["pretrain"]), "order": "sequential"},
    )
    with pytest.raises(TrainingError, match="step 1: mlm nan") as caught:
        run(tmp_path / "after", **keys | {"batch": {"rows": 3}})
    assert "Rows of the batch: 0, 1, 2;" in str(caught.value)
    assert str(caught.value).count("#") >= 3, "ids of rows are <document>#<number>"
    assert not (tmp_path / "after/out/model").exists()


@pytest.mark.parametrize(
    "change, says",
    [
        ({"optim": OPTIM | {"lr": 0.5}}, "optim.lr: 0.002 there, 0.5 here"),
        ({"seed": 3}, "seed: 0 there, 3 here"),
        ({"batch": {"tokens": 64}}, "batch.tokens: not set there, 64 here"),
        ({"new": TINY | {"width": 64}}, "new.width: 32 there, 64 here"),
    ],
)
def test_a_folder_of_another_recipe_is_refused(datasets, tmp_path, change, says):
    keys = pretraining(datasets, optim={"lr": 2e-3, "steps": 2, "warmup": 2}, save_every=1)
    if "optim" in change:
        change = {"optim": keys["optim"] | {"lr": 0.5}}
    run(tmp_path, **keys)
    with pytest.raises(FolderError) as caught:
        run(tmp_path, **keys | change)
    assert says in str(caught.value) and "--overwrite" in str(caught.value)
    assert f"--set init={tmp_path / 'out/model'} the run begins from what this one learned" in str(
        caught.value
    )
    _, said = run(tmp_path, overwrite=True, **keys | change)
    assert "going on" not in said


def test_folders_and_checkpoints_that_are_no_run(datasets, tmp_path):
    keys = pretraining(datasets, save_every=1, optim={"lr": 2e-3, "steps": 2})
    (tmp_path / "out").mkdir()
    (tmp_path / "out/letter.txt").touch()
    with pytest.raises(FolderError, match="holds other files"):
        run(tmp_path, **keys)
    (tmp_path / "out/letter.txt").unlink()
    out, _ = run(tmp_path, **keys)
    last = newest(out)
    body = json.loads((last / "training.json").read_text())
    (last / "training.json").write_text("{}")
    with pytest.raises(FolderError, match="delete that folder"):
        run(tmp_path, **keys)
    (last / "training.json").write_text(json.dumps(body | {"version": 99}))
    with pytest.raises(FolderError, match="another release"):
        run(tmp_path, **keys)
    (last / "training.json").write_text(json.dumps(body))
    (last / "optimizer.safetensors").write_bytes(b"nothing")
    with pytest.raises(FolderError, match="cannot be read"):
        run(tmp_path, **keys)
    with (
        held(out, recipe(tmp_path, **keys), False),
        pytest.raises(FolderError, match="another run is writing"),
    ):
        run(tmp_path, **keys)


@pytest.mark.parametrize("instead", ["nothing", "another run"])
def test_a_run_whose_folder_was_moved_writes_nothing_where_it_was(datasets, tmp_path, monkeypatch, instead):
    keys = pretraining(datasets, save_every=2, optim={"lr": 2e-3, "steps": 4})
    out, save = tmp_path / "out", states.save

    def moving(*given, **named):
        if (out / "checkpoints").exists():
            out.rename(tmp_path / "moved")
            if instead == "another run":
                out.mkdir()
                (out / ".lock").touch()
        save(*given, **named)

    monkeypatch.setattr(states, "save", moving)
    with pytest.raises(FolderError, match="out was deleted, moved or replaced while this run was going on"):
        run(tmp_path, **keys)
    assert [path.name for path in out.glob("*")] == ([".lock"] if instead == "another run" else [])
    assert [path.name for path in (tmp_path / "moved/checkpoints").iterdir()] == ["step-00000002"]


def test_other_data_under_the_same_recipe_is_refused(datasets, tmp_path):
    keys = pretraining(datasets, save_every=1, optim={"lr": 2e-3, "steps": 2}, task="mlm")
    run(tmp_path, **keys)
    with pytest.raises(FolderError, match="holds a run of another recipe") as caught:
        run(tmp_path, **keys | {"data": {"folder": str(datasets["classify"])}})
    assert "data.folder: other rows there" in str(caught.value) and "--overwrite" in str(caught.value)


@pytest.mark.parametrize(
    "task, source, keys, says",
    [
        ("tag", "tag", {"model": "kbrt"}, "did you mean 'kbert'?"),
        ("tagg", "tag", {}, "did you mean 'tag'?"),
        ("seq2seq", "tag", {}, "learned from by model: unilm under task: mlm"),
        ("pretrain", "pretrain", {"model": "kbert"}, "its tasks: mlm, classify, regress, tag, choice"),
        ("tag", "classify", {}, "of task 'classify', the recipe's task is 'tag': write task: classify, or"),
        ("classify", "seq2seq", {}, "write task: mlm, or"),
        (
            "mlm",
            "choice",
            {},
            "'choice', the recipe's task is 'mlm': write task: choice, or preprocess the corpus for 'pre",
        ),
        ("mlm", "pretrain", {"masking": {"rat": 0.1}}, "masking.rat: unknown key; did you mean 'rate'?"),
        ("mlm", "pretrain", {"masking": {"rate": 7}}, "rate"),
        ("mlm", "pretrain", {"kinds": {"seq2seq": 1}}, "kinds are those of unilm"),
        ("tag", "tag", {"masking": {"rate": 0.1}}, "drop masking"),
        pytest.param(
            "tag",
            "tag",
            {"attention": "flex_attention"},
            "learns on GPUs alone",
            marks=pytest.mark.skipif(torch.cuda.is_available(), reason="on a GPU it learns"),
        ),
        ("tag", "tag", {"options": {"soft": 1}}, "options.soft: unknown key"),
        ("tag", "tag", {"options": {"graph": False}}, "options.graph is of kbert, the model is 'bert'"),
        ("tag", "tag", {"model": "sgnet", "options": {"alpah": 1}}, "did you mean 'alpha'?"),
        ("tag", "tag", {"model": "sgnet", "options": {"alpha": 7}}, "options: alpha"),
        (
            "mlm",
            "pretrain",
            {"model": "unilm", "kinds": {"seqseq": 1}},
            "kinds.seqseq: unknown key; did you mean",
        ),
        ("mlm", "pretrain", {"model": "unilm", "kinds": {"seq2seq": -1}}, "kinds: share of 'seq2seq'"),
        (
            "mlm",
            "pretrain",
            {"model": "unilm", "kinds": {"seq2seq": 1}, "options": {"lm": "seq2seq"}},
            "options.lm and kinds both say",
        ),
        ("classify", "classify", {"batch": {"rows": 8, "pack": 99}}, "do not pack"),
        ("classify", "classify", {"new": TINY | {"positions": 16}}, "raise new.positions"),
        ("classify", "classify", {"model": "sgnet", "drop": "syntax"}, "encode.columns: [syntax]"),
        ("classify", "classify", {"model": "kbert", "drop": "tree"}, "encode.columns: [tree]"),
        ("classify", "classify", {"model": "ambert", "drop": "coarse"}, "add 'coarse' to encode.columns"),
    ],
)
def test_what_does_not_fit_is_said_before_the_first_step(datasets, tmp_path, task, source, keys, says):
    keys = dict(keys)
    folder = datasets[source]
    if group := keys.pop("drop", None):
        folder = without(folder, group, tmp_path / "less")
    with pytest.raises(ValueError) as caught:
        run(tmp_path, **{"task": task, "data": {"folder": str(folder)}, "optim": OPTIM} | keys)
    assert says in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_a_checkpoint_of_other_tokens_is_refused(datasets, tmp_path):
    before, _ = run(tmp_path / "before", **pretraining(datasets, optim={"lr": 1e-3, "steps": 1}))
    path = before / "model/tokenizer.json"
    body = json.loads(path.read_text())
    vocabulary = body["model"]["vocab"]
    first, second = [token for token, number in vocabulary.items() if number in (200, 201)]
    vocabulary[first], vocabulary[second] = vocabulary[second], vocabulary[first]
    path.write_text(json.dumps(body))
    keys = pretraining(datasets, init=str(before / "model"))
    with pytest.raises(RecipeError, match=f"made for different tokenizers; .* `encode.tokenizer: {path}`"):
        run(tmp_path / "after", **keys)
    path.unlink()
    tokens = sorted(vocabulary, key=vocabulary.__getitem__)
    (before / "model/vocab.txt").write_text("\n".join(tokens) + "\n", encoding="utf-8")
    with pytest.raises(RecipeError, match="made for different tokenizers"):
        run(tmp_path / "after", **keys)
    (before / "model/vocab.txt").unlink()
    _, said = run(tmp_path / "after", **keys | {"optim": {"lr": 1e-3, "steps": 1}})
    assert "was not compared" in said
    model = checkpoint.new(tiny(vocab_size=50))
    checkpoint.save(model, tmp_path / "small")
    with pytest.raises(RecipeError, match=r"vocab_size is .* the checkpoint's vocabulary has 50 tokens"):
        run(tmp_path / "third", **keys | {"init": str(tmp_path / "small")})


@pytest.mark.parametrize(
    "keys", [{"precision": "bf16"}, {"checkpointing": True}, {"attention": "eager"}, {"data": "two"}]
)
def test_other_ways_to_compute(datasets, tmp_path, keys):
    keys = dict(keys)
    if keys.get("data") == "two":
        folder = str(datasets["pretrain"])
        keys["data"] = {"folder": [{"folder": folder, "weight": 3}, folder], "order": "global"}
    plain, _ = run(tmp_path / "plain", **pretraining(datasets))
    out, _ = run(tmp_path / "other", **pretraining(datasets) | keys)
    one, other = metrics(plain)[0]["loss"], metrics(out)[0]["loss"]
    assert one == pytest.approx(other, rel=1e-5 if {"checkpointing", "attention"} & set(keys) else 0.02)
    if "attention" in keys:
        assert not same(weights(plain), weights(out)), "other code: other last bits"


@pytest.mark.parametrize(
    "model, task, source, keys",
    [
        ("unilm", "pretrain", "pretrain", {}),
        ("unilm", "mlm", "pretrain", {"kinds": {"left_to_right": 1}, "batch": {"tokens": 900, "pack": 200}}),
        ("unilm", "mlm", "seq2seq", {"masking": {"rate": 0.5}}),
        ("kbert", "tag", "tag", {"batch": {"rows": 8, "pack": 250}}),
        ("kbert", "classify", "classify", {"options": {"soft_positions": False}}),
        ("sgnet", "span", "span", {"options": {"direction": "none"}}),
        ("sgnet", "choice", "choice", {"batch": {"tokens": 3000}}),
        ("ambert", "mlm", "pretrain", {"options": {"variant": "hybrid"}}),
        ("ambert", "classify", "classify", {"options": {"granularity": "coarse"}}),
    ],
)
def test_every_system_runs_and_its_folder_is_the_same_model(datasets, tmp_path, model, task, source, keys):
    data = {"folder": str(datasets[source])}
    out, _ = run(
        tmp_path, **{"model": model, "task": task, "data": data, "optim": {"lr": 1e-3, "steps": 3}} | keys
    )
    assert len(metrics(out)) == 3 and metrics(out)[-1]["grad_norm"] > 0
    made = checkpoint.load(out / "model")
    assert (made.kind, made.task.name) == (model, task) and not made.drawn
    assert all(made.settings[name] == value for name, value in keys.get("options", {}).items())


def test_without_tensorboard_the_line_is_named_that_installs_it(datasets, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(ValueError, match=r"pip install 'treegraft\[tensorboard\]'"):
        run(tmp_path, **pretraining(datasets, tensorboard=True))
