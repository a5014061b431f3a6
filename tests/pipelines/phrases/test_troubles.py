"""What a user may get wrong: files of their own in the folder, numbers beyond use, models, lists and text of other kinds."""

from __future__ import annotations

import json

import pytest
import yaml

from pipelines import engine
from pipelines.config import Config, ConfigError, load_config
from pipelines.options import Options
from pipelines.phrases.flow import PhraseSearch
from tests.pipelines.phrases.running import run, sentences


@pytest.mark.parametrize("name", ["phrases.tsv", "report.json", "model.arpa", "manifest.json"])
def test_files_that_no_run_made_are_not_replaced(tmp_path, name):
    folder = tmp_path / "out/phrases"
    folder.mkdir(parents=True)
    (folder / name).write_text("mine\n")
    with pytest.raises(engine.RunError, match=rf"phrases holds {name}, but .* --overwrite"):
        run(tmp_path, sentences(4))
    assert [path.name for path in folder.iterdir()] == [name]
    assert (folder / name).read_text() == "mine\n"
    result, _, _ = run(tmp_path, overwrite=True)
    assert result.phrases


def test_a_given_model_is_not_where_this_run_writes(tmp_path):
    _, folder, _ = run(tmp_path, sentences(7))
    with pytest.raises(ConfigError, match=r"--model: .*model\.arpa is what this command writes"):
        run(tmp_path, model=str(folder / "model.arpa"), overwrite=True)
    assert (folder / "model.arpa").exists()


@pytest.mark.parametrize(
    ("keys", "field"),
    [
        ({"prune": [10**23]}, "prune"),
        ({"min_count": 10**23}, "min_count"),
        ({"size": 10**23}, "size"),
        ({"min_dependence": float("nan")}, "min_dependence"),
        ({"min_dependence": float("-inf")}, "min_dependence"),
        ({"discount_fallback": [0.5, 1, float("nan")]}, "discount_fallback"),
    ],
)
def test_numbers_that_nothing_can_be_compared_with(tmp_path, keys, field):
    path = tmp_path / "c.yaml"
    body = {"task": "pretrain", "language": "en", "input": {"format": "text", "files": "a.txt"}}
    body |= {"encode": {"tokenizer": "vocab.txt", "columns": []}, "phrases": keys}
    path.write_text(yaml.safe_dump(body), encoding="utf-8")
    with pytest.raises(ConfigError, match=rf"phrases\.{field}"):
        load_config(path)


def test_a_stop_list_that_is_not_there_is_one_of_words(tmp_path):
    with pytest.raises(ConfigError, match=r"phrases\.stop: .*nofile.txt cannot be read .* a word a line"):
        run(tmp_path, sentences(4), stop="nofile.txt")


def test_a_folder_that_is_a_file(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out/phrases").write_text("")
    with pytest.raises(ConfigError, match=r"--out: .*out/phrases is a file"):
        run(tmp_path, sentences(4))


def test_a_corpus_without_discounts_says_what_to_set(tmp_path):
    with pytest.raises(engine.RunError, match=r"phrases\.discount_fallback: \[0\.5, 1\.0, 1\.5\]"):
        run(tmp_path, ["a b c"], discount_fallback=None)
    result, folder, said = run(tmp_path, discount_fallback=[0.5, 1, 1.5])
    report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    assert result.model["fell_back"] == report["model"]["fell_back"] == [1, 2, 3]
    assert "phrases.discount_fallback" in said


def test_lines_of_words_are_plain_text(tmp_path):
    layout = {"format": "jsonl", "files": "a.jsonl"}
    body = {"task": "pretrain", "language": "en", "input": layout, "phrases": {"text": "lines"}}
    config = Config.model_validate(body | {"encode": {"tokenizer": "vocab.txt", "columns": []}})
    with pytest.raises(ConfigError, match=r"input\.format is 'jsonl'; lines of words need 'text'"):
        PhraseSearch(config, str(tmp_path / "c.yaml"), Options(out="x", annotated="y"))
