"""The fine vocabulary of a config with a graph has the characters that branches are of, as far as there is room."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pipelines.config import Config, ConfigError
from pipelines.engine import RunError
from pipelines.vocab.wordpiece import Alphabet, extended
from tests.pipelines.dedup.running import options
from tests.pipelines.vocab.running import make, report, settings, write_corpus

TRIPLES = "New York\tcalled\tGöteborg ßß\nNew York\tkind\t大都市\nNew York\tlong\t" + "鑫" * 80 + "\n"


def config_of(folder: Path, *, tree: bool = True, **graph: Any) -> Config:
    if not (folder / "a.txt").exists():
        write_corpus(folder, documents=5)
    if not (folder / "g.tsv").exists():
        (folder / "g.tsv").write_text(TRIPLES, encoding="utf-8")
    encode = {
        "tokenizer": str(folder / "out/vocab/vocab.txt"),
        "columns": ["tree"] * tree,
        "lowercase": False,
    }
    more = {"graph": {"triples": "g.tsv", **graph}} if tree else {}
    return settings(folder, encode=encode, vocab={"fine": {"size": 300}}, **more)


def entries(folder: Path) -> set[str]:
    return set((folder / "out/vocab/vocab.txt").read_text(encoding="utf-8").split("\n"))


def test_characters_of_objects_are_entries(tmp_path: Path) -> None:
    make(tmp_path, config_of(tmp_path))
    found = entries(tmp_path)
    assert {"大", "都", "市", "ß", "##ß", "##ö"} <= found
    assert "鑫" not in found  # beyond graph.max_object_length
    assert report(tmp_path)["fine"]["characters_of_branches"] == 5
    assert report(tmp_path)["fine"]["characters_of_branches_left_out"] == 0


@pytest.mark.parametrize(
    ("graph", "wanted"),
    [
        ({"include_predicates": ["called"]}, {"ß"}),
        ({"exclude_predicates": ["called"]}, {"大"}),
    ],
)
def test_only_what_is_grafted_counts(tmp_path: Path, graph: dict[str, Any], wanted: set[str]) -> None:
    make(tmp_path, config_of(tmp_path, **graph))
    assert entries(tmp_path) & {"ß", "大"} == wanted


def test_predicates_count_where_branches_have_them(tmp_path: Path) -> None:
    (tmp_path / "g.tsv").write_text("New York\t位于\tUS\n", encoding="utf-8")
    make(tmp_path, config_of(tmp_path))
    assert "位" not in entries(tmp_path)
    make(tmp_path, config_of(tmp_path, predicate=True), options(tmp_path / "out", overwrite=True))
    assert {"位", "于"} <= entries(tmp_path)


def test_another_graph_is_another_vocabulary(tmp_path: Path) -> None:
    config = config_of(tmp_path)
    make(tmp_path, config)
    before = entries(tmp_path)
    _, said = make(tmp_path, config)
    assert "vocab, fine: already finished" in said
    (tmp_path / "g.tsv").write_text(TRIPLES + "York\tis\t城\n", encoding="utf-8")
    with pytest.raises(RunError, match=r"changed since:\n  graph: "):
        make(tmp_path, config)
    assert entries(tmp_path) == before
    make(tmp_path, config, replace(options(tmp_path / "out"), overwrite=True))
    assert "城" in entries(tmp_path)
    with pytest.raises(RunError, match=r"graph: g\.tsv -> none"):
        make(tmp_path, config_of(tmp_path, tree=False))


def test_the_graph_of_another_config_gives_its_characters(tmp_path: Path) -> None:
    texts, reviews = config_of(tmp_path, tree=False), config_of(tmp_path)
    other = reviews, str(tmp_path / "reviews.yaml"), str(tmp_path / "out/reviews")
    make(tmp_path, texts, graph_of=other)
    assert {"大", "都", "市"} <= entries(tmp_path)
    assert not (tmp_path / "out/graph").exists()  # the texts have no trees
    _, said = make(tmp_path, texts, graph_of=other)
    assert "vocab, fine: already finished" in said
    with pytest.raises(RunError, match=r"graph: g\.tsv -> none"):
        make(tmp_path, texts)


def test_the_graph_of_another_config_is_refused_where_it_would_go_unheard(tmp_path: Path) -> None:
    texts, reviews = config_of(tmp_path, tree=False), config_of(tmp_path)
    path, out = str(tmp_path / "r.yaml"), str(tmp_path / "out/r")
    for config, other, said in (
        (reviews, reviews, "has a `graph` section of its own"),
        (texts, texts, r"r\.yaml has no `graph` section"),
    ):
        with pytest.raises(ConfigError, match=said):
            make(tmp_path, config, graph_of=(other, path, out))
    make(tmp_path, texts)
    with pytest.raises(ConfigError, match="pass --fine, too"):
        make(tmp_path, texts, graph_of=(reviews, path, out), coarse=True)
    assert not (tmp_path / "out/r").exists()


def test_a_graph_takes_half_of_the_room_that_the_text_leaves(tmp_path: Path) -> None:
    many = "".join(f"York\tis\t{chr(0x5000 + i)}\n" for i in range(400))
    (tmp_path / "g.tsv").write_text(many, encoding="utf-8")
    _, said = make(tmp_path, config_of(tmp_path))
    told = report(tmp_path)["fine"]
    forms = {entry for entry in entries(tmp_path) if len(entry.removeprefix("##")) == 1}
    of_text = len(forms) - told["characters_of_branches"]
    assert told["characters_of_branches"] == (300 - 5 - of_text) // 2
    assert told["characters_of_branches"] + told["characters_of_branches_left_out"] == 400
    assert "characters of branches found no room (vocab.fine.alphabet, vocab.fine.size)" in said


def test_extended_keeps_what_is_there_and_takes_the_most_frequent() -> None:
    base = Alphabet(["a", "b"], ["a"])
    forms = {"b": 9, "##b": 1, "c": 3, "##c": 3, "d": 6, "e": 1}
    assert extended(base, forms, most=9, room=9) == Alphabet(["a", "b", "c", "d", "e"], ["a", "b", "c"])
    assert extended(base, forms, most=3, room=9) == Alphabet(["a", "b", "c"], ["a", "b", "c"])
    assert extended(base, forms, most=9, room=2) == Alphabet(["a", "b", "d"], ["a", "b"])
    assert extended(base, {}, most=0, room=0) == base
