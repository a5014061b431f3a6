"""Model, rows and labels that do not fit, or are not there: what is refused before the first step, and what is not."""

from __future__ import annotations

import io
import re
import shutil

import pyarrow as pa
import pytest
import torch
from rich.console import Console
from safetensors.torch import load_file

from models import checkpoint
from models.evaluate.measure import Result
from models.train import evaluating
from models.train.log import Log
from models.train.loop import TrainingError
from models.train.reading import RecipeError
from tests.models.train.lesser import rewritten, unlabelled
from tests.models.train.processes import both
from tests.models.train.recipes import TINY, metrics, recipe, run, same, weights, write
from tests.models.train.test_opening import swapped

OPTIM = {"lr": 1e-3, "steps": 1, "warmup": 0, "schedule": "constant"}


def classifying(folder, **data):
    return {"task": "classify", "data": {"folder": str(folder)} | data, "optim": OPTIM}


@pytest.fixture
def other(datasets, tmp_path):
    """The same rows by another tokenizer: as many tokens, two of them in each other's place."""
    folder = rewritten(datasets["classify"], tmp_path / "swapped")
    swapped(folder / "tokenizer.json")
    return folder


def test_datasets_of_other_tokens_are_not_mixed(datasets, tmp_path, other):
    first = datasets["classify"]
    keys = classifying(first)
    keys["data"]["folder"] = [str(first), str(first)]
    before, _ = run(tmp_path / "before", **keys)
    keys["data"]["folder"] = [str(first), str(other)]
    says = rf"token .* is \d+ in {other}, and \d+ in {first}: they were made for different tokenizers"
    for name, more in {"new": {}, "init": {"init": str(before / "model")}}.items():
        with pytest.raises(RecipeError, match=says):
            run(tmp_path / name, **keys | more)
        assert not (tmp_path / name / "out").exists()


def test_masked_tokens_are_learned_from_datasets_of_several_tasks(datasets, tmp_path):
    keys = {"task": "mlm", "optim": {"lr": 1e-3, "steps": 2}}
    keys["data"] = {"folder": [str(datasets["classify"]), str(datasets["tag"])]}
    out, _ = run(tmp_path, **keys)
    assert (out / "model").is_dir()


def test_whole_questions_are_not_mixed_with_rows(datasets, tmp_path):
    keys = {"task": "mlm", "optim": {"lr": 1e-3, "steps": 2}}
    keys["data"] = {"folder": [str(datasets["classify"]), str(datasets["choice"])]}
    with pytest.raises(
        RecipeError, match=r"learns from rows of task pretrain or .*, the dataset's are of 'choice'"
    ):
        run(tmp_path, **keys)


def test_coarse_tokens_count_where_they_are_read(datasets, tmp_path):
    folder = rewritten(datasets["classify"], tmp_path / "swapped")
    path = folder / "coarse_tokens.txt"
    tokens = path.read_text(encoding="utf-8").split("\n")
    tokens[200], tokens[201] = tokens[201], tokens[200]
    path.write_text("\n".join(tokens), encoding="utf-8")
    keys = classifying(datasets["classify"])
    keys["data"]["folder"] = [str(datasets["classify"]), str(folder)]
    with pytest.raises(RecipeError, match=f"coarse token .* is 20[01] in {folder}"):
        run(tmp_path / "ambert", **keys, model="ambert")
    run(tmp_path / "bert", **keys)


def test_rows_of_dev_are_held_against_the_model(datasets, tmp_path, other):
    """As `treegraft evaluate` does: a score of other labels or tokens is none."""

    def turned(split, table, metadata):
        metadata["labels"] = metadata["labels"][::-1]
        return table

    def long(split, table, metadata):
        metadata["max_length"] = 999
        return table

    for folder, says in (
        (other, f"in {other}, and"),
        (rewritten(datasets["classify"], tmp_path / "turned", turned), "turned: of the labels number 0 is"),
        (rewritten(datasets["classify"], tmp_path / "long", long), "long reach position 998, the model has"),
    ):
        with pytest.raises(RecipeError, match=says):
            run(tmp_path / "run", **classifying(datasets["classify"], dev="dev", dev_folder=str(folder)))
        assert not (tmp_path / "run/out").exists()


def test_classes_and_scores_are_two_tasks(datasets, tmp_path):
    def none(split, table, metadata):
        metadata["labels"] = []
        return table

    keys = classifying(datasets["classify"]) | {"task": "regress"}
    with pytest.raises(RecipeError, match=r"have classes \(0, 1\): write task: classify"):
        run(tmp_path / "values", **keys)
    keys = classifying(rewritten(datasets["classify"], tmp_path / "none", none))
    with pytest.raises(RecipeError, match="write task: regress if its rows have scores"):
        run(tmp_path / "classes", **keys)
    with pytest.raises(RecipeError, match="task is 'tag': write task: regress if its rows have scores, or"):
        run(tmp_path / "other", **keys | {"task": "tag"})
    with pytest.raises(RecipeError, match="task: tag learns labels"):
        run(
            tmp_path / "tags",
            **classifying(rewritten(datasets["tag"], tmp_path / "bare", none)) | {"task": "tag"},
        )


def test_labels_of_another_scheme_are_told_of_before_the_first_step(datasets, tmp_path):
    keys = {"task": "tag", "data": {"folder": str(datasets["tag"])}, "optim": OPTIM}
    for scheme, says in (("BILOU", "an entity of it needs U, or B and L; they are of BIO"), ("IOB1", None)):
        if says is None:
            out, _ = run(tmp_path / scheme, **keys, scores={"scheme": scheme})
            continue
        with pytest.raises(RecipeError, match=f"scores.scheme is {scheme}, .* O, B-Disease, .*{says}"):
            run(tmp_path / scheme, **keys, scores={"scheme": scheme})
        assert not (tmp_path / scheme / "out").exists()
    model = str(out / "model")
    found = recipe(tmp_path, **keys, scores={"scheme": "BIOES"})
    with pytest.raises(RecipeError, match=r"scores\.scheme is BIOES"):
        evaluating.run(found, "dev", model, Console(quiet=True))

    def renamed(split, table, metadata):
        metadata["labels"] = [f"N{name.replace('-', '')}" for name in metadata["labels"]]
        return table

    keys["data"] = {"folder": str(rewritten(datasets["tag"], tmp_path / "words", renamed)), "dev": "dev"}
    out, _ = run(tmp_path / "none", **keys)
    assert "dev_accuracy" in metrics(out)[-1] and "dev_entity_f1" not in metrics(out)[-1]
    with pytest.raises(RecipeError, match=r"'NBDisease' is none of it; drop scores\.scheme"):
        run(tmp_path / "bio", **keys, scores={"scheme": "BIO"})


@pytest.mark.parametrize(
    "model, more",
    [("unilm", {"kinds": {"seq2seq": 1}}), ("bert", {"masking": {"part": "target"}})],
)
def test_a_dataset_without_second_segments_is_told_of_before_the_first_step(datasets, tmp_path, model, more):
    """Also the second of two, and that of dev: their rows may come late."""

    def single(split, table, metadata):
        for name in ("token_type_ids", "tree_token_type_ids", "coarse_token_type_ids"):
            if name in table.column_names:
                at = table.column_names.index(name)
                zeros = [[0] * len(row) for row in table[name].to_pylist()]
                table = table.set_column(
                    at, table.schema.field(at), pa.array(zeros, table.schema.field(at).type)
                )
        return table

    pairs, other = datasets["pretrain"], rewritten(datasets["pretrain"], tmp_path / "single", single)
    for data in (
        {"folder": [str(pairs), str(other)], "order": "sequential"},
        {"folder": str(pairs), "dev": "train", "dev_folder": str(other)},
    ):
        keys = {"model": model, "task": "mlm", "data": data, "optim": OPTIM} | more
        with pytest.raises(RecipeError, match=rf"{other} \(train\): row 0 has no second segment"):
            run(tmp_path, **keys, batch={"rows": 4})
        assert not (tmp_path / "out").exists()


def test_one_class_is_told_of(datasets, tmp_path):
    def one(split, table, metadata):
        metadata["labels"] = ["0"]
        at = table.column_names.index("label")
        return table.set_column(at, table.schema.field(at), pa.array([0] * len(table), pa.int32()))

    folder = rewritten(datasets["classify"], tmp_path / "one", one)
    _, said = run(tmp_path, **classifying(folder))
    assert said.count("'0' is the dataset's one label: there is nothing to learn") == 1
    _, said = run(tmp_path / "two", **classifying(datasets["classify"]))
    assert "one label" not in said


# --- rows without labels ----------------------------------------------------------------------


@pytest.mark.parametrize("model", ["bert", "ambert"])
def test_a_step_without_labels_moves_nothing_and_counts(datasets, tmp_path, model):
    """Neither weights nor moments; also the first one, and a run that goes on from behind it."""
    folder = unlabelled(datasets["classify"], tmp_path / "data", "train", lambda row: row % 2 == 0)
    keys = classifying(folder, order="sequential") | {"batch": {"rows": 1}, "save_every": 1, "keep": 9}
    keys["model"] = model
    keys["optim"] = OPTIM | {"steps": 4}
    out, said = run(tmp_path, **keys)
    assert "step 1: no row of the batch has a label (0): no weight moves" in said
    assert said.count("no row of the batch has a label") == 1
    kept = sorted((out / "checkpoints").iterdir())
    for name in ("model.safetensors", "optimizer.safetensors"):
        _, second, third, fourth = (load_file(path / name) for path in kept)
        assert same(second, third) and not same(third, fourth)
    lines = metrics(out)
    assert [line["step"] for line in lines] == [2, 4], "there is no loss of the others"
    before = weights(out)
    for path in kept[1:]:
        shutil.rmtree(path)
    out, said = run(tmp_path, **keys)
    assert "going on after step 1 of 4" in said and same(before, weights(out)) and metrics(out) == lines


def test_two_processes_skip_the_same_steps(datasets, tmp_path):
    """Of the second step's rows one has a label: both processes take it; of the first step's none has."""
    folder = unlabelled(datasets["classify"], tmp_path / "data", "train", lambda row: row != 3)
    keys = classifying(folder, order="sequential") | {"batch": {"rows": 2}, "new": TINY | {"dropout": 0.0}}
    keys["optim"] = OPTIM | {"steps": 3}
    alone, _ = run(tmp_path / "alone", **keys)
    done = both(None, "finetune", str(write(tmp_path / "both", **keys)))
    assert done.returncode == 0, done.stderr
    assert (done.stdout + done.stderr).count("no row of the batch has a label (0, 1)") == 1
    mine, theirs = weights(alone), weights(tmp_path / "both/out")
    assert max(float((mine[name] - x).abs().max()) for name, x in theirs.items()) < 1e-4


@pytest.mark.parametrize("model", ["bert", "ambert"])
def test_a_split_without_labels_is_not_learned_from(datasets, tmp_path, model):
    """Nor where both [CLS] of AMBERT could agree without."""
    folder = unlabelled(datasets["classify"], tmp_path / "data", "train")
    with pytest.raises(
        RecipeError, match=rf"no row of {folder} \(train\) has a label, so there is nothing to learn"
    ):
        run(tmp_path, **classifying(folder), model=model)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("model", ["bert", "ambert"])
def test_looks_at_rows_without_labels_say_why_they_are_empty(datasets, tmp_path, model):
    """Also where both [CLS] of AMBERT agree, which is a loss and no score."""
    folder = unlabelled(datasets["classify"], tmp_path / "data", "dev")
    keys = classifying(folder, dev="dev") | {"model": model}
    with pytest.raises(RecipeError, match=rf"best: no row of {folder} \(dev\) has a label"):
        run(tmp_path / "best", **keys, best="accuracy")
    assert not (tmp_path / "best/out").exists()
    _, said = run(tmp_path, **keys)
    assert "step 1: dev no scores, for no row has a label" in said
    told = io.StringIO()
    evaluating.run(recipe(tmp_path, **keys), "dev", None, Console(file=told, width=200))
    assert "no scores, for no row has a label" in told.getvalue()


# --- weights, lengths, sizes ------------------------------------------------------------------


@pytest.mark.parametrize("dev", [{}, {"dev": "dev"}])
def test_weights_that_are_no_numbers_are_not_kept(datasets, tmp_path, dev):
    """A last step's: no later loss would tell."""
    keys = classifying(datasets["classify"], **dev) | {"optim": OPTIM | {"lr": 1e300}}
    with pytest.raises(TrainingError, match="step 1: weights are no numbers any more, so not kept: bert"):
        run(tmp_path, **keys | ({"best": "accuracy"} if dev else {}))
    assert not any((tmp_path / "out").glob("**/*.safetensors"))


def test_rows_that_may_exceed_a_budget_are_told_of(datasets, tmp_path):
    keys = {"task": "mlm", "data": {"folder": str(datasets["pretrain"])}, "optim": OPTIM}
    _, said = run(tmp_path / "less", **keys, batch={"tokens": 100, "pack": 90})
    assert "batch.tokens is 100, rows may have 128 tokens: a longer one is a step of its own" in said
    assert "batch.pack is 90, rows may have 128 tokens: a longer one is a sequence of its own" in said
    _, said = run(tmp_path / "tree", **keys | {"model": "kbert"}, batch={"tokens": 150})
    assert "batch.tokens is 150, rows may have 192 tokens" in said
    _, said = run(tmp_path / "enough", **keys, batch={"tokens": 128, "pack": 128})
    assert "rows may have" not in said


@pytest.mark.parametrize(
    "size", [{"layers": 10**12}, {"width": 10**6}, {"positions": 10**9}, {"intermediate": 10**9}]
)
def test_sizes_that_no_model_has_are_refused(tmp_path, size):
    with pytest.raises(ValueError, match=rf"new\.{next(iter(size))}"):
        recipe(tmp_path, task="mlm", data={"folder": "x"}, optim=OPTIM, new=TINY | size)


def test_a_look_has_a_line_s_room_and_says_when_all_is_one_class(tmp_path):
    scores = {
        "exact": 0.5,
        "f1": 0.75,
        "best_f1": 0.8,
        "best_f1_threshold": -3.0,
        "loss": 1.5,
        "loss_start": 1.0,
    }
    said = io.StringIO()
    keys = {"task": "span", "data": {"folder": "x", "dev": "dev"}, "optim": {"steps": 9}, "best": "best_f1"}
    made = Log(tmp_path, Console(file=said, width=200), recipe(tmp_path, **keys), 0, 9, quiet=False)
    made.dev(
        3, Result(scores, pa.table({}), remarks=["all 4 rows are x"], main=("f1", "exact", "loss")), best=3
    )
    assert said.getvalue().splitlines() == [
        "step 3: dev exact 0.5000 · f1 0.7500 · best_f1 0.8000 · loss 1.5000 · the best so far",
        "step 3: all 4 rows are x",
    ]
    assert metrics(tmp_path) == [{"step": 3, **{f"dev_{n}": x for n, x in scores.items()}, "best_step": 3}]


def test_one_class_for_all_rows_is_told_of(datasets, tmp_path):
    """By looks and by `evaluate`."""
    keys = classifying(datasets["classify"], dev="dev")
    out, _ = run(tmp_path, **keys)
    made = checkpoint.load(out / "model")
    with torch.no_grad():
        made.classifier.bias[1] = 1e4
    checkpoint.save(made, tmp_path / "one")
    _, said = run(tmp_path / "again", **keys | {"init": str(tmp_path / "one")})
    told = io.StringIO()
    where = str(tmp_path / "one")
    evaluating.run(recipe(tmp_path, **keys), "dev", where, Console(file=told, width=200))
    for text in (said, told.getvalue()):
        assert re.search(r"all \d+ rows are predicted as 1\n", text)
