from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from corpora.layout import InputConfig
from pipelines.config import load_config
from pipelines.encode.advice import pretrain_warnings, unused_phrases, warnings
from pipelines.encode_config import PretrainConfig
from tests.pipelines.annotated import SAMPLES, config_of, document, encode
from tests.pipelines.test_pretrain import Documents, assemble


def warnings_of(documents: Documents, source: dict[str, str] | None = None, **options: Any) -> list[str]:
    layout = InputConfig(files={"train": ["x"]}, **{"format": "text"} | (source or {}))  # type: ignore[arg-type]
    counters = assemble(documents, **options).counters + Counter(records=len(documents))
    return pretrain_warnings(counters, PretrainConfig(**options), layout)


def test_c21_a_corpus_of_single_sentences_is_warned_about() -> None:
    (lone,) = warnings_of([[2], [2], [2]])
    assert "3 of 3 documents are a single sentence" in lone and "input.document" in lone
    assert "every pair needs another document" in lone and "segments to 'single'" in lone
    assert warnings_of([[2, 3, 2]] * 3) == []
    (single,) = warnings_of([[2, 3, 2, 5, 3, 9]])
    assert "blocks that hold one document only" in single
    assert warnings_of([]) == []


@pytest.mark.parametrize(
    ("source", "advice"),
    [
        ({}, "set input.document to 'file'."),
        ({"document": "line"}, "set input.document to 'blank_line' or 'file'."),
        ({"document": "file"}, "no row is longer than its sentence."),
        (
            {"format": "conllu"},
            "set input.document to 'newdoc' if the treebank has `# newdoc` lines, else to 'file'.",
        ),
        ({"format": "conllu", "document": "newdoc"}, "set input.document to 'file'."),
        ({"format": "jsonl"}, "join the sentences of a document in one record."),
    ],
)
def test_advice_is_what_config_and_format_leave_to_do(source: dict[str, str], advice: str) -> None:
    (said,) = warnings_of([[2], [2], [2]], source, segments="single")
    assert said.endswith(advice)
    assert "pair" not in said and "segments" not in said
    (said,) = warnings_of([[2], [2], [2]], source)
    assert said.endswith("set encode.pretrain.segments to 'single'.")
    (said,) = warnings_of([[2], [2], [2]], source, random_next=0.0)
    assert "no pair can be made of those" in said


def test_a_vocabulary_of_phrases_without_a_lexicon_is_warned_about(tmp_path: Path) -> None:
    (tmp_path / "v.txt").write_text("[UNK]\r\nnew\r\nnew york\r\n los \nin fact\n", encoding="utf-8")
    path, coarse = str(tmp_path / "c.yaml"), {"vocab": "v.txt"}
    config = config_of("pretrain", groups=["coarse"], encode={"coarse": coarse}, language="en")
    (said,) = unused_phrases(config, path)
    assert said.startswith("2 entries of v.txt are of several words") and "encode.coarse.phrases" in said
    more = {**coarse, "phrases": "p.tsv"}
    named = config_of("pretrain", groups=["coarse"], encode={"coarse": more}, language="en")
    assert unused_phrases(named, path) == []
    (tmp_path / "v.txt").write_text("[UNK]\nnew\n", encoding="utf-8")
    assert unused_phrases(config, path) == unused_phrases(config_of("pretrain"), path) == []


def test_chinese_is_warned_of_chinese_phrases_alone(tmp_path: Path) -> None:
    (tmp_path / "v.txt").write_text("[UNK]\n北京\nnew york\n", encoding="utf-8")
    path, coarse = str(tmp_path / "c.yaml"), {"vocab": "v.txt"}
    config = config_of("pretrain", groups=["coarse"], encode={"coarse": coarse}, language="zh-Hans")
    assert unused_phrases(config, path) == []
    (tmp_path / "v.txt").write_text("[UNK]\n北京\nnew york\n北京 大学\n", encoding="utf-8")
    (said,) = unused_phrases(config, path)
    assert said.startswith("1 entries of v.txt are of several words")


@pytest.mark.parametrize("path", sorted(SAMPLES.glob("*.yaml")), ids=lambda path: path.stem)
def test_no_sample_is_warned_about(path: Path) -> None:
    assert unused_phrases(load_config(path), str(path)) == []


def test_rows_that_were_mostly_cut_name_the_key(tmp_path: Path) -> None:
    config = config_of("classify", max_length=8)
    short, long = document("a", "很好", label="a"), document("b", "我们在北京看书很高兴", label="a")
    half = encode(tmp_path / "half", config, [short, long], labels=["a"])
    assert warnings(config, "c.yaml", "out", half.counters) == []
    most = encode(tmp_path / "most", config, [short, long, long | {"doc_id": "c"}], labels=["a"])
    (said,) = warnings(config, "c.yaml", "out", most.counters)
    assert said.startswith("2 of 3 rows lost tokens to encode.max_length = 8")
    assert warnings(config_of("span", max_length=8), "c.yaml", "out", most.counters) == []


def test_branches_that_the_vocabulary_cannot_say_are_counted_and_warned_about(tmp_path: Path) -> None:
    config = config_of("classify", groups=["tree"])
    texts = [document("a", "北京很好", label="a"), document("b", "我们看书", label="a")]
    known = encode(tmp_path / "known", config, texts, labels=["a"], triples="北京\t是\t中国首都\n")
    assert (known.counters["branch_tokens"], known.counters["unknown_branch_tokens"]) == (4, 0)
    assert warnings(config, "c.yaml", "out", known.counters) == []
    strange = encode(tmp_path / "strange", config, texts, labels=["a"], triples="北京\t是\t龘靐国\n")
    assert (strange.counters["branch_tokens"], strange.counters["unknown_branch_tokens"]) == (3, 2)
    assert strange.counters["unknown_tokens"] == known.counters["unknown_tokens"]
    (said,) = warnings(config, "c.yaml", "out", strange.counters)
    assert said.startswith("2 of 3 tokens of branches are [UNK] (66.7%)")
    few = {**strange.counters, "branch_tokens": 20}
    assert warnings(config, "c.yaml", "out", few) == []


@pytest.mark.parametrize(
    ("tokenizer", "cure"),
    [
        ("out/my/vocab/vocab.txt", "`treegraft vocab {path} --fine --overwrite` makes"),
        ("./out/../out/my/vocab/vocab.txt", "`treegraft vocab {path} --fine --overwrite` makes"),
        (
            "out/docs/vocab/vocab.txt",
            "vocab.txt comes from elsewhere: if `treegraft vocab` made it, run that again",
        ),
        ("tokenizer.json", "`treegraft vocab {path} --fine` makes a vocabulary"),
    ],
)
def test_the_cure_for_unknown_branches_depends_on_where_the_vocabulary_is_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tokenizer: str, cure: str
) -> None:
    path = tmp_path / "my.yaml"
    config = config_of("classify", groups=["tree"], encode={"tokenizer": tokenizer})
    counters = {"unknown_branch_tokens": 2, "branch_tokens": 3}
    (said,) = warnings(config, str(path), str(tmp_path / "out/my"), counters)  # as `output: out/my` says it
    assert cure.format(path=path) in said and said.endswith("and a graph in its language")
    elsewhere = tokenizer == "out/docs/vocab/vocab.txt"
    assert (f"`--fine --overwrite --graph {path}`" in said) == elsewhere
    monkeypatch.chdir(tmp_path)
    (said,) = warnings(config, "my.yaml", "out/my", counters)
    assert cure.format(path="my.yaml") in said
