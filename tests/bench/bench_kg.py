"""What looking up a knowledge graph and growing sentence trees cost, beside what cannot be done without.

- Finding mentions over characters, against one numpy gather a character from a table as large as the
  graph's hash table, where equal pairs of characters look at equal places: the bare limit of any
  search that looks anything up.
- Mentions, trees and flattening of rows that are tokenized and segmented, against bare
  `tokenizers.encode_batch` of the same texts; and the bytes of structure a row against the paper's
  matrix of L*L floats.

One process, CPU time, the two taken in turns so that a busy machine slows both. The large graph is
`TREEGRAFT_BENCH_GRAPH`, a compiled folder or a file of triples (`python -m tests.bench.graphs` makes
one of 3 million subjects); without it a tenth of that is made, which fits the caches better.

Measured on 1.3 million characters of reviews, on a machine busy with other work: HowNet 19 to 21 million
characters a CPU second, 17 to 22 times the gather; 3 million subjects 9 million, 17 times. Trees take
0.07 to 0.09 times encode_batch with HowNet (67,000 to 86,000 rows a CPU second), 0.19 to 0.28 times with
10 million triples (21,000 to 35,000 rows, 7 to 17 branches each). Structure takes 665 to 1,910 bytes a
row, the matrix of floats 123 to 622 times that.
"""

from __future__ import annotations

import gc
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jieba
import numpy as np
import pytest
from tokenizers import Encoding, Tokenizer

from kg import GraftPolicy, KnowledgeGraph, TreeBuilder, Trees, Trunks, compile_graph
from kg.match import Matcher
from kg.tree.rows import Words
from tests.bench.bench_encode import load_bare
from tests.bench.graphs import write_graph

pytestmark = pytest.mark.bench

ROUNDS = 5
ROWS = 4000
BLOCK = 1000


def cpu(work: Callable[[], Any]) -> float:
    gc.collect()
    start = time.process_time()
    work()
    return time.process_time() - start


def in_turns(ours: Callable[[], Any], bare: Callable[[], Any]) -> tuple[float, float, float]:
    """(median ratio, least seconds of ours, least seconds of bare), both warm."""
    ours()
    bare()
    pairs = [(cpu(ours), cpu(bare)) for _ in range(ROUNDS)]
    return statistics.median(a / b for a, b in pairs), min(a for a, _ in pairs), min(b for _, b in pairs)


@pytest.fixture(scope="module")
def reviews(real_data: Path) -> list[str]:
    lines = [
        line
        for part in ("train", "dev", "test")
        for line in (real_data / f"kbert/chnsenticorp/{part}.tsv").read_text("utf-8").split("\n")[1:]
    ]
    return [line.split("\t", 1)[1] for line in lines if line]


@pytest.fixture(scope="module")
def hownet(real_data: Path, tmp_path_factory: pytest.TempPathFactory) -> KnowledgeGraph:
    return compiled(tmp_path_factory.mktemp("hownet") / "graph.kg", real_data / "kg/HowNet.spo")


@pytest.fixture(scope="module")
def both(real_data: Path, tmp_path_factory: pytest.TempPathFactory) -> KnowledgeGraph:
    files = [real_data / f"kg/{name}.spo" for name in ("HowNet", "Medical")]
    return compiled(tmp_path_factory.mktemp("both") / "graph.kg", *files)


@pytest.fixture(scope="module")
def large(real_data: Path, tmp_path_factory: pytest.TempPathFactory) -> KnowledgeGraph:
    folder = tmp_path_factory.mktemp("large")
    given = os.environ.get("TREEGRAFT_BENCH_GRAPH")
    if given and Path(given).is_dir():
        return KnowledgeGraph.open(Path(given))
    triples = Path(given) if given else folder / "large.spo"
    if not given:
        write_graph(triples, 300_000, 1_000_000)
    return compiled(folder / "graph.kg", triples)


def compiled(folder: Path, *files: Path) -> KnowledgeGraph:
    compile_graph([str(file) for file in files], folder)
    return KnowledgeGraph.open(folder)


# --- mentions alone -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["hownet", "both", "large"])
def test_mentions_against_one_gather_a_character(
    name: str, reviews: list[str], request: pytest.FixtureRequest
) -> None:
    graph: KnowledgeGraph = request.getfixturevalue(name)
    matcher: Matcher = graph.matcher(2)
    table = np.load(graph.folder / "automaton_edges.npy", mmap_mode="r")
    places = first_looks(reviews, len(table))
    found = len(matcher.longest(reviews).starts)

    ratio, mine, bare = in_turns(lambda: matcher.longest(reviews), lambda: table.take(places))
    characters = sum(map(len, reviews))
    print(
        f"\nmentions, {name} ({graph.info.subjects:,} subjects, table of {table.nbytes / 1e6:.0f} MB): "
        f"{characters / mine / 1e6:.1f} million characters a CPU second, {found:,} mentions; "
        f"{ratio:.0f} times one gather a character ({characters / bare / 1e6:.0f} million a second)"
    )
    assert found


def first_looks(texts: list[str], slots: int) -> np.ndarray:
    """A slot, int64, for each character and the one behind it: equal pairs look at equal places."""
    codes = np.frombuffer("".join([*texts, "\0"]).encode("utf-32-le"), np.uint32).astype(np.uint64)
    mixed = codes[:-1] * np.uint64(0x9E3779B97F4A7C15) + codes[1:] * np.uint64(0xC2B2AE3D27D4EB4F)
    return ((mixed >> np.uint64(32)) * np.uint64(slots) >> np.uint64(32)).astype(np.int64)


# --- mentions, trees and flattening -----------------------------------------------------------------


@pytest.mark.parametrize("max_length", [128, 256])
@pytest.mark.parametrize("match", ["longest", "words"])
@pytest.mark.parametrize("name", ["hownet", "large"])
def test_trees_against_bare_tokenizer(
    name: str,
    match: str,
    max_length: int,
    reviews: list[str],
    real_data: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    monkeypatch.setitem(os.environ, "TOKENIZERS_PARALLELISM", "false")
    graph: KnowledgeGraph = request.getfixturevalue(name)
    texts = reviews[:ROWS]
    tokenizer = load_bare(real_data / "bert/bert-base-chinese-vocab.txt")
    blocks = [
        trunks_of(texts[first : first + BLOCK], tokenizer, max_length) for first in range(0, ROWS, BLOCK)
    ]
    policy = GraftPolicy(match=match, max_length=max_length, max_positions=max_length)  # type: ignore[arg-type]
    builder = TreeBuilder(graph, policy, tokenize_with(tokenizer))

    def ours() -> list[Trees]:
        return [builder.build(block) for block in blocks]

    first = cpu(ours)
    ratio, mine, _ = in_turns(ours, lambda: tokenizer.encode_batch(texts, add_special_tokens=False))
    trees = ours()
    branches = sum(len(block.branch_triples) for block in trees)
    print(
        f"\ntrees, {name}, {match}, max_length {max_length}: {ratio:.2f} times bare encode_batch; "
        f"{ROWS / mine:,.0f} rows a CPU second (the first time {ROWS / first:,.0f}), "
        f"{branches / ROWS:.1f} branches a row"
    )
    structure = sum(map(structure_bytes, trees)) / ROWS
    matrix = 8 * max_length**2
    print(
        f"structure: {structure:,.0f} bytes a row, its matrix of floats {matrix / structure:,.0f} times that"
    )
    assert branches


def structure_bytes(trees: Trees) -> int:
    """Bytes of what describes the trees in a shard; ids and segments of tokens are there without trees too."""
    columns = (trees.soft_positions, trees.branch, trees.mention, trees.trunk_index)
    return sum(column.nbytes for column in (*columns, trees.branch_triples, trees.branch_parents))


def tokenize_with(tokenizer: Tokenizer) -> Callable[[list[str]], tuple[np.ndarray, np.ndarray]]:
    def tokenize(texts: list[str]) -> tuple[np.ndarray, np.ndarray]:
        ids = [encoding.ids for encoding in tokenizer.encode_batch(texts, add_special_tokens=False)]
        flat = np.fromiter((token for row in ids for token in row), np.int32)
        return flat, np.cumsum([0, *map(len, ids)]).astype(np.int64)

    return tokenize


def trunks_of(texts: list[str], tokenizer: Tokenizer, max_length: int) -> Trunks:
    """[CLS], the tokens of each text as far as they fit, [SEP]; its words by jieba."""
    cls, sep = tokenizer.token_to_id("[CLS]"), tokenizer.token_to_id("[SEP]")
    rows = [
        row_of(encoding, cls, sep, max_length - 2)
        for encoding in tokenizer.encode_batch(texts, add_special_tokens=False)
    ]
    ids, starts, stops, special = (
        np.concatenate([row[k] for row in rows]).astype(dtype)
        for k, dtype in enumerate((np.int32, np.int32, np.int32, np.bool_))
    )
    offsets = np.cumsum([0, *(len(row[0]) for row in rows)]).astype(np.int64)
    words = [list(jieba.cut(text)) for text in texts]
    ends = [np.cumsum([0, *map(len, row)]) for row in words]
    segmented = Words(
        np.concatenate([row[:-1] for row in ends]).astype(np.int32),
        np.concatenate([row[1:] for row in ends]).astype(np.int32),
        np.cumsum([0, *map(len, words)]).astype(np.int64),
    )
    types = np.zeros(len(ids), np.int8)
    pairs = [None] * len(texts)
    return Trunks(offsets, ids, types, starts, stops, special, (texts, pairs), (segmented, None))


def row_of(encoding: Encoding, cls: int, sep: int, room: int) -> tuple[list[int], ...]:
    spans = encoding.offsets[:room]
    ids = [cls, *encoding.ids[:room], sep]
    starts = [0, *(start for start, _ in spans), 0]
    stops = [0, *(stop for _, stop in spans), 0]
    return ids, starts, stops, [1, *[0] * len(spans), 1]
