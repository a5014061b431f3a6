"""What tells one run from another: the settings that manifests record, and the errors that name them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from corpora.manifest import read_manifest
from pipelines import flow
from pipelines.config import load_config
from pipelines.differences import Facts, differences, listed
from pipelines.engine import RunError
from pipelines.options import Options

SAMPLES = Path(__file__).parents[2] / "corpora" / "samples"


def write(folder: Path, name: str = "c.yaml", **changes: Any) -> Path:
    """A config over six reviews, annotated without a parser into the folder that its default names."""
    if not (folder / "g.spo").exists():
        lines = (SAMPLES / "zh/reviews.tsv").read_text(encoding="utf-8").split("\n")[:7]
        (folder / "data.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
        (folder / "g.spo").write_text(
            "酒店\t类别\t建筑\n酒店\t又名\t旅馆\n房间\t类别\t处所\n", encoding="utf-8"
        )
        (folder / "words.txt").write_text("酒店房间\n", encoding="utf-8")
    body: dict[str, Any] = {
        "task": "classify",
        "language": "zh",
        "input": {"format": "tsv", "text": "text_a", "label": "label", "files": {"train": "data.tsv"}},
        "annotate": {"parser": "none"},
        "encode": {"tokenizer": str(SAMPLES / "vocab.txt"), "columns": ["tree"], "max_length": 64},
        "graph": {"triples": "g.spo"},
    }
    for key, value in changes.items():
        body[key] = {**body.get(key, {}), **value} if isinstance(value, dict) else value
    path = folder / name
    path.write_text(yaml.safe_dump({k: v for k, v in body.items() if v is not None}, allow_unicode=True))
    return path


def run(config: Path, *, command: Any = flow.preprocess, out: str = "out", annotated: str = "") -> str:
    folder = str(config.parent / out)
    options = Options(out=folder, annotated=annotated or f"{folder}/annotated")
    command(load_config(config), str(config), options)
    return folder


def refusal(*args: Any, **named: Any) -> str:
    with pytest.raises(RunError) as error:
        run(*args, **named)
    return str(error.value)


# --- what is recorded -------------------------------------------------------------------------


def test_manifests_say_what_made_them_and_no_path_of_the_machine(tmp_path: Path) -> None:
    graph = {"rank": "shortest", "exclude_predicates": ["又名"], "stop": ["房间", "大堂"]}
    config = write(tmp_path, graph=graph, annotate={"user_dict": str(tmp_path / "words.txt")})
    out = run(config)
    rows = read_manifest(out).settings
    assert rows["graph.rank"] == "shortest"
    assert rows["graph.exclude_predicates"] == ["又名"] and rows["graph.include_predicates"] is None
    assert rows["graph.stop"] == ["大堂", "房间"]
    assert rows["graph.max_length"] == rows["encode.max_length"] == 64  # the default, filled in
    assert rows["graph.build.fold"] == []
    assert rows["encode.columns"] == ["tree"]
    assert rows["encode.labels"] == ["0", "1"]
    documents = read_manifest(f"{out}/annotated").settings
    assert documents["annotate.parser"] == "none" and documents["annotate.user_dict"] == "words.txt"
    assert documents["input.text"] == "text_a"
    for folder in (out, f"{out}/annotated"):
        assert str(tmp_path) not in (Path(folder) / "manifest.json").read_text(encoding="utf-8")


def test_manifests_without_settings_still_read_and_still_count_as_the_same_run(tmp_path: Path) -> None:
    config = write(tmp_path)
    out = run(config)
    for folder in (out, f"{out}/annotated"):
        for name, keys in (
            ("manifest.json", ["settings"]),
            ("_work/plan.json", ["settings", "identities", "versions"]),
        ):
            path = Path(folder) / name
            body = json.loads(path.read_text(encoding="utf-8"))
            path.write_text(json.dumps({k: v for k, v in body.items() if k not in keys}), encoding="utf-8")
    before = (Path(out) / "manifest.json").stat().st_mtime_ns
    run(config)
    assert (Path(out) / "manifest.json").stat().st_mtime_ns == before
    run(config, command=flow.encode)
    write(tmp_path, graph={"rank": "shortest"})
    assert "nothing that was recorded" in refusal(config)


# --- finished folders of another run ----------------------------------------------------------


def test_the_error_says_what_differs_in_the_rows(tmp_path: Path) -> None:
    out = run(write(tmp_path, graph={"stop": ["大堂"]}))
    said = refusal(write(tmp_path, graph={"rank": "shortest", "stop": ["房间"]}, encode={"max_length": 48}))
    assert "another config, code or input:\n" in said
    for line in (
        "graph.rank: 'file' -> 'shortest'",
        "graph.stop: without '大堂', with '房间'",
        "encode.max_length: 64 -> 48",
    ):
        assert f"\n  {line}\n" in said
    assert said.endswith("Choose another folder with --out, or pass --overwrite to replace it.")
    (tmp_path / "g.spo").write_text("酒店\t类别\t楼房\n", encoding="utf-8")
    graph = read_manifest(out).identities["graph"]
    assert isinstance(graph, dict)
    lines = refusal(write(tmp_path, graph={"stop": ["大堂"]})).split("\n")[1:-1]
    assert len(lines) == 1 and lines[0].startswith(f"  graph: {str(graph['sha256'])[:8]}.. -> ")


def test_annotations_that_others_may_share_are_not_to_be_overwritten(tmp_path: Path) -> None:
    shared = str(tmp_path / "shared")
    run(write(tmp_path), annotated=shared)
    said = refusal(write(tmp_path, annotate={"sentences": "lines"}), annotated=shared)
    assert "\n  annotate.sentences: 'rules' -> 'lines'\n" in said
    assert "another folder as `annotated`" in said and "--out" not in said
    with (tmp_path / "data.tsv").open("a", encoding="utf-8") as more:
        more.write("1\t很好的酒店。\n")
    assert "\n  input data.tsv: " in refusal(write(tmp_path), annotated=shared)


def test_a_graph_that_was_added_is_one_line_and_hides_nothing(tmp_path: Path) -> None:
    run(write(tmp_path, graph=None, encode={"columns": []}))
    (tmp_path / "vocab.txt").write_bytes((SAMPLES / "vocab.txt").read_bytes() + b"extra\n")
    said = refusal(write(tmp_path, encode={"tokenizer": "vocab.txt"}))
    lines = said.split("\n")[1:-1]
    assert lines[:2] == ["  encode.columns: with 'tree'", "  graph: not set -> 3 triples"]
    assert len(lines) == 3 and lines[2].startswith("  tokenizer: ")


def test_an_unfinished_run_of_another_config_says_what_differs(tmp_path: Path) -> None:
    out = run(write(tmp_path))
    (Path(out) / "manifest.json").unlink()
    said = refusal(write(tmp_path, graph={"branches_per_mention": 1}))
    assert "unfinished run" in said and "\n  graph.branches_per_mention: 2 -> 1\n" in said


# --- stage 2 on annotations of another config -------------------------------------------------


def test_encode_takes_only_what_its_own_config_annotated(tmp_path: Path) -> None:
    config = write(tmp_path)
    shared = str(tmp_path / "shared")
    run(config, command=flow.annotate, annotated=shared)
    run(config, command=flow.encode, annotated=shared)
    run(write(tmp_path, graph={"match": "words"}), command=flow.encode, annotated=shared, out="other")
    other = write(tmp_path, annotate={"user_dict": "words.txt"})
    said = refusal(other, command=flow.encode, annotated=shared, out="third")
    assert "annotations in" in said and "\n  annotate.user_dict: not set -> 'words.txt'\n" in said
    (tmp_path / "words.txt").write_text("酒店\n")
    run(other, command=flow.annotate, annotated=str(tmp_path / "mine"))
    (tmp_path / "words.txt").write_text("房间\n")  # the name stays
    assert "segmenter: " in refusal(other, command=flow.encode, annotated=str(tmp_path / "mine"), out="third")


def test_encode_needs_neither_the_raw_files_nor_their_date(tmp_path: Path) -> None:
    config = write(tmp_path)
    run(config, command=flow.annotate)
    (tmp_path / "data.tsv").unlink()
    run(config, command=flow.encode)
    write(tmp_path, annotate={"max_sentence_words": 9})
    assert "annotate.max_sentence_words: 256 -> 9" in refusal(config, command=flow.encode)


def test_syntax_needs_a_parse(tmp_path: Path) -> None:
    run(write(tmp_path), command=flow.annotate)
    config = write(tmp_path, annotate={"parser": "default"}, encode={"columns": ["syntax"]}, graph=None)
    said = refusal(config, command=flow.encode)
    assert "have no parse" in said and "'syntax' (its default), which needs one" in said and "\n" not in said


# --- the rules --------------------------------------------------------------------------------


def test_every_kind_of_difference_has_a_line() -> None:
    sha = {"a": "1" * 64, "b": "2" * 64}
    old = Facts(
        {"x": 1, "l": list("abcde")},
        {
            "tokenizer": {"name": "v.txt", "sha256": sha["a"]},
            "parser": {"name": "p", "version": "1"},
            "gone": {},
        },
        {"numpy": "1"},
        [{"path": "a", "size": 1000}, {"path": "b", "sha256": "x"}, {"path": "c"}],
    )
    new = Facts(
        {"x": True, "l": list("fgae")},
        {"tokenizer": {"name": "v.txt", "sha256": sha["b"]}, "parser": {"name": "q", "version": "1"}},
        {"numpy": "2"},
        [{"path": "a", "size": 2000}, {"path": "b", "sha256": "y"}, {"path": "d"}],
    )
    assert differences(old, new) == [
        "l: without 'b', 'c', 'd', with 'f', 'g'",
        "parser: p 1 -> q 1",
        "tokenizer: 11111111.. -> 22222222..",
        "input c: no longer there",
        "input d: new",
        "input a: 1,000 bytes -> 2,000 bytes",
        "input b: other content",
    ]
    assert differences(Facts(versions=old.versions), Facts(versions=new.versions)) == [
        "version of numpy: 1 -> 2"
    ]
    assert differences(old, old) == differences(Facts(), new) == differences(old, Facts()) == []
    assert listed([str(i) for i in range(20)]).endswith("\n  11\n  and 8 more")
    assert listed([]) == "\n  nothing that a config says: another release of treegraft made it"


def test_a_section_that_is_new_or_gone_is_one_line_and_defaults_come_last() -> None:
    graph = {"graph": {"triples": 1200}}
    rows = {"seed": 0, "encode.max_length": 128, "encode.lowercase": False}
    old = Facts({**rows, "dedup.exact": True, "dedup.near": 0.8})
    new = Facts(
        {"seed": 1, "encode.max_length": 512, "encode.lowercase": True}
        | {"graph.depth": 2, "graph.build.delimiter": ",", "graph.stop": None},
        graph,
        inputs=[{"path": "a"}],
    )
    wanted = [
        "dedup: set -> not set",
        "graph: not set -> 1,200 triples",
        "seed: 0 -> 1",
        "encode.lowercase: false -> true",
        "encode.max_length: 128 -> 512",
    ]
    assert differences(old, new) == wanted
    inputs = [{"path": "b"}]
    said = differences(Facts(old.settings, inputs=inputs), new)
    assert said == [*wanted[:3], "input b: no longer there", "input a: new", *wanted[3:]]
    compiled = Facts({"graph.depth": 1}, graph)
    assert differences(compiled, Facts({"graph.depth": 1, "graph.build.delimiter": ","}, graph)) == [
        "graph.build: not set -> set"
    ]


def test_a_tool_that_one_side_lacks_is_a_difference_where_all_are_named() -> None:
    one = Facts(identities={"t": {"name": "v"}})
    more = Facts(identities={**one.identities, "p": {"name": "p.tsv"}})
    assert differences(one, more) == []
    assert differences(one, more, every_tool=True) == ["p: none -> p.tsv"]
    assert differences(more, one, every_tool=True) == ["p: p.tsv -> none"]
    assert differences(more, more, every_tool=True) == []
    graph = Facts({"x": 1, "graph.predicate": False}, {"graph": {"name": "g.spo"}})
    assert differences(Facts({"x": 1}), graph, every_tool=True) == ["graph: none -> g.spo"]
