"""`verify` asks the graph and the tokenizer beside the shards what every branch should be."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from corpora.verify import verify
from kg.compile import compile_graph
from kg.graph import KnowledgeGraph
from pipelines import flow
from pipelines.config import load_config
from pipelines.encode.tokenizer import load_tokenizer
from pipelines.options import Options
from pipelines.retokenize import Retokenizer
from tests.integration.test_cli import SAMPLES, rows_of, small_config


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("corpus")
    changes = {"encode": {"columns": ["tree"]}, "annotate": {"parser": "none"}, "graph": {"predicate": True}}
    config = small_config(folder, **changes)
    body = config.read_text(encoding="utf-8").replace(
        "  coarse:\n    vocab: " + str(SAMPLES / "coarse_vocab.txt"), ""
    )
    config.write_text(body, encoding="utf-8")
    out = str(folder / "out")
    flow.preprocess(load_config(config), str(config), Options(out=out, annotated=f"{out}/annotated"))
    return folder / "out"


@pytest.fixture
def dataset(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "d"))


def broken(folder: Path, rule: str = "branch_tokens") -> tuple[int, str]:
    """How often the rule on branches, or `rule`, is broken, and the first detail; no other may be."""
    report = verify(str(folder), branch_tokens=Retokenizer(str(folder)))
    assert set(report.rule_counts) <= {rule}
    return report.rule_counts.get(rule, 0), next((p.detail for p in report.problems), "")


def test_a_dataset_is_its_own_proof(dataset: Path) -> None:
    assert broken(dataset) == (0, "")
    triples = np.unique([t for row in rows_of(dataset, "train") for t in row["branch_triples"]])
    assert len(triples) > 3
    tokens_of = Retokenizer(str(dataset))
    ids, offsets = tokens_of(triples)
    for again in (triples, triples[1::2], triples[:0]):  # kept or not, the answer is the same
        fresh, kept = Retokenizer(str(dataset))(again), tokens_of(again)
        assert [a.tolist() for a in fresh] == [a.tolist() for a in kept]
    tokenizer = load_tokenizer(str(SAMPLES / "vocab.txt"))
    graph = KnowledgeGraph.open(dataset / "graph")
    for number, triple in enumerate(triples.tolist()):
        text = f"{graph.predicate(triple)} {graph.object(triple)}"
        assert ids[offsets[number] : offsets[number + 1]].tolist() == tokenizer.encode_ids([text])[0].tolist()


@pytest.mark.parametrize("name", ["tokenizer.json", "graph"])
def test_what_is_missing_breaks_the_rule_and_is_named(dataset: Path, name: str) -> None:
    path = dataset / name
    path.unlink() if path.is_file() else shutil.rmtree(path)
    count, detail = broken(dataset, "graph")
    assert count == 1
    assert "cannot be compared" in detail and name in detail


def test_another_graph_another_tokenizer_and_edited_files_are_seen(dataset: Path, tmp_path: Path) -> None:
    graph = tmp_path / "graph"
    shutil.copytree(dataset / "graph", graph)
    (tmp_path / "other.spo").write_text("北京\t类别\t城市\n", encoding="utf-8")
    compile_graph([str(tmp_path / "other.spo")], dataset / "graph")
    assert "not the graph that the rows were made with" in broken(dataset, "graph")[1]

    shutil.rmtree(dataset / "graph")
    shutil.copytree(graph, dataset / "graph")
    objects = dataset / "graph/object_bytes.npy"
    raw = objects.read_bytes()
    objects.write_bytes(raw[:-1] + bytes([raw[-1] ^ 1]))
    count, detail = broken(dataset, "graph")
    assert count == 1 and "was changed after it was compiled" in detail

    shutil.rmtree(dataset / "graph")
    shutil.copytree(graph, dataset / "graph")
    assert broken(dataset) == (0, "")
    body = json.loads((dataset / "tokenizer.json").read_text(encoding="utf-8"))
    vocab = body["model"]["vocab"]
    rows = rows_of(dataset, "train")
    used = [i for r in rows for i, b in zip(r["tree_ids"], r["tree_branch"], strict=True) if b]
    one = next(t for t, i in vocab.items() if i == used[0])
    other = next(t for t, i in vocab.items() if i > 200 and i not in used and not t.startswith("##"))
    vocab[one], vocab[other] = vocab[other], vocab[one]  # the sizes stay
    (dataset / "tokenizer.json").write_text(json.dumps(body, ensure_ascii=False), encoding="utf-8")
    wrong, detail = broken(dataset)
    assert wrong > 0 and "its triple" in detail
