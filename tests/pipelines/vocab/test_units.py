"""Words and phrases of annotated documents are counted as they stand there."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from pipelines.vocab import units
from pipelines.vocab.coverage import Coverage
from pipelines.vocab.units import Lookup, Units
from pipelines.vocab.wordpiece import SPECIALS
from tests.pipelines.annotated import SAMPLES, document, table_of
from tests.pipelines.vocab.slow import units_of

TEXTS = [
    "New York, new york. York New York City! a new\nYork",
    "北京大学 在 北京 大学。Café new-york",
    "",
    "New York\u00a0City",
    "\u200d \u0301",
]
PHRASES = ["new york", "york city", "new york city", "北京 大学", "大学 在"]


def lookup(folder: Path, phrases: list[str] | None) -> Lookup:
    path = folder / "phrases.tsv"
    path.write_text("".join(f"{p}\t1\n" for p in phrases or []), encoding="utf-8")
    return Lookup(str(SAMPLES / "vocab.txt"), "", True, None if phrases is None else str(path))


def expected(lookup: Lookup, rows: list[dict], phrases: list[str]) -> Counter[str]:
    found: Counter[str] = Counter()
    for row in rows:
        for side in ("", "_pair"):
            text, stops = row[f"text{side}"] or "", row.get(f"sentence_stops{side}") or []
            for start, stop in zip(row.get(f"sentence_starts{side}") or [], stops, strict=True):
                spans = zip(row[f"word_starts{side}"], row[f"word_stops{side}"], strict=True)
                words = [lookup.tokenizer.normalize(text[a:b]) for a, b in spans if start <= a < stop]
                found.update(units_of([w for w in words if w.strip()], phrases))
    return found


@pytest.mark.parametrize("phrases", [None, PHRASES])
def test_they_are_those_of_a_plain_loop(tmp_path: Path, phrases: list[str] | None) -> None:
    rows = [
        document(str(i), text, pair=True, text_pair=TEXTS[i - 1] if i else None)
        for i, text in enumerate(TEXTS)
    ]
    names = lookup(tmp_path, phrases)
    found = Units(names).count(table_of(rows, pair=True))
    wanted = expected(names, rows, phrases or [])
    assert dict(zip(found.texts.to_pylist(), found.counts.tolist(), strict=True)) == wanted
    assert found.phrases is not None
    assert set(found.chosen(found.phrases).texts.to_pylist()) == {unit for unit in wanted if " " in unit}
    if phrases:
        assert wanted["new york"] == 4  # none over the end of a sentence
        assert wanted["new york city"] == 4
        assert wanted["york city"] == 0


def test_forgetting_words_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tables = [table_of([document("a", text)]) for text in TEXTS[:2] * 2]
    names = lookup(tmp_path, PHRASES)
    wanted = [Units(names).count(table) for table in tables]
    monkeypatch.setattr(units, "_KEPT", 1)
    counter = Units(names)
    for table, want in zip(tables, wanted, strict=True):
        found = counter.count(table)
        assert found.texts.equals(want.texts)
        assert found.counts.tolist() == want.counts.tolist()


def test_coverage_follows_the_back_off(tmp_path: Path) -> None:
    names = lookup(tmp_path, PHRASES)
    text = "New York City. new york. 大学 大学 word. zzz. \x01"
    found = Units(names).count(table_of([document("a", text)]))
    path = tmp_path / "coarse_vocab.txt"
    fine = [names.tokenizer.surface(i) or "" for i in names.tokenizer.encode_ids(["zzz"])[0]]
    assert fine == ["z", "##zz"]
    entries = [*SPECIALS, "new york", "new", "city", "大学", ".", "z", "##zz"]
    path.write_text("".join(f"{e}\n" for e in entries), encoding="utf-8")
    said = Coverage(names.tokenizer, str(path)).of(found)
    assert said["phrases"] == 2
    assert said["phrases_whole"] == 1
    assert said["units"] == int(found.counts.sum())
    assert said["words"] == said["units"] - 2 + 3  # new york city is not there
    assert said["words_in_pieces"] == 1
    assert said["words_unknown"] == 2  # york, word
    assert said["words"] == said["words_whole"] + 1 + 2
    assert said["tokens"] == said["phrases_whole"] + said["words_whole"] + 2 + 2
    assert said["words_whole"] == 2 + 2 + text.count(".")  # new, city; 大学 twice
    assert said["characters"] == len(text.replace(" ", "")) - 1  # what BERT drops is in no unit
    assert said["characters_whole"] == len("newcity") + len("newyork") + len("大学大学") + text.count(".")
