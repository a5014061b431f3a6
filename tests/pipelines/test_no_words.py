"""`annotate.segmenter: none`: sentences, and no words but those that the corpus brings."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from corpora.manifest import read_manifest
from corpora.shards import open_shard
from corpora.verify import verify
from pipelines.annotate.stage import Annotate
from pipelines.config import Config, ConfigError
from tests.integration.running import preprocess
from tests.pipelines.annotated import SAMPLES, config_of
from tests.pipelines.raw import config, raw
from tests.warm import treegraft

HERE = str(Path(__file__))
BARE = {"parser": "none", "segmenter": "none"}
ODD = st.text(st.sampled_from("甲乙。！？“”（）…,.\n\u3000 aB1《》\u200b\t"), max_size=30)


def documents(texts: list[str], language: str = "zh", **annotate: Any) -> list[dict[str, Any]]:
    stage = Annotate(config(language, annotate={"parser": "none", **annotate}), HERE)
    stage.setup()
    found, _ = stage.annotate_table(raw(texts), lambda reject: None)
    found.validate(full=True)
    rows: list[dict[str, Any]] = found.to_pylist()
    return rows


@settings(max_examples=25, deadline=None)
@given(st.lists(ODD, max_size=4), st.sampled_from(["zh", "en"]), st.sampled_from(["rules", "lines"]))
def test_sentences_are_those_that_texts_with_words_have(texts: list[str], language: str, how: str) -> None:
    bare = documents(texts, language, segmenter="none", sentences=how)
    segmented = documents(texts, language, sentences=how)
    assert all(row["word_starts"] == row["word_stops"] == [] for row in bare)
    assert bare == [{**row, "word_starts": [], "word_stops": []} for row in segmented]


def test_no_segmenter_is_loaded_and_its_absence_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*anything: object) -> None:
        raise AssertionError("a segmenter was loaded")

    monkeypatch.setattr("pipelines.annotate.toolbox.load_segmenter", refuse)
    assert documents(["甲。乙。"], segmenter="none")[0]["sentence_stops"] == [2, 4]
    assert Annotate(config("zh", annotate=BARE), HERE).identities()["segmenter"] == {
        "name": "none",
        "version": "",
    }


def test_words_of_the_corpus_are_kept() -> None:
    stage = Annotate(config("zh", annotate=BARE), HERE)
    brought = {name: [[0], None] for name in ("sentence_starts", "word_starts")}
    brought |= {name: [[2], None] for name in ("sentence_stops", "word_stops")}
    found, _ = stage.annotate_table(raw(["甲乙", "丙。丁"], **brought), lambda reject: None)
    assert found["word_stops"].to_pylist() == [[2], []]
    assert found["sentence_stops"].to_pylist() == [[2], [2, 3]]


@pytest.mark.parametrize(
    ("groups", "changes", "message"),
    [
        (["syntax"], {}, "'none'"),
        (["coarse"], {}, "annotate.segmenter is 'none' but 'coarse' of encode.columns needs words"),
        (
            ["tree"],
            {"graph": {"match": "words"}},
            "annotate.segmenter is 'none' but graph.match: words needs words",
        ),
        ([], {"annotate": {"parser": "default"}}, "annotate.parser is 'default', and a parser needs words"),
        ([], {"annotate": {"user_dict": "a.txt"}}, "annotate.user_dict has words for a segmenter"),
    ],
)
def test_what_needs_words_is_refused(groups: list[str], changes: dict[str, Any], message: str) -> None:
    annotate = {**BARE, **changes.get("annotate", {})}
    with pytest.raises(ValidationError, match=message):
        config_of("pretrain", groups=groups, **{**changes, "annotate": annotate})


def test_trees_that_match_characters_need_no_words() -> None:
    made: Config = config_of("pretrain", groups=["tree"], annotate=BARE)
    assert made.annotate.segmenter == "none"


def test_words_cannot_be_asked_of_it() -> None:
    from pipelines.annotate.segmenters import find_segmenter, load_segmenter

    with pytest.raises(ConfigError, match=r"annotate\.segmenter is 'none', but words are asked for"):
        load_segmenter(find_segmenter("none", "zh", None, None, ""))


def test_rows_are_those_of_a_corpus_with_words(tmp_path: Path) -> None:
    text = "今天天气很好。我们去公园吧！\n好的，“走吧。”他说。\n\n第二篇 is short. 也好。\n再见。\n"
    (tmp_path / "a.txt").write_text(text * 3, encoding="utf-8")
    body: dict[str, Any] = {
        "task": "pretrain",
        "language": "zh",
        "input": {"format": "text", "document": "blank_line", "files": "a.txt"},
        "encode": {"tokenizer": str(SAMPLES / "vocab.txt"), "max_length": 16, "columns": []},
        "run": {"workers": 1},
    }
    found = []
    for segmenter in ("none", "default"):
        out = preprocess(tmp_path, segmenter, body | {"annotate": {"parser": "none", "segmenter": segmenter}})
        for folder in (out, out / "annotated"):
            assert verify(str(folder)).problems == []
        found.append(
            [r for p in sorted(out.glob("train-*.arrow")) for r in open_shard(str(p)).read_all().to_pylist()]
        )
    assert found[0] == found[1] != []
    manifest = read_manifest(str(tmp_path / "none" / "annotated"))
    assert manifest.identities["segmenter"] == {"name": "none", "version": ""}
    assert manifest.splits["train"].counters["words"] == 0


@pytest.mark.parametrize(
    ("command", "what"), [(["phrases"], "treegraft phrases"), (["vocab", "--coarse"], "a coarse vocabulary")]
)
def test_what_is_made_of_words_stops_before_any_work(command: list[str], what: str, tmp_path: Path) -> None:
    done = lexicon_command(tmp_path, *command)
    assert done.returncode == 2
    assert f"annotate.segmenter is 'none' but {what} needs words" in " ".join(done.stderr.split())
    assert not (tmp_path / "out").exists()


def test_a_fine_vocabulary_needs_no_words(tmp_path: Path) -> None:
    assert lexicon_command(tmp_path, "vocab", "--fine").returncode == 0
    assert "天" in (tmp_path / "out/vocab/vocab.txt").read_text(encoding="utf-8").split()


def lexicon_command(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    (folder / "a.txt").write_text("今天天气很好。我们去公园吧！\n\n也好。\n" * 9, encoding="utf-8")
    body = {
        "task": "pretrain",
        "language": "zh",
        "input": {"format": "text", "document": "blank_line", "files": "a.txt"},
        "annotate": BARE,
        "encode": {"tokenizer": str(SAMPLES / "vocab.txt"), "columns": []},
        "run": {"workers": 1},
    }
    (folder / "c.yaml").write_text(yaml.safe_dump(body), encoding="utf-8")
    return treegraft(*command, "c.yaml", "--out", "out", cwd=folder)
