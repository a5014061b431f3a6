"""Windows of questions against `span_reference`: random texts, and the real CMRC 2018 and SQuAD samples."""

from __future__ import annotations

import json
import random
import tempfile
import unicodedata
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import models, pre_tokenizers

from pipelines.config import Config
from pipelines.encode.tokenizer import Tokenizer, load_tokenizer
from tests.parity.span_reference import (
    Outcome,
    Piece,
    check_is_max_context,
    doc_spans,
    encode_question,
    released_answer,
    windows,
)
from tests.pipelines.annotated import HELD_OUT, SAMPLES, config_of, document, encode

SPECIAL = {"cls": 2, "sep": 3}
CLUSTERS = [
    "\U0001f468\u200d\U0001f469\u200d\U0001f467",
    "\U0001f1e8\U0001f1f3",
    "e\u0301",
    "❤\ufe0f",
    "한",
    "กำ",
]
JOINED = ["我\u200d在", "水\u0903", "在\u200d北\u200d京"]
"""Clusters of several tokens, also for a vocabulary of words and characters."""
PLAIN = [
    "北京",
    "我在",
    "水果",
    "apple",
    "pies",
    "2010",
    "ABC",
    "。",
    "？",
    " ",
    "  ",
    "\n",
    "\u3000",
    "\u200b",
    "\u00a0",
    "\x00",
]


@cache
def tokenizer_of(spec: str) -> Tokenizer:
    return load_tokenizer(spec)


def pieces_of(tokenizer: Tokenizer, text: str) -> list[Piece]:
    """Tokens of one text by itself, each ending behind the marks that are in no token."""
    made = tokenizer.encode_texts([text])
    pieces = []
    for i, (token, start, stop) in enumerate(zip(made.ids, made.starts, made.stops, strict=True)):
        limit = int(made.starts[i + 1]) if i + 1 < len(made.starts) else len(text)
        end = int(stop)
        while end < limit and unicodedata.category(text[end]) == "Mn":
            end += 1
        pieces.append(Piece(int(token), int(start), end))
    return pieces


def span_config(trains: bool = True, tokenizer: str | None = None, **encode: Any) -> Config:
    length = encode.pop("max_length")
    more = {"tokenizer": tokenizer} if tokenizer else {}
    return config_of(
        "span",
        max_length=length,
        input={} if trains else HELD_OUT,
        encode={"span": encode, **more},
    )


def same_rows(config: Config, documents: list[dict[str, Any]], trains: bool, folder: Path) -> list[Outcome]:
    """The stage's rows, rejects and counters are the reference's; `verify` finds nothing."""
    tokenizer, section = tokenizer_of(config.encode.tokenizer), config.encode.span
    special = {name: tokenizer.special_ids[name] for name in ("cls", "sep")}
    want = [
        encode_question(
            d,
            lambda text: pieces_of(tokenizer, text),
            special=special,
            max_length=config.encode.max_length,
            max_question=section.max_question,
            doc_stride=section.doc_stride,
            misaligned=section.misaligned,
            trains=trains,
        )
        for d in documents
    ]
    run = encode(folder, config, documents)
    expected = [row for outcome in want for row in outcome.rows]
    assert [row["id"] for row in run.rows] == [row["id"] for row in expected]
    for found, wanted in zip(run.rows, expected, strict=True):
        assert found == wanted
    assert run.rejects == dict(Counter(o.reject for o in want if o.reject))
    assert run.counters["answers_widened"] == sum(o.widened for o in want)
    assert run.counters["questions_cut"] == sum(o.cut for o in want if o.rows)
    assert run.report.ok, "\n".join(run.report.render())
    return want


# --- random texts -----------------------------------------------------------------------------


def random_question(rng: random.Random, doc_id: str) -> dict[str, Any]:
    def text(most: int) -> str:
        return "".join(
            rng.choice(PLAIN + (CLUSTERS + JOINED if rng.random() < 0.3 else []))
            for _ in range(rng.randint(1, most))
        )

    context = text(60)
    kind = rng.random()
    fields: dict[str, Any] = {"answers": [], "answer_starts": [], "is_impossible": kind < 0.15}
    if kind < 0.05:
        fields = {"answers": None, "answer_starts": None, "is_impossible": None}
    elif kind >= 0.15:
        for _ in range(rng.randint(1, 3)):
            start = rng.randrange(len(context))
            answer = context[start : start + rng.randint(1, 8)]
            fields["answers"].append(answer)
            fields["answer_starts"].append(start if rng.random() < 0.8 else -1)
    return document(doc_id, text(12), pair=True, text_pair=context, **fields)


@pytest.fixture(scope="module")
def bytes_tokenizer(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A `tokenizer.json` with a token a byte: several tokens share a character, and some are white space."""
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *sorted(pre_tokenizers.ByteLevel.alphabet())]
    core = tokenizers.Tokenizer(models.BPE({token: i for i, token in enumerate(tokens)}, []))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    path = tmp_path_factory.mktemp("bytes") / "tokenizer.json"
    core.save(str(path))
    return str(path)


@pytest.mark.parametrize("kind", ["words", "bytes"])
@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_rows_are_the_loops_rows(kind: str, bytes_tokenizer: str, seed: int) -> None:
    rng = random.Random(seed)
    longest = rng.randint(1, 8)
    least = 8 if kind == "bytes" else 4  # tokens of the text and [CLS], [SEP], [SEP]
    length = rng.randint(max(longest + least, 8), longest + 24)
    stride = rng.randint(1, length - longest - 3)
    trains = rng.random() < 0.5
    config = span_config(
        trains,
        bytes_tokenizer if kind == "bytes" else None,
        max_length=length,
        max_question=longest,
        doc_stride=stride,
        misaligned=rng.choice(["drop", "widen"]),
    )
    documents = [random_question(rng, f"q{i}") for i in range(8)]
    documents.append({**documents[0], "doc_id": "again"})  # an equal text is tokenized once
    with tempfile.TemporaryDirectory() as folder:
        same_rows(config, documents, trains, Path(folder))


@given(st.integers(1, 60), st.integers(1, 20), st.data())
def test_without_clusters_windows_are_those_of_the_released_code(
    count: int, budget: int, data: st.DataObject
) -> None:
    stride = data.draw(st.integers(1, budget))
    text = "一" * count
    found = windows(text, [Piece(5, i, i + 1) for i in range(count)], budget, stride)
    assert [(a, b - a) for a, b in found] == doc_spans(count, budget, stride)
    for at in range(count):
        assert (
            sum(check_is_max_context([(a, b - a) for a, b in found], w, at) for w in range(len(found))) == 1
        )


def test_c25_a_question_of_100_tokens_leaves_windows_of_61(tmp_path: Path) -> None:
    config = span_config(max_length=128, max_question=64, doc_stride=32)
    question = document(
        "q",
        "我" * 100,
        pair=True,
        text_pair="在" * 200,
        answers=["在" * 3],
        answer_starts=[150],
        is_impossible=False,
    )
    (outcome,) = same_rows(config, [question], True, tmp_path)
    assert outcome.cut and [len(r["input_ids"]) for r in outcome.rows] == [128] * 5 + [64 + 3 + 40]


def test_c27_joined_characters_are_not_cut(tmp_path: Path) -> None:
    config = span_config(max_length=10, max_question=1, doc_stride=5)
    context = "我在我在水\u200d果\u200d水在北京" + CLUSTERS[0]
    start = context.index("北京")
    question = document(
        "q", "我", pair=True, text_pair=context, answers=["北京"], answer_starts=[start], is_impossible=False
    )
    (outcome,) = same_rows(config, [question], True, tmp_path)
    edges = {row["char_starts"][3] for row in outcome.rows} | {row["char_stops"][-2] for row in outcome.rows}
    assert len(outcome.rows) == 3 and edges == {0, 4, 11, 12, len(context)}  # not 6, nor 8


# --- real questions ---------------------------------------------------------------------------


def questions_of(path: Path) -> Iterator[dict[str, Any]]:
    """Questions of a file of SQuAD's layout whose offsets are right or whose answers occur once, as documents."""
    for article in json.loads(path.read_text(encoding="utf-8"))["data"]:
        for paragraph in article["paragraphs"]:
            for qa in paragraph["qas"]:
                context, answers, starts = paragraph["context"], [], []
                for gold in qa["answers"]:
                    text, start = gold["text"], gold["answer_start"]
                    if context[start : start + len(text)] != text:
                        start = context.find(text) if context.count(text) == 1 else -1
                    answers.append(text)
                    starts.append(start)
                yield document(
                    str(qa["id"]),
                    qa["question"],
                    pair=True,
                    text_pair=context,
                    answers=answers,
                    answer_starts=starts,
                    is_impossible=qa.get("is_impossible", False),
                )


@pytest.fixture
def cmrc(real_data: Path) -> list[dict[str, Any]]:
    path = real_data / "cmrc/cmrc2018_trial.json"
    if not path.exists():
        pytest.skip(f"no {path}")
    return list(questions_of(path))


@pytest.fixture
def squad(real_data: Path) -> list[dict[str, Any]]:
    path = real_data / "sgnet/squad_sample.json"
    if not path.exists():
        pytest.skip(f"no {path}")
    return list(questions_of(path))


@pytest.mark.parametrize(("length", "stride", "misaligned"), [(128, 32, "widen"), (384, 128, "drop")])
def test_real_chinese_questions(
    cmrc: list[dict[str, Any]], real_data: Path, length: int, stride: int, misaligned: str, tmp_path: Path
) -> None:
    config = span_config(
        tokenizer=str(real_data / "bert/bert-base-chinese-vocab.txt"),
        max_length=length,
        max_question=64,
        doc_stride=stride,
        misaligned=misaligned,
    )
    chosen = cmrc[:: 6 if length == 128 else 3]
    outcomes = same_rows(config, chosen, True, tmp_path)
    assert sum(len(o.rows) > 1 for o in outcomes) > 100
    assert sum(any(r["answer_start"] for r in o.rows) for o in outcomes) > 150


def test_real_english_questions(squad: list[dict[str, Any]], tmp_path: Path) -> None:
    for trains in (True, False):
        config = span_config(trains, max_length=96, max_question=24, doc_stride=24)
        outcomes = same_rows(config, squad, trains, tmp_path / str(trains))
        assert sum(len(o.rows) for o in outcomes) > len(squad)


def test_answers_are_those_of_the_released_code(
    squad: list[dict[str, Any]], cmrc: list[dict[str, Any]]
) -> None:
    """Where an answer lies on whole tokens, `_improve_answer_span` finds it, or an equal one before it in the
    same stretch without white space; in Chinese such a stretch is a whole paragraph."""
    tokenizer = tokenizer_of(str(SAMPLES / "vocab.txt"))

    @cache
    def tokenize(text: str) -> list[Piece]:
        return pieces_of(tokenizer, text)

    counted: Counter[str] = Counter()
    for name, documents in (("en", squad), ("zh", cmrc[::20])):
        for d in documents:
            for answer, start in zip(d["answers"], d["answer_starts"], strict=True):
                if start < 0:
                    continue
                outcome = encode_question(
                    {**d, "answers": [answer], "answer_starts": [start]},
                    tokenize,
                    special=SPECIAL,
                    max_length=4096,
                    max_question=512,
                    doc_stride=64,
                    misaligned="drop",
                    trains=True,
                )
                if outcome.reject:
                    counted[f"{name} {outcome.reject}"] += 1
                    continue
                (row,) = outcome.rows
                first, last, pieces = released_answer(d["text_pair"], answer, start, tokenize)
                offset = row["token_type_ids"].index(1)
                assert row["char_starts"][offset:-1] == [p.start for p in pieces]
                ours = (row["answer_start"] - offset, row["answer_stop"] - offset - 1)
                if (first, last) == ours:
                    counted[f"{name} same"] += 1
                    continue
                assert first < ours[0]
                assert [p.id for p in pieces[first : last + 1]] == [
                    p.id for p in pieces[ours[0] : ours[1] + 1]
                ]
                counted[f"{name} earlier"] += 1
    assert counted["en same"] > 50 and counted["en earlier"] == 0
    assert counted["zh same"] + counted["zh earlier"] > 10
