"""The tables that skip positions: never a subject lost, few positions kept for nothing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from kg import KnowledgeGraph, compile_graph, prefilter

words = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=5)


@given(st.lists(words, min_size=1, max_size=20, unique=True), st.lists(words, max_size=5))
def test_every_occurrence_of_every_subject_is_a_candidate(subjects: list[str], fill: list[str]) -> None:
    ones, twos, threes = prefilter.build(pa.array(subjects, pa.large_string()))
    assert ones.tolist() == sorted(ord(s) for s in subjects if len(s) == 1)
    text = "".join(a + b for a, b in zip(subjects, fill + [""] * 20, strict=False))
    found = prefilter.candidates(prefilter.code_points(text), ones, twos, threes).tolist()
    assert found == sorted(set(found))
    expected = {i for i in range(len(text)) for s in subjects if text.startswith(s, i)}
    assert expected <= set(found)
    longer = prefilter.candidates(prefilter.code_points(text), None, twos, threes).tolist()
    assert {i for i in range(len(text)) for s in subjects if len(s) > 1 and text.startswith(s, i)} <= set(
        longer
    )


def test_most_positions_of_real_text_are_skipped(real_data: Path, tmp_path: Path) -> None:
    compile_graph([str(real_data / "kg/HowNet.spo")], tmp_path / "kg")
    graph = KnowledgeGraph.open(tmp_path / "kg")
    text = (real_data / "kbert/chnsenticorp/dev.tsv").read_text(encoding="utf-8")
    columns = [np.load(tmp_path / f"kg/filter_{name}.npy") for name in ("ones", "twos", "threes")]
    positions = prefilter.candidates(prefilter.code_points(text), None, *columns[1:])
    assert len(graph.longest_mentions(text, 2)[0]) < len(positions) < 0.2 * len(text)
