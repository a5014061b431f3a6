"""The compiled graph beside the shards."""

from __future__ import annotations

import io
import json
import os
import shutil
from pathlib import Path

import pytest
from rich.console import Console

from corpora import files
from kg.compile import BuildOptions, compile_graph
from kg.errors import GraphError
from pipelines.config import Config, ConfigError
from pipelines.graphs import check_graph, compiled_graph, open_graph
from tests.corpora.test_files import remote  # noqa: F401 - a filesystem registered with Beam


def config(*triples: str, columns: tuple[str, ...] = ("tree",), **graph: object) -> Config:
    body = {
        "task": "pretrain",
        "language": "zh",
        "input": {"format": "text", "files": ["x.txt"]},
        "encode": {"tokenizer": "vocab.txt", "columns": list(columns)},
    }
    section = graph | ({"triples": list(triples)} if triples else {})
    return Config.model_validate(body | ({"graph": section} if section else {}))


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
    assert "repeated triples 1" in said
    assert "25.0% of the graph's lines are malformed" in said
    (reject,) = (tmp_path / "out/rejects/graph.jsonl").read_text(encoding="utf-8").splitlines()
    assert json.loads(reject)["line"] == 4
    assert "graph.jsonl" in said
    compiled_graph(config("g.spo"), str(tmp_path / "c.yaml"), out, False, console)
    assert console.file.getvalue() == said  # type: ignore[attr-defined]
    triples.write_text("上海\t类别\t城市\n", encoding="utf-8")
    compiled_graph(config("g.spo"), str(tmp_path / "c.yaml"), out, False, console)
    assert open_graph(folder).subject_id("上海") == 0
    assert not (tmp_path / "out/rejects/graph.jsonl").exists()


def test_a_graph_without_malformed_lines_leaves_no_folder_of_rejects(triples: Path, tmp_path: Path) -> None:
    triples.write_text("上海\t类别\t城市\n", encoding="utf-8")
    compiled_graph(config("g.spo"), str(tmp_path / "c.yaml"), str(tmp_path / "out"), False, quiet())
    assert not (tmp_path / "out/rejects").exists()


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


def made(config_: Config, tmp_path: Path, out: str = "out", overwrite: bool = False) -> tuple[Path, str]:
    """The graph's folder, and what was said."""
    console = quiet()
    folder = compiled_graph(config_, str(tmp_path / "c.yaml"), str(tmp_path / out), overwrite, console)
    assert folder is not None
    return Path(folder), console.file.getvalue()  # type: ignore[attr-defined]


# --- build options ----------------------------------------------------------------------------


def test_other_build_options_compile_again_and_the_same_do_not(triples: Path, tmp_path: Path) -> None:
    triples.write_text("Ｂeijing\t类别\t城市\nB\t类别\t字母\n", encoding="utf-8")
    (tmp_path / "stop.txt").write_bytes("\ufeff 上海 \r\n\r\n".encode())
    fold = {"fold": ["case", "nfkc"], "min_subject": 2, "stop": "stop.txt"}
    folder, said = made(config("g.spo", build=fold), tmp_path)
    assert "subject shorter than min_subject 1" in said
    assert open_graph(str(folder)).info.fold == ("nfkc", "case")
    assert open_graph(str(folder)).subject_id("BEIJING") == 0
    assert made(config("g.spo", build=fold), tmp_path)[1] == ""
    (tmp_path / "stop.txt").write_text(" beijing \r\n上海\n", encoding="utf-8")
    with pytest.raises(GraphError, match="no triple"):
        made(config("g.spo", build=fold), tmp_path)
    folder, said = made(config("g.spo"), tmp_path)
    assert "2 triples" in said
    assert open_graph(str(folder)).subject_id("beijing") == -1


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (
            {"stop": "gone.txt"},
            r"graph\.build\.stop: .*gone\.txt cannot be read .* list subjects as \[one, another\]",
        ),
        ({"stop": "bad.txt"}, r"graph\.build\.stop: line 2 of .*bad\.txt is not UTF-8"),
    ],
)
def test_stop_lists_that_cannot_be_read_are_named(
    triples: Path, tmp_path: Path, build: dict[str, object], message: str
) -> None:
    (tmp_path / "bad.txt").write_bytes(b"ok\n\xff\n")
    with pytest.raises(ConfigError, match=message):
        made(config("g.spo", build=build), tmp_path)


def test_a_name_that_tells_no_format_stops_before_anything_is_read(triples: Path, tmp_path: Path) -> None:
    (tmp_path / "g.xyz").write_text("")
    with pytest.raises(ConfigError, match=r"graph\.triples: .*g\.xyz: the name does not tell the format"):
        made(config("g.spo", "g.xyz"), tmp_path)
    assert not (tmp_path / "out/graph").exists()


# --- compiled graphs --------------------------------------------------------------------------


@pytest.fixture
def compiled(triples: Path, tmp_path: Path) -> Path:
    compile_graph([str(triples)], tmp_path / "my.kg", options=BuildOptions(fold=("nfkc",)))
    return tmp_path / "my.kg"


def test_a_compiled_graph_is_linked_and_outlives_its_next_build(
    compiled: Path, triples: Path, tmp_path: Path
) -> None:
    folder, said = made(config(compiled="my.kg"), tmp_path)
    assert folder == tmp_path / "out/graph"
    assert f"graph: 2 triples, 1 subjects, linked to {compiled}" in said
    for file in compiled.iterdir():
        assert (folder / file.name).samefile(file)
    assert made(config(compiled="my.kg"), tmp_path)[1] == ""
    other, _ = made(config(compiled="my.kg"), tmp_path, "other")
    assert (other / "meta.json").samefile(folder / "meta.json")

    triples.write_text("上海\t类别\t城市\n", encoding="utf-8")
    compile_graph([str(triples)], compiled)
    assert open_graph(str(folder), check=True).subject_id("北京") == 0
    assert "1 triples" in made(config(compiled="my.kg"), tmp_path)[1]
    assert open_graph(str(folder), check=True).subject_id("上海") == 0
    assert open_graph(str(other), check=True).subject_id("北京") == 0


def test_where_there_are_no_links_it_is_copied(
    compiled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(source: object, target: object) -> None:
        raise OSError(18, "Invalid cross-device link")

    monkeypatch.setattr(os, "link", refuse)
    folder, said = made(config(compiled="my.kg"), tmp_path)
    assert "copied from" in said
    assert not (folder / "meta.json").samefile(compiled / "meta.json")
    assert (folder / "meta.json").read_bytes() == (compiled / "meta.json").read_bytes()
    open_graph(str(folder), check=True)


def test_from_files_to_compiled_and_back(compiled: Path, triples: Path, tmp_path: Path) -> None:
    folder, _ = made(config("g.spo"), tmp_path)
    assert open_graph(str(folder)).info.fold == ()
    assert (tmp_path / "out/rejects/graph.jsonl").exists()
    made(config(compiled="my.kg"), tmp_path)
    assert open_graph(str(folder)).info.fold == ("nfkc",)
    assert not (tmp_path / "out/rejects/graph.jsonl").exists()
    assert "2 triples" in made(config("g.spo"), tmp_path)[1]
    assert open_graph(str(folder)).info.fold == ()
    assert open_graph(str(compiled), check=True).info.fold == ("nfkc",)


def test_a_damaged_copy_is_made_again_and_a_damaged_source_is_refused(compiled: Path, tmp_path: Path) -> None:
    folder, _ = made(config(compiled="my.kg"), tmp_path)
    good = (folder / "objects.npy").read_bytes()
    (folder / "objects.npy").unlink()  # a link: the source keeps its file
    (folder / "objects.npy").write_bytes(good[:-1] + b"\xff")
    assert "linked to" in made(config(compiled="my.kg"), tmp_path)[1]
    open_graph(str(folder), check=True)
    (compiled / "objects.npy").write_bytes(good[:-1] + b"\xff")
    with pytest.raises(ConfigError, match=r"graph\.compiled: .*objects\.npy was changed"):
        made(config(compiled="my.kg"), tmp_path)


@pytest.mark.parametrize(("name", "what"), [("gone.kg", "does not exist"), ("empty", "is no compiled graph")])
def test_what_is_no_compiled_graph_is_named_with_the_fix(tmp_path: Path, name: str, what: str) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(
        ConfigError, match=rf"graph\.compiled: .*{name} {what}; make one with `treegraft kg build"
    ):
        made(config(compiled=name), tmp_path)


def test_the_linked_graph_of_a_finished_dataset_is_not_replaced_unasked(
    compiled: Path, triples: Path, tmp_path: Path
) -> None:
    folder, _ = made(config(compiled="my.kg"), tmp_path)
    (tmp_path / "out/manifest.json").write_text("{}")
    triples.write_text("上海\t类别\t城市\n", encoding="utf-8")
    compile_graph([str(triples)], compiled)
    assert made(config(compiled="my.kg"), tmp_path)[0] == compiled
    assert open_graph(str(folder)).subject_id("北京") == 0
    assert made(config(compiled="my.kg"), tmp_path, overwrite=True)[0] == folder
    assert open_graph(str(folder)).subject_id("北京") == -1


def test_the_graph_of_the_dataset_itself_may_be_named(triples: Path, tmp_path: Path) -> None:
    folder, _ = made(config("g.spo"), tmp_path)
    assert made(config(compiled="out/graph"), tmp_path) == (folder, "")
    open_graph(str(folder), check=True)


def test_a_compiled_graph_on_another_filesystem(remote: str, compiled: Path, tmp_path: Path) -> None:  # noqa: F811
    there = files.join(remote, "my.kg")
    files.make_dirs(there)
    for file in compiled.iterdir():
        with files.write_atomic(files.join(there, file.name)) as sink:
            sink.write(file.read_bytes())
    folder, said = made(config(compiled=there), tmp_path)
    assert "copied from" in said
    assert open_graph(str(folder), check=True).subject_id("北京") == 0
    shutil.rmtree(folder)
    out = files.join(remote, "out")
    stored = compiled_graph(config(compiled="my.kg"), str(tmp_path / "c.yaml"), out, False, quiet())
    assert stored is not None and files.is_uri(stored)
    assert open_graph(stored, check=True).subject_id("北京") == 0


# --- predicates -------------------------------------------------------------------------------


def test_predicates_that_the_graph_lacks(triples: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as error:
        made(config("g.spo", include_predicates=["类别", "首都之干"]), tmp_path)
    assert (
        "graph.include_predicates: no triple has the predicate '首都之干'; did you mean '首都之于'?"
        in str(error.value)
    )
    with pytest.raises(ConfigError, match="its predicates are '类别', '首都之于'"):
        made(config("g.spo", include_predicates=["zzz"]), tmp_path)
    said = made(config("g.spo", exclude_predicates=["首都之干"]), tmp_path)[1]
    assert "warning: graph.exclude_predicates: no triple has the predicate '首都之干'; did you mean" in said
    assert made(config("g.spo", include_predicates=["类别"]), tmp_path)[1] == ""


def test_before_any_work_a_compiled_graph_is_asked_for_its_predicates(compiled: Path, tmp_path: Path) -> None:
    path = str(tmp_path / "c.yaml")
    with pytest.raises(ConfigError, match=r"graph\.include_predicates: no triple .* did you mean"):
        check_graph(config(compiled="my.kg", include_predicates=["首都之干"]), path)
    console = quiet()
    check_graph(config(compiled="my.kg", exclude_predicates=["首都之干"]), path, console)
    assert "warning: graph.exclude_predicates" in console.file.getvalue()  # type: ignore[attr-defined]


def test_a_dataset_stands_for_its_graph_and_is_never_built_over(triples: Path, tmp_path: Path) -> None:
    folder, _ = made(config("g.spo"), tmp_path)
    again, said = made(config(compiled="out"), tmp_path, "other")
    assert (again / "meta.json").samefile(folder / "meta.json") and "linked to" in said
    (tmp_path / "rows").mkdir()
    (tmp_path / "rows/manifest.json").write_text("{}")
    with pytest.raises(ConfigError, match="is a dataset without a graph") as error:
        made(config(compiled="rows"), tmp_path, "third")
    assert "--out" not in str(error.value)


def test_a_column_that_a_file_lacks_is_named_as_the_config_names_it(tmp_path: Path) -> None:
    (tmp_path / "g.csv").write_text("name,value\na,b\n", encoding="utf-8")
    build = {"columns": {"subject": "nam", "object": "value"}}
    with pytest.raises(ConfigError, match=r"^graph\.build\.columns\.subject: "):
        made(config("g.csv", build=build), tmp_path)
