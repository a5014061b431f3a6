"""`verify` asks the coarse vocabulary and the tokenizer beside the shards what every coarse token says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from corpora.manifest import SplitRecord, read_manifest, write_manifest
from corpora.shards import ShardWriter, open_shard, size_and_hash
from corpora.verify import verify
from corpora.verify.coarse_text import Covered
from pipelines.recoarse import Recoarse
from tests.pipelines.annotated import config_of, document, encode

SPECIALS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
NAMES = [*SPECIALS, "new york", "new", "york", "Café", "unheardofing", "北京", "好", "##ing"]
ID = {name: number for number, name in enumerate(NAMES)}
TEXT = "New  York CAFE unheardofing 北京好"


def made(folder: Path, task: str = "pretrain", **fields: Any) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "coarse.txt").write_text("\n".join(NAMES), encoding="utf-8")
    (folder / "phrases.txt").write_text("new york\n", encoding="utf-8")
    coarse = {"vocab": str(folder / "coarse.txt"), "phrases": str(folder / "phrases.txt")}
    section: dict[str, Any] = {"coarse": coarse}
    if task == "pretrain":
        section["pretrain"] = {"segments": "single"}
    config = config_of(task, groups=["coarse"], max_length=fields.pop("max_length", 32), encode=section)
    run = encode(folder, config, [document("a", fields.pop("text", TEXT), **fields)], labels=fields and ["x"])
    assert run.report.ok, run.report.render()
    return run.folder


def change(folder: Path, edit: Callable[[dict[str, Any]], None]) -> None:
    """Rewrite the one shard with its first row changed, and the manifest to fit."""
    (path,) = folder.glob("*.arrow")
    table = open_shard(str(path)).read_all()
    rows = table.to_pylist()
    edit(rows[0])
    with ShardWriter(str(path), table.schema) as shard:
        shard.write(pa.Table.from_pylist(rows, schema=table.schema))
    manifest = read_manifest(str(folder))
    size, digest = size_and_hash(str(path))
    records = [
        r.model_copy(update={"bytes": size, "sha256": digest}) for r in manifest.splits["train"].shards
    ]
    write_manifest(str(folder), manifest.model_copy(update={"splits": {"train": SplitRecord.of(records)}}))


def found(folder: Path) -> list[str]:
    report = verify(str(folder), coarse_text=Recoarse(str(folder)))
    assert set(report.rule_counts) <= {"coarse_text"}, report.render()
    return [problem.detail for problem in report.problems]


@pytest.mark.parametrize(
    ("at", "name", "said"),
    [
        (1, "北京", "New  York"),
        (1, "new", "New  York"),
        (2, "york", "CAFE"),  # what stands beside it
        (2, "好", "CAFE"),
        (3, "##ing", "unheardofing"),
        (4, "好", "北京"),
    ],
)
def test_another_coarse_token_is_found(tmp_path: Path, at: int, name: str, said: str) -> None:
    folder = made(tmp_path)
    assert found(folder) == []

    def edit(row: dict[str, Any]) -> None:
        assert [NAMES[i] for i in row["coarse_ids"]] == [
            "[CLS]",
            "new york",
            "Café",
            "unheardofing",
            "北京",
            "好",
            "[SEP]",
        ]
        row["coarse_ids"][at] = ID[name]

    change(folder, edit)
    (detail,) = found(folder)
    assert f"coarse token {at} (id {ID[name]}) covers {said!r}" in detail


def test_fine_tokens_that_reach_over_the_ends_of_words(tmp_path: Path) -> None:
    """Words of the annotation end where the tokenizer's pieces do not."""
    covered = Covered(
        ["I cannot do"],
        np.array([0, 1]),
        *(np.array([n]) for n in (0, 2, 2, 8, 0, 11, -1)),
        np.zeros(1, bool),
    )
    folder = made(tmp_path)

    def right(name: str, **fields: int) -> bool:
        (folder / "coarse_tokens.txt").write_text("\n".join([name, *NAMES[1:]]) + "\n", encoding="utf-8")
        changed = {key: np.array([value]) for key, value in fields.items()}
        return bool(Recoarse(str(folder))(replace(covered, **changed))[0])

    assert right("cannot") and right("can") and not right("not") and not right("do")
    assert right("can do", lasts=9, stops=11)  # not, a word without a token of its own, is none of the unit's
    assert not right("can", lasts=9, stops=11) and not right("do can", lasts=9, stops=11)
    assert right("not", starts=6, lasts=6)  # covers "ot"


def test_unknown_says_nothing_and_a_cut_word_a_part(tmp_path: Path) -> None:
    folder = made(tmp_path / "cut", "classify", text="好 " * 5 + "unheardofing", label="x", max_length=8)
    assert found(folder) == []
    change(folder, lambda row: row["coarse_ids"].__setitem__(2, ID["[UNK]"]))
    assert found(folder) == []


def test_what_is_missing_is_left_out_and_what_does_not_fit_is_said(tmp_path: Path) -> None:
    folder = made(tmp_path)
    change(folder, lambda row: row["coarse_ids"].__setitem__(2, ID["好"]))
    assert len(found(folder)) == 1
    names = (folder / "coarse_tokens.txt").read_bytes()
    (folder / "coarse_tokens.txt").write_bytes(b"[PAD]\n")
    assert "coarse_tokens.txt has 1 tokens, the dataset's vocabulary has 13" in found(folder)[0]
    (folder / "coarse_tokens.txt").unlink()
    assert found(folder) == []
    (folder / "coarse_tokens.txt").write_bytes(names)
    (folder / "tokenizer.json").write_bytes(b"{}")
    assert "cannot be compared" in found(folder)[0]
