"""How near reading triples comes to reading bytes; CPU time of one process, best of some rounds.

Bare is reading the file in blocks and one pass of `np.flatnonzero` for its line ends. Lines of `.spo` take
some 16 times that (20 bytes each, 3 million a second where this was written), lines of ConceptNet 20 times
(230 bytes, 0.6 million). CSV and RDF go through Python objects, as their libraries give them: 0.6 million
records and, since files are read twice, 0.2 million statements a second.
"""

from __future__ import annotations

import csv
import io
import json
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from kg.read import ReadCounts, ReadOptions, lines, read_tables

pytestmark = pytest.mark.bench

ROUNDS = 5
BARS = {"a.spo": 30, "conceptnet-assertions.csv": 35, "a.csv": 150, "a.nt": 250}
"""Reading may take this many times bare."""


def _seconds(work: Callable[[], object]) -> float:
    best = float("inf")
    for _ in range(ROUNDS):
        start = time.process_time()
        work()
        best = min(best, time.process_time() - start)
    return best


@pytest.fixture(scope="module")
def files(real_data: Path) -> dict[str, bytes]:
    """HowNet, some times over: as it is, as CSV, as N-Triples with labels, and in ConceptNet's layout."""
    text = (real_data / "kg/HowNet.spo").read_text("utf-8")
    rows = [line.split("\t") for line in text.splitlines()]
    table = io.StringIO()
    csv.writer(table).writerows([["subject", "predicate", "object"], *rows * 4])
    about = {"dataset": "/d/wiktionary/fr", "license": "cc:by-sa/4.0", "weight": 1.0}
    source = json.dumps({**about, "sources": [{"contributor": "/s/resource/wiktionary/fr"}]})
    assertions = (
        f"/a/[/r/{p}/,/c/zh/{s}/,/c/zh/{o}/]\t/r/{p}\t/c/zh/{s}\t/c/zh/{o}/n\t{source}\n" for s, p, o in rows
    )
    names = {
        name: f"<http://www.example.org/entity/Q{n}>"
        for n, name in enumerate(dict.fromkeys(r[k] for r in rows for k in (0, 2)))
    }
    label = "<http://www.w3.org/2000/01/rdf-schema#label>"
    quads = [f"{iri} {label} {json.dumps(name, ensure_ascii=False)}@zh .\n" for name, iri in names.items()]
    quads += [f"{names[s]} <http://www.example.org/prop/P1> {names[o]} .\n" for s, _, o in rows]
    return {
        "a.spo": text.encode() * 40,
        "a.csv": table.getvalue().encode(),
        "a.nt": "".join(quads).encode() * 2,
        "conceptnet-assertions.csv": "".join(assertions).encode() * 8,
    }


@pytest.mark.parametrize("name", BARS)
def test_triples_against_bare_reading(files: dict[str, bytes], name: str) -> None:
    data = files[name]

    def bare() -> None:
        stream = io.BytesIO(data)
        while block := stream.read(lines.BLOCK_BYTES):
            np.flatnonzero(np.frombuffer(block, np.uint8) == 10)

    def ours() -> None:
        options, read = ReadOptions(language="zh"), ReadCounts()
        for _ in read_tables(
            [name], print, options=options, counts=read, open_binary=lambda _: io.BytesIO(data)
        ):
            pass
        counts.append(read)

    counts: list[ReadCounts] = []
    seconds, least = _seconds(ours), _seconds(bare)
    total = counts[0].read
    print(
        f"\n{name}: {total:,} read, {total / seconds / 1e6:.2f} million a second, "
        f"{len(data) / seconds / 1e6:.0f} MB/s, {seconds / least:.1f} times bare reading"
    )
    assert counts[0].triples > total / 3
    assert seconds / least < BARS[name]
