"""What a block leaves behind, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from corpora.blocks import Block
from pipelines.dedup import sign
from pipelines.dedup.minhash import Banding
from pipelines.dedup.runs import END, gather, list_runs
from pipelines.dedup.sign import _rows, _Window
from pipelines.dedup.signer import Signer
from tests.pipelines.raw import raw

BLOCK = Block("train", 2, 5, (), 0)


def add(window: _Window, texts: list[str]) -> list[dict]:
    signed = Signer("zh", Banding(2, 1), characters=True, n=2).sign(texts)
    first = window.add(signed)
    return _rows(raw(texts), signed, first, window.records - len(texts)).to_pylist()


def test_a_text_that_stood_before_has_no_sketch_and_no_keys(tmp_path) -> None:
    window = _Window(BLOCK, 7, str(tmp_path))
    rows = add(window, ["甲乙丙", "丁", "甲乙丙！"]) + add(window, ["丁。", "戊己", "..."])
    window.flush()
    assert [row["first"] for row in rows] == [0, 1, 0, 1, 4, 5]
    assert [len(row["sketch"]) for row in rows] == [2, 1, 0, 0, 1, 0]
    ((found, _),) = gather(list_runs(str(tmp_path)), 0, END)
    numbers, counts = np.unique(found.numbers, return_counts=True)
    assert numbers.tolist() == [(7 << 40) + record for record in (0, 1, 4, 5)]
    assert counts.tolist() == [3, 3, 3, 1]  # the text, and two bands; nothing but punctuation has no bands


@pytest.mark.parametrize("limit", ["_WINDOW_ROWS", "_WINDOW_TEXTS"])
def test_windows_are_bounded(tmp_path, monkeypatch: pytest.MonkeyPatch, limit: str) -> None:
    monkeypatch.setattr(sign, limit, 4)
    window = _Window(BLOCK, 0, str(tmp_path))
    rows = []
    for number in range(12):
        rows += add(window, [f"文{number % 3}", f"章{number}"])
        assert len(window._seen) < 4
        assert window._rows < 12
    window.flush()
    assert len(list_runs(str(tmp_path))) > 3
    assert [row["first"] for row in rows if row["first"] % 2] == list(range(1, 24, 2))
