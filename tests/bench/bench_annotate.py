"""What annotating costs beside the parser itself.

Raw records to annotated documents (sentences, words, parse, Arrow columns) against a bare
`nlp.pipe` of the same embedded pipeline over the same texts, whose tokenizer is the one that a user
would give it (jieba for Chinese): one process, CPU time, the two taken in turns.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jieba
import pyarrow as pa
import pytest
import spacy
from spacy.tokens import Doc

from corpora.conllu import read_conllu
from corpora.records import RAW_SCHEMA
from pipelines.annotate.stage import Annotate
from pipelines.config import Config

pytestmark = pytest.mark.bench

BAR = 1.15
ROUNDS = 5
PARSERS = Path(__file__).parents[2] / "models/parsers"


def texts_of(language: str, real_data: Path) -> list[str]:
    if language == "zh":
        lines = (real_data / "kbert/chnsenticorp/dev.tsv").read_text(encoding="utf-8").split("\n")[1:600]
        return [line.split("\t")[1] for line in lines]
    sentences = list(read_conllu(real_data / "ud/en_ewt/dev.conllu"))
    return [" ".join(s.text for s in sentences[i : i + 8]) for i in range(0, len(sentences), 8)]


def bare(language: str) -> Callable[[list[str]], int]:
    nlp = spacy.load(PARSERS / f"{language}_ud_small")
    segmenter = jieba.Tokenizer()
    segmenter.initialize()

    def words(text: str) -> Doc:
        found = [w for w in segmenter.cut(text) if not w.isspace()]
        return Doc(nlp.vocab, words=found, spaces=[False] * len(found))

    def run(texts: list[str]) -> int:
        docs = map(words, texts) if language == "zh" else texts
        return sum(len(doc) for doc in nlp.pipe(docs, batch_size=256))

    return run


def cpu(work: Callable[[], Any]) -> float:
    gc.collect()
    start = time.process_time()
    work()
    return time.process_time() - start


@pytest.mark.parametrize("language", ["zh", "en"])
def test_annotate_beside_the_bare_parser(language: str, real_data: Path) -> None:
    texts = texts_of(language, real_data)
    config = Config.model_validate(
        {
            "task": "pretrain",
            "language": language,
            "input": {"format": "text", "files": ["x"]},
            "encode": {"tokenizer": "x"},
        }
    )
    stage = Annotate(config, "x.yaml")
    stage.setup()
    nulls = {f.name: [None] * len(texts) for f in RAW_SCHEMA if f.nullable}
    names = [f"d{i}" for i in range(len(texts))]
    table = pa.table({**nulls, "doc_id": names, "text": texts, "source": names}, schema=RAW_SCHEMA)
    parser = bare(language)

    def ours() -> None:
        annotated, _ = stage.annotate_table(table, lambda reject: pytest.fail(str(reject)))
        assert annotated.num_rows == len(texts)

    parser(texts[:20])
    ours()
    pairs = [(cpu(ours), cpu(lambda: parser(texts))) for _ in range(ROUNDS)]
    ratio = statistics.median(a / b for a, b in pairs)
    words = parser(texts)
    seconds = statistics.median(a for a, _ in pairs)
    print(
        f"\nannotate {language}: {ratio:.2f} times a bare nlp.pipe (bar {BAR}); "
        f"{words / seconds:,.0f} words per CPU second"
    )
