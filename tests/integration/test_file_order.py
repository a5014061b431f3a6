"""The order in which files of a split are read changes where rows lie, not what they hold.

A row is a function of its own document, the config and the graph. The one exception is by design: the
random second segment of a pretraining pair comes from the documents of the same block, and which those are
follows from the files that are read together; its pairs are left out here (`random_next: 0`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from corpora.schema import read_metadata
from corpora.shards import open_shard
from tests.integration.running import preprocess
from tests.integration.test_cli import SAMPLES, rows_of

ORDERS = [["a", "b", "c"], ["c", "b", "a"]]


def write_files(folder: Path, lines: list[str], header: list[str], suffix: str) -> None:
    """Three files of about the same size."""
    for name, part in (("a", lines[:6]), ("b", lines[6:12]), ("c", lines[12:18])):
        (folder / f"{name}{suffix}").write_text("\n".join([*header, *part]) + "\n", encoding="utf-8")


def rows_in_order(
    folder: Path, sample: str, order: list[str], suffix: str, **changes: Any
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Rows of the split `train` in the order written, and their schema metadata."""
    config = yaml.safe_load((SAMPLES / f"{sample}.yaml").read_text(encoding="utf-8"))
    config["input"]["files"] = {"train": [f"{name}{suffix}" for name in order]}
    config["encode"] |= {
        "tokenizer": str(SAMPLES / "vocab.txt"),
        "coarse": {"vocab": str(SAMPLES / "coarse_vocab.txt")},
        **changes,
    }
    config["graph"]["triples"] = str(SAMPLES / "graph.spo")
    if "syntax" not in config["encode"]["columns"]:
        config["annotate"] = {"parser": "none"}
    total = sum(path.stat().st_size for path in folder.glob(f"*{suffix}"))
    config["run"] = {"block_bytes": 3 * total // 4}  # two files make a block: a and b, or c and b
    out = preprocess(folder, "".join(order), config)
    first, *others = sorted(out.glob("train-*.arrow"))
    assert others, "one block would say nothing about what blocks hold"
    return rows_of(out, "train"), read_metadata(open_shard(str(first)).schema)


UNPARSED = {"columns": ["coarse", "tree"], "max_length": 48}
CASES = [
    ("zh-reviews", "zh/reviews.tsv", ".tsv", {}),
    ("zh-ner", "zh/ner.train.tsv", ".tsv", UNPARSED),
    ("zh-pretrain", "zh/pretrain.txt", ".txt", UNPARSED | {"pretrain": {"random_next": 0, "duplicates": 2}}),
]


@pytest.mark.parametrize(("sample", "source", "suffix", "changes"), CASES, ids=["classify", "tag", "pairs"])
def test_file_order_changes_no_row(
    sample: str, source: str, suffix: str, changes: dict[str, Any], tmp_path: Path
) -> None:
    # Documents for pretraining are parted by blank lines, which a file's end does as well.
    parted = suffix == ".txt"
    body = (SAMPLES / source).read_text(encoding="utf-8").strip("\n").split("\n\n" if parted else "\n")
    header = [] if parted else [body.pop(0)]
    write_files(tmp_path, [text + "\n" * parted for text in body], header, suffix)
    (first, facts), (rows, found) = (
        rows_in_order(tmp_path, sample, order, suffix, **changes) for order in ORDERS
    )
    expected = {row["id"]: row for row in first}
    assert len(expected) == len(first) >= 18 and any(row["branch_triples"] for row in first)
    assert [row["id"] for row in rows] != [row["id"] for row in first]
    assert len(rows) == len(first) and {row["id"]: row for row in rows} == expected
    for key in ("labels", "deprels", "special_ids", "graph", "max_length"):
        assert found[key] == facts[key]
