"""What rows cost beside the two tools that they cannot do without.

Raw text to rows in memory (rule sentences, jieba words, tokens, assembly, columns; no parser) against
bare `tokenizers.encode_batch` and bare `jieba.cut` over the same texts: one process, CPU time, the
two taken in turns so that a busy machine slows both.

Measured on 2,000 Chinese reviews (217,544 characters), median of 5 rounds: classification 0.85 times the
bare tools, 0.97 with coarse columns; pretraining pairs 0.87 and 0.94: tokens cost a fraction of `encode_batch`. The bar
is 1.2.

Annotated questions to windows against bare `encode_batch` of each question with its text (`stride`): questions
share their texts, which are tokenized once here. On CMRC 2018's trial set three times over (3,000 questions, 7,401
windows of 384 tokens): 0.4 times the bare tool, 0.6 with syntax and coarse columns.
"""

from __future__ import annotations

import gc
import itertools
import json
import os
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jieba
import pyarrow as pa
import pytest
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

from corpora.manifest import Manifest
from corpora.records import RAW_SCHEMA, Reject
from pipelines.annotate.stage import Annotate
from pipelines.config import Config
from pipelines.encode.stage import Encode
from tests.pipelines.annotated import DEPRELS, SAMPLES, document, table_of

pytestmark = pytest.mark.bench

BAR = 1.2
ROUNDS = 5
DOCUMENTS = 2000
SPAN_BARS = (0.75, 1.0)
"""Of windows with base columns, and with word columns, too."""


class Sink:
    """A block writer that only counts."""

    def __init__(self) -> None:
        self.counters: Counter[str] = Counter()

    def write(self, rows: pa.RecordBatch) -> None:
        self.counters["written"] += rows.num_rows

    def count(self, **counters: int) -> None:
        self.counters.update(counters)

    def reject(self, reject: Reject) -> None:
        raise AssertionError(reject)


def cpu(work: Callable[[], Any]) -> float:
    gc.collect()
    start = time.process_time()
    work()
    return time.process_time() - start


@pytest.mark.parametrize("columns", [[], ["coarse"]], ids=["base", "base+coarse"])
@pytest.mark.parametrize("task", ["classify", "pretrain"])
def test_rows_cost_little_more_than_bare_tools(
    real_data: Path, monkeypatch: pytest.MonkeyPatch, task: str, columns: list[str]
) -> None:
    monkeypatch.setitem(os.environ, "TOKENIZERS_PARALLELISM", "false")
    lines = (real_data / "kbert/chnsenticorp/train.tsv").read_text(encoding="utf-8").split("\n")[1:]
    labels, texts = zip(*(line.split("\t", 1) for line in lines[:DOCUMENTS]), strict=True)
    vocab = real_data / "bert/bert-base-chinese-vocab.txt"
    raw = raw_table(list(texts), list(labels))
    config = make_config(task, columns, vocab)
    annotate = Annotate(config, str(real_data / "config.yaml"))
    annotated = Manifest(
        stage="annotate", task=config.task, config_fingerprint="", splits={}, identities=annotate.identities()
    )
    encode = Encode(config, "", annotated=annotated, labels=["0", "1"], deprels=[])
    annotate.setup()
    encode.setup()
    bare_tokenizer = load_bare(vocab)
    jieba.initialize()

    def ours() -> Sink:
        sink = Sink()
        table, counts = annotate.annotate_table(raw, sink.reject)
        assert counts["documents"] == DOCUMENTS
        encode.encode_table(table, "train", sink)  # type: ignore[arg-type]
        return sink

    def bare() -> None:
        bare_tokenizer.encode_batch(texts, add_special_tokens=False)
        for text in texts:
            list(jieba.cut(text))

    sink = ours()
    bare()
    assert sink.counters["written"] == sink.counters["rows"] >= DOCUMENTS
    pairs = [(cpu(ours), cpu(bare)) for _ in range(ROUNDS)]
    ratio = statistics.median(a / b for a, b in pairs)
    mine, theirs = (min(side) for side in zip(*pairs, strict=True))
    characters = sum(map(len, texts))
    print(
        f"\nencode {task} {'+'.join(['base', *columns])}: {ratio:.2f} times bare tokenizers and jieba "
        f"({mine:.2f} s against {theirs:.2f} s CPU for {characters:,} characters, {sink.counters['tokens']:,} tokens)"
    )
    assert ratio <= BAR


@pytest.mark.parametrize("columns", [[], ["syntax", "coarse"]], ids=["base", "syntax+coarse"])
def test_windows_cost_less_than_pairs_with_stride(
    real_data: Path, monkeypatch: pytest.MonkeyPatch, columns: list[str]
) -> None:
    """Annotated questions to windows against what tokenizes each question with its text, as training scripts do."""
    monkeypatch.setitem(os.environ, "TOKENIZERS_PARALLELISM", "false")
    monkeypatch.setitem(os.environ, "RAYON_NUM_THREADS", "1")
    documents = list(cmrc_questions(real_data / "cmrc/cmrc2018_trial.json", rounds=3))
    vocab = real_data / "bert/bert-base-chinese-vocab.txt"
    table = table_of(documents, pair=True)
    config = make_config("span", columns, vocab, "default" if columns else "none")
    annotated = Manifest(stage="annotate", task="span", config_fingerprint="", splits={})
    encode = Encode(config, "", annotated=annotated, labels=[], deprels=DEPRELS)
    encode.setup()
    bare_tokenizer = load_bare(vocab)
    bare_tokenizer.enable_truncation(384, stride=128, strategy="only_second")
    bare_tokenizer.post_processor = processors.BertProcessing(("[SEP]", 102), ("[CLS]", 101))
    pairs = [(d["text"], d["text_pair"]) for d in documents]

    def ours() -> Sink:
        sink = Sink()
        for start in range(0, len(table), 4096):  # as annotated shards are read
            encode.encode_table(table.slice(start, 4096), "dev", sink)  # type: ignore[arg-type]
        return sink

    def bare() -> None:
        bare_tokenizer.encode_batch(pairs)

    sink = ours()
    bare()
    assert sink.counters["written"] >= len(documents)
    taken = [(cpu(ours), cpu(bare)) for _ in range(ROUNDS)]
    ratio = statistics.median(a / b for a, b in taken)
    mine, theirs = (min(side) for side in zip(*taken, strict=True))
    print(
        f"\nencode span {'+'.join(['base', *columns])}: {ratio:.2f} times bare encode_batch of pairs with stride "
        f"({mine:.2f} s against {theirs:.2f} s CPU for {len(documents):,} questions, {sink.counters['written']:,} "
        f"windows; {len(documents) / mine:,.0f} questions a second)"
    )
    assert ratio <= SPAN_BARS[bool(columns)]


def cmrc_questions(path: Path, rounds: int) -> Iterator[dict[str, Any]]:
    """Annotated questions of a file in SQuAD's layout, over and over with other texts. Questions on one text have the
    same annotations of it, as the annotate stage sees to."""
    articles = json.loads(path.read_text(encoding="utf-8"))["data"]
    paragraphs = [p for article in articles for p in article["paragraphs"]]
    for number, paragraph in itertools.product(range(rounds), paragraphs):
        prefix = f"第{number}版。"
        context: dict[str, Any] = {}
        for asked in filter(lambda q: q["question"].strip(), paragraph["qas"]):  # one says nothing
            made = document(
                f"{asked['id']}.{number}",
                asked["question"],
                pair=True,
                text_pair=prefix + paragraph["context"],
                answers=[a["text"] for a in asked["answers"]],
                answer_starts=[a["answer_start"] + len(prefix) for a in asked["answers"]],
                is_impossible=False,
            )
            context = context or {name: made[name] for name in made if name.endswith("_pair")}
            yield made | context


def raw_table(texts: list[str], labels: list[str]) -> pa.Table:
    count = len(texts)
    columns = {
        "doc_id": [f"d{i}" for i in range(count)],
        "text": texts,
        "source": ["train.tsv@0"] * count,
        "label": labels,
    }
    arrays = [
        pa.array(columns[f.name], f.type) if f.name in columns else pa.nulls(count, f.type)
        for f in RAW_SCHEMA
    ]
    return pa.Table.from_arrays(arrays, schema=RAW_SCHEMA)


def make_config(task: str, columns: list[str], vocab: Path, parser: str = "none") -> Config:
    questions = task == "span"
    length = 384 if questions else 128
    encode: dict[str, Any] = {"tokenizer": str(vocab), "max_length": length, "columns": columns}
    if "coarse" in columns:
        encode["coarse"] = {"vocab": str(SAMPLES / "coarse_vocab.txt")}
    labelled = {"format": "tsv", "files": "train.tsv"} | ({"label": "label"} if task == "classify" else {})
    body = {
        "task": task,
        "language": "zh",
        "input": {"format": "squad", "files": {"dev": "dev.json"}} if questions else labelled,
        "annotate": {"parser": parser},
        "encode": encode,
    }
    return Config.model_validate(body)


def load_bare(vocab: Path) -> Tokenizer:
    tokens = vocab.read_bytes().decode().split("\n")[:-1]
    bare = Tokenizer(models.WordPiece({t: i for i, t in enumerate(tokens)}, unk_token="[UNK]"))
    bare.normalizer = normalizers.BertNormalizer(lowercase=True)
    bare.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return bare
