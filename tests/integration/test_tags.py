"""Tagged corpora through both stages: predictions on trees go back to exactly the source tokens."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from corpora.schema import read_metadata
from corpora.shards import open_shard
from corpora.trunk import decode_tags, to_tree
from corpora.verify import verify
from tests.integration.running import preprocess
from tests.integration.test_cli import SAMPLES, rows_of
from tests.warm import treegraft


def label_names(folder: Path) -> list[str]:
    shard = next(iter(sorted(folder.glob("*.arrow"))))
    return list(read_metadata(open_shard(str(shard)).schema)["labels"])


def test_c02_labels_versus_injected_knowledge_tokens(tmp_path: Path) -> None:
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"北京好首都年", "20", "##20"]
    (tmp_path / "vocab.txt").write_text("\n".join(tokens) + "\n", encoding="utf-8")
    (tmp_path / "g.spo").write_text("北京\t类别\t首都\n", encoding="utf-8")
    source = [("北 京 好", "B-LOC I-LOC O"), ("2020 年", "B-TIME I-TIME")]
    lines = ["text\tlabel", *("\t".join(pair) for pair in source)]
    (tmp_path / "train.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    config = {
        "task": "tag",
        "language": "zh",
        "input": {"format": "tsv", "label": "label", "files": {"train": "train.tsv"}},
        "annotate": {"parser": "none"},
        "encode": {"tokenizer": "vocab.txt", "max_length": 16, "columns": ["tree"]},
        "graph": {"triples": "g.spo"},
    }
    folder = preprocess(tmp_path, "c02", config)
    rows, names = rows_of(folder, "train"), label_names(folder)

    on_tree = [to_tree(row["tree_trunk_index"], row["token_labels"]).tolist() for row in rows]
    said = [[names[i] if i >= 0 else "[ENT]" for i in labels] for labels in on_tree]
    assert [tokens[i] for i in rows[0]["tree_ids"]] == ["[CLS]", *"北京首都好", "[SEP]"]
    assert said[0][1:-1] == ["B-LOC", "I-LOC", "[ENT]", "[ENT]", "O"]
    assert [int(label != -100) for label in on_tree[0][1:-1]] == [1, 1, 0, 0, 1]
    assert [tokens[i] for i in rows[1]["tree_ids"]] == ["[CLS]", "20", "##20", "年", "[SEP]"]
    assert said[1][1:-1] == ["B-TIME", "[ENT]", "I-TIME"]
    for labels, (text, _) in zip(on_tree, source, strict=True):
        assert sum(label != -100 for label in labels) == len(text.split(" "))

    # A model that takes the injected tokens for parts of the entity, and the rest at its word.
    predicted = ["O", "B-LOC", "I-LOC", "I-LOC", "I-LOC", "O", "O"]
    decoded = decode_tags(rows[0], predicted)
    entity = [t for t in decoded if t.label != "O"]
    assert [t.label for t in entity] == ["B-LOC", "I-LOC"]
    assert (entity[0].start, entity[-1].stop, "".join(t.text for t in entity)) == (0, 2, "北京")
    assert [tuple(t[2:]) for t in decode_tags(rows[1], ["O", "B-TIME", "X", "I-TIME", "O"])] == [
        ("2020", "B-TIME"),
        ("年", "I-TIME"),
    ]


RECIPE = """\
model: kbert
task: tag
new: {layers: 1, width: 32, heads: 4}
data: {folder: out/labelled, split: train}
batch: {rows: 8}
optim: {lr: 1e-3, steps: 2}
threads: 1
out: out/run
"""


def test_columns_of_tokens_without_labels_get_predictions(tmp_path: Path) -> None:
    """A test set in CoNLL's columns, in a folder of its own, by the real commands."""
    raw = (SAMPLES / "zh/ner.dev.tsv").read_text(encoding="utf-8").splitlines()[1:]
    rows = [[part.split(" ") for part in line.split("\t")] for line in raw]
    for name, with_labels in (("labelled", True), ("bare", False)):
        said = ("\n".join(" ".join(pair[: 1 + with_labels]) for pair in zip(*r, strict=True)) for r in rows)
        (tmp_path / f"{name}.conll").write_text("\n\n".join(said) + "\n", encoding="utf-8")
        config = {
            "task": "tag",
            "language": "zh",
            "input": {"format": "conll", "files": {"train" if with_labels else "test": f"{name}.conll"}},
            "annotate": {"parser": "none"},
            "encode": {"tokenizer": str(SAMPLES / "vocab.txt"), "columns": ["tree"]},
            "graph": {"triples": str(SAMPLES / "graph.spo")},
        }
        if not with_labels:
            config["input"] |= {"label_optional": True}
            config["encode"] |= {"labels": label_names(tmp_path / "out/labelled")}
        (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump(config, allow_unicode=True), encoding="utf-8")
        done = treegraft("preprocess", f"{name}.yaml", "--workers", "1", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    assert verify(str(tmp_path / "out/bare")).ok
    with_labels, bare = rows_of(tmp_path / "out/labelled", "train"), rows_of(tmp_path / "out/bare", "test")
    for one, other in zip(with_labels, bare, strict=True):
        assert set(other["token_labels"]) == {-100} != set(one["token_labels"])
        same = set(one) - {"id", "token_labels"}
        assert {k: one[k] for k in same} == {k: other[k] for k in same}

    (tmp_path / "recipe.yaml").write_text(RECIPE, encoding="utf-8")
    evaluation = ("evaluate", "recipe.yaml", "--set", "data.folder=out/bare", "--split", "test")
    for words in (("finetune", "recipe.yaml"), evaluation):
        done = treegraft(*words, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    assert "no scores, for no row has a label" in done.stdout
    lines = (tmp_path / "out/run/eval-test/predictions.jsonl").read_text(encoding="utf-8").splitlines()
    for line, (tokens, _) in zip(map(json.loads, lines), rows, strict=True):
        spans = zip(line["starts"], line["stops"], strict=True)
        assert [line["text"][a:b] for a, b in spans] == tokens
        assert len(line["predicted"]) == len(tokens) and line["labels"] == [None] * len(tokens)


def medical(real_data: Path, folder: Path, splits: list[str], max_length: int) -> Path:
    config = {
        "task": "tag",
        "language": "zh",
        "input": {
            "format": "tsv",
            "text": "text_a",
            "label": "label",
            "files": {split: str(real_data / f"kbert/medical_ner/{split}.tsv") for split in splits},
        },
        "annotated": str(folder / "annotated"),  # one for all lengths
        "annotate": {"parser": "none"},
        "encode": {
            "tokenizer": str(real_data / "bert/bert-base-chinese-vocab.txt"),
            "max_length": max_length,
            "columns": ["tree"],
        },
        "graph": {"triples": str(real_data / "kg/Medical.spo"), "max_length": 2 * max_length},
        "run": {"max_reject_fraction": 0.01},
    }
    return preprocess(folder, f"medical-{max_length}", config)


def check_decoding(real_data: Path, folder: Path, splits: list[str], max_length: int) -> dict[str, int]:
    """Every row's tree labels, with something else on branches, decode to the line that it came from."""
    names = label_names(folder)
    seen = {"rows": 0, "branches": 0, "cut": 0, "lost": 0}
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    for split in splits:
        raw = (real_data / f"kbert/medical_ner/{split}.tsv").read_bytes()
        rows = rows_of(folder, split)
        places = [int(row["id"].rpartition("@")[2].removesuffix("#0")) for row in rows]
        assert len(set(places)) == len(rows)
        assert len(rows) + sum(manifest["splits"][split]["rejects"].values()) == raw.count(b"\n") - 1
        for row, place in zip(rows, places, strict=True):
            text, labels = raw[place : raw.index(b"\n", place)].decode().removesuffix("\r").split("\t")
            # A run of spaces separates like one.
            source = [*zip(text.split(), labels.split(), strict=True)]
            of_tree = to_tree(row["tree_trunk_index"], row["token_labels"]).tolist()
            predicted = [names[label] if label >= 0 else "B-WRONG" for label in of_tree]
            decoded = decode_tags(row, predicted)
            assert [(t.text, t.label) for t in decoded] == source[: len(decoded)], row["id"]
            assert all(row["text"][t.start : t.stop] == t.text for t in decoded)
            if len(decoded) < len(source):
                # Nothing more would have fitted: one source token is at most a word of pieces.
                seen["cut"] += 1
                seen["lost"] += len(source) - len(decoded)
                assert len(row["input_ids"]) > max_length - len(source[len(decoded)][0]) - 2
            seen["rows"] += 1
            seen["branches"] += len(row["branch_triples"])
    totals = [manifest["splits"][split]["counters"] for split in splits]
    assert seen["cut"] == sum(c.get("truncated_rows", 0) for c in totals)
    assert seen["lost"] == sum(c.get("labels_truncated", 0) for c in totals)
    assert verify(str(folder)).ok
    return seen


def test_medical_entities_come_back(tmp_path: Path, real_data: Path) -> None:
    for max_length, many in ((256, False), (32, True)):
        folder = medical(real_data, tmp_path, ["dev"], max_length)
        seen = check_decoding(real_data, folder, ["dev"], max_length)
        assert seen["branches"] > 100
        assert (seen["cut"] > 100) == many


@pytest.mark.heavy
def test_all_medical_entities_come_back(tmp_path: Path, real_data: Path) -> None:
    splits = ["train", "dev", "test"]
    seen = check_decoding(real_data, medical(real_data, tmp_path, splits, 256), splits, 256)
    assert seen["rows"] > 5000 and seen["branches"] > 1000
