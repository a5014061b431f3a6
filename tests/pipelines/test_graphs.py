"""The compiled graph beside the shards."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from corpora import files
from pipelines.config import Config, ConfigError
from pipelines.graphs import compiled_graph, open_graph
from tests.corpora.test_files import remote  # noqa: F401 - a filesystem registered with Beam


def config(*triples: str, columns: tuple[str, ...] = ("tree",)) -> Config:
    body = {
        "task": "pretrain",
        "language": "zh",
        "input": {"format": "text", "files": ["x.txt"]},
        "encode": {"tokenizer": "vocab.txt", "columns": list(columns)},
    }
    return Config.model_validate(body | ({"graph": {"triples": list(triples)}} if triples else {}))


@pytest.fixture
def triples(tmp_path: Path) -> Path:
    path = tmp_path / "g.spo"
    path.write_text("北京\t首都之于\t中国\n北京\t类别\t城市\n北京\t类别\t城市\nbad\n", encoding="utf-8")
    return path


def quiet() -> Console:
    return Console(file=io.StringIO(), width=200)


def test_a_graph_on_another_filesystem_is_stored_there_and_fetched(remote: str, triples: Path) -> None:  # noqa: F811
    out = files.join(remote, "out")
    folder = compiled_graph(config(str(triples)), "c.yaml", out, False, quiet())
    assert folder is not None
    assert files.is_uri(folder)
    assert "meta.json" in files.list_names(folder)
    graph = open_graph(folder)
    assert graph.object(1) == "城市"
    assert graph.subject_id("北京") == 0


def test_it_is_compiled_once_and_again_when_the_triples_change(triples: Path, tmp_path: Path) -> None:
    console, out = quiet(), str(tmp_path / "out")
    folder = compiled_graph(config("g.spo"), str(tmp_path / "c.yaml"), out, False, console)
    assert folder is not None
    said = console.file.getvalue()  # type: ignore[attr-defined]
    assert "2 triples, 1 subjects; left out: " in said
    assert "duplicate 1" in said
    (reject,) = (tmp_path / "out/rejects/graph.jsonl").read_text(encoding="utf-8").splitlines()
    assert json.loads(reject)["line"] == 4
    assert "graph.jsonl" in said
    compiled_graph(config("g.spo"), str(tmp_path / "c.yaml"), out, False, console)
    assert console.file.getvalue() == said  # type: ignore[attr-defined]
    triples.write_text("上海\t类别\t城市\n", encoding="utf-8")
    compiled_graph(config("g.spo"), str(tmp_path / "c.yaml"), out, False, console)
    assert open_graph(folder).subject_id("上海") == 0
    assert not (tmp_path / "out/rejects/graph.jsonl").exists()


def test_the_graph_of_a_finished_dataset_is_not_replaced_unasked(triples: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    folder = compiled_graph(config("g.spo"), str(tmp_path / "c.yaml"), str(out), False, quiet())
    (out / "manifest.json").write_text("{}")
    triples.write_text("上海\t类别\t城市\n", encoding="utf-8")
    aside = compiled_graph(config("g.spo"), str(tmp_path / "c.yaml"), str(out), False, quiet())
    assert aside != folder
    assert open_graph(str(folder)).subject_id("北京") == 0
    assert compiled_graph(config("g.spo"), str(tmp_path / "c.yaml"), str(out), True, quiet()) == folder
    assert open_graph(str(folder)).subject_id("北京") == -1


def test_no_tree_no_graph_and_missing_triples_are_named(tmp_path: Path) -> None:
    assert compiled_graph(config(columns=()), "c.yaml", str(tmp_path), False, quiet()) is None
    with pytest.raises(ConfigError, match=r"graph\.triples: no file matches"):
        compiled_graph(config("gone.spo"), str(tmp_path / "c.yaml"), str(tmp_path), False, quiet())
