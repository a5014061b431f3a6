"""The content hash: different triples, different hash, whatever their fields hold."""

from __future__ import annotations

from pathlib import Path

import pytest

from kg import compile_graph


def test_fields_with_tabs_and_line_ends_do_not_make_one_hash_of_two_graphs(tmp_path: Path) -> None:
    graphs = {}
    for name, rows in {
        "tab": '"甲\t类",乙,丙\n', "other tab": '甲,"类\t乙",丙\n', "third tab": '甲,类,"乙\t丙"\n',
        "line": '甲,类,"乙\n丁\t类\t戊"\n', "lines": "甲,类,乙\n丁,类,戊\n",
    }.items():  # fmt: skip
        source = tmp_path / f"{name}.csv"
        source.write_bytes(f"subject,predicate,object\n{rows}".encode())
        graphs[name] = compile_graph([str(source)], tmp_path / f"{name}.kg")
    assert [info.triples for info in graphs.values()] == [1, 1, 1, 1, 2]
    assert len({info.sha256 for info in graphs.values()}) == 5


@pytest.mark.parametrize(("ending", "quote"), [(".tsv", ""), (".csv", '"')])
@pytest.mark.parametrize("between", ["\0", "\1"])
def test_what_the_hash_puts_between_fields_is_in_none(
    tmp_path: Path, ending: str, quote: str, between: str
) -> None:
    source = tmp_path / f"a{ending}"
    separator = "\t" if ending == ".tsv" else ","
    rows = [
        ("subject", "predicate", "object"),
        ("甲", "类", "乙"),
        ("丁", "类", f"{quote}乙{between}丙{quote}"),
    ]
    source.write_bytes("".join(separator.join(row) + "\n" for row in rows).encode())
    info = compile_graph([str(source)], tmp_path / "kg")
    assert info.rejects == {"control_character": 1}
