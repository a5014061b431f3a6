"""Syntax stays tied to tokens, whatever is cut: rows of every task against `alignment_reference`."""

from __future__ import annotations

import json
import random
import tempfile
import unicodedata
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpora.records import Reject
from pipelines.annotate.stage import Annotate
from pipelines.config import Config
from pipelines.encode.tokenizer import Tokenizer, load_tokenizer
from tests.pipelines.alignment_reference import Spans, check_intervals, check_row, choices_of
from tests.pipelines.annotated import DEPRELS, HELD_OUT, Encoded, config_of, document, encode
from tests.pipelines.raw import raw

WORDS = [
    "我",
    "北京",
    "水果",
    "apple",
    "pies",
    "2010",
    "unbelievable",
    "한국",
    "\u200b",
    "\u00ad",
    "e\u0301",
    "❤\ufe0f",
    "，",
    "。",
    "！",
]
TASKS = ("classify", "pair", "span", "choice", "seq2seq", "tag")


@cache
def tokenizer_of(spec: str) -> Tokenizer:
    return load_tokenizer(spec)


def spans_in(tokenizer: Tokenizer) -> Any:
    """Token spans of a text, by itself."""

    @cache
    def tokenize(text: str) -> Spans:
        made = tokenizer.encode_texts([text])
        return with_marks(text, made.starts.tolist(), made.stops.tolist())

    return tokenize


def with_marks(text: str, starts: list[int], stops: list[int]) -> Spans:
    """Token spans, each with the marks behind it that no token holds."""
    wider = []
    for start, stop, limit in zip(starts, stops, [*starts[1:], len(text)], strict=True):
        while stop < limit and unicodedata.category(text[stop]) == "Mn":
            stop += 1
        wider.append((start, stop))
    return wider


def spans_of_units(tokenizer: Tokenizer, one: dict[str, Any]) -> Any:
    """Token spans of a labelled sequence: each source token is tokenized by itself."""
    starts, stops = one["tag_starts"], one["tag_stops"]
    made, _, _ = tokenizer.encode_units([one["text"]], starts, stops, [0, len(starts)])
    spans = with_marks(one["text"], made.starts.tolist(), made.stops.tolist())
    return lambda text: spans


def check_run(
    run: Encoded, documents: list[dict[str, Any]], config: Config, deprels: list[str] = DEPRELS
) -> None:
    """Every row is its document's; nothing is wrong with the folder."""
    assert run.report.ok, "\n".join(run.report.render())
    tokenizer = tokenizer_of(config.encode.tokenizer)
    tokenize = spans_in(tokenizer)
    by_id = {d["doc_id"]: d for d in documents}
    for row in run.rows:
        one = by_id[row["id"].rpartition("#")[0]]
        check_row(row, one, spans_of_units(tokenizer, one) if config.task == "tag" else tokenize, deprels)


# --- random documents -------------------------------------------------------------------------


def random_text(rng: random.Random, most: int) -> str:
    return "".join(
        rng.choice(WORDS) + rng.choice(["", "", " ", "\u3000"]) for _ in range(rng.randint(1, most))
    )


def random_document(rng: random.Random, task: str, doc_id: str) -> dict[str, Any]:
    """A document of a task whose trees are at random, with words that no token is left of."""
    text, second = random_text(rng, 25), random_text(rng, 60 if task == "span" else 25)
    if task == "classify":
        return document(doc_id, text, label="a")
    if task == "pair":
        return document(doc_id, text, pair=True, text_pair=second, label="a")
    if task == "seq2seq":
        return document(doc_id, text, pair=True, text_pair=second)
    if task == "span":
        start = rng.randrange(len(second))
        answer = second[start : start + rng.randint(1, 5)]
        return document(
            doc_id,
            text,
            pair=True,
            text_pair=second,
            answers=[answer],
            answer_starts=[start],
            is_impossible=False,
        )
    if task == "choice":
        lines = [random_text(rng, 8) for _ in range(rng.randint(2, 4))]
        starts = [sum(len(line) + 1 for line in lines[:i]) for i in range(len(lines))]
        stops = [start + len(line) for start, line in zip(starts, lines, strict=True)]
        return document(
            doc_id,
            text,
            pair=True,
            text_pair="\n".join(lines),
            choice_starts=starts,
            choice_stops=stops,
            label="1",
        )
    made = document(doc_id, text)
    spans = list(zip(made["word_starts"], made["word_stops"], strict=True))
    kept = [s for s in spans if text[s[0] : s[1]] not in ("\u200b", "\u00ad")]
    return made | {
        "tag_starts": [a for a, _ in kept],
        "tag_stops": [b for _, b in kept],
        "tag_labels": [rng.choice("ab") for _ in kept],
    }


@pytest.mark.parametrize("task", TASKS)
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_syntax_is_that_of_the_document(task: str, seed: int) -> None:
    rng = random.Random(seed)
    documents = [random_document(rng, task, f"d{i}") for i in range(6)]
    documents.append({**documents[0], "doc_id": "again"})
    more: dict[str, Any] = {}
    length = rng.randint(8, 40)
    if task == "span":
        length = rng.randint(14, 40)
        budget = length - 3 - 8
        more = {"input": HELD_OUT}
        more["encode"] = {
            "span": {"max_question": 8, "doc_stride": rng.randint(1, budget), "misaligned": "widen"}
        }
    if task == "pair":
        more = {"input": {"text_pair": "b"}}
    name = "classify" if task == "pair" else task
    config = config_of(name, groups=("syntax", "coarse"), max_length=length, **more)
    labels = ["a", "b"] if name in ("classify", "tag") else []
    with tempfile.TemporaryDirectory() as folder:
        run = encode(Path(folder), config, documents, labels=labels)
        check_run(run, documents, config)
        for row in run.rows:
            if task != "choice":
                check_coarse(row)


def check_coarse(row: dict[str, Any]) -> None:
    """A word is one coarse token, or each of its fine tokens is."""
    index, words = row["coarse_index"], row["word_index"]
    for word in set(words) - {-1}:
        own = [coarse for coarse, of in zip(index, words, strict=True) if of == word]
        assert len(set(own)) in (1, len(own))
        assert set(own).isdisjoint(c for c, of in zip(index, words, strict=True) if of != word)


# --- by hand ----------------------------------------------------------------------------------


def test_c08_a_word_without_tokens_shifts_nothing(tmp_path: Path) -> None:
    text = "alice \u200b joined acme"
    words = {"word_starts": [0, 6, 8, 15], "word_stops": [5, 7, 14, 19], "word_heads": [1, 2, 2, 1]}
    made = document("d", text, label="a") | words
    made |= {"word_deprels": ["subj", "dep", "root", "obj"], "word_pos": ["X"] * 4}
    made |= {"sentence_starts": [0], "sentence_stops": [19]}
    config = config_of("classify", groups=("syntax",))
    run = encode(tmp_path, config, [made], labels=["a"])
    check_run(run, [made], config)
    (row,) = run.rows
    # Both children of the dropped word hang from its head, and relations stay with their words.
    assert row["word_heads"] == [1, 1, 1] and [DEPRELS[i] for i in row["word_deprels"]] == [
        "subj",
        "root",
        "obj",
    ]
    assert sorted(set(row["word_index"])) == [-1, 0, 1, 2]
    assert run.counters["words_without_tokens"] == 1


def test_a_dropped_root_leaves_roots(tmp_path: Path) -> None:
    text = "\u200b 我 在"
    made = document("d", text, label="a") | {"word_starts": [0, 2, 4], "word_stops": [1, 3, 5]}
    made |= {"word_heads": [0, 0, 1], "word_deprels": ["root", "subj", "obj"], "word_pos": ["X"] * 3}
    made |= {"sentence_starts": [0], "sentence_stops": [5]}
    config = config_of("classify", groups=("syntax",))
    run = encode(tmp_path, config, [made], labels=["a"])
    check_run(run, [made], config)
    assert run.rows[0]["word_heads"] == [0, 0]


def test_a_choice_has_its_own_trees(tmp_path: Path) -> None:
    rng = random.Random(4)
    made = random_document(rng, "choice", "d")
    config = config_of("choice", groups=("syntax",), max_length=16)
    run = encode(tmp_path, config, [made])
    check_run(run, [made], config)
    (row,) = run.rows
    assert len(choices_of(row)) == len(made["choice_starts"]) and run.counters["truncated_choices"] > 0


def test_the_reference_sees_what_is_wrong(tmp_path: Path) -> None:
    """Each column, spoiled, is found."""
    rng = random.Random(1)
    documents = [random_document(rng, "pair", f"d{i}") for i in range(3)]
    config = config_of("classify", groups=("syntax",), max_length=40, input={"text_pair": "b"})
    run = encode(tmp_path, config, documents, labels=["a"])
    tokenize, row = spans_in(tokenizer_of(config.encode.tokenizer)), run.rows[0]
    for name in ("word_index", "word_heads", "word_deprels", "word_dfs_in", "word_dfs_out", "sentence_index"):
        spoiled = {**row, name: [*row[name][:2], row[name][2] + 1, *row[name][3:]]}
        with pytest.raises(AssertionError):
            check_row(spoiled, documents[0], tokenize, DEPRELS)


# --- real documents ---------------------------------------------------------------------------


def annotated(config: Config, table: Any) -> list[dict[str, Any]]:
    rejects: list[Reject] = []
    stage = Annotate(config, str(Path(__file__)))
    stage.setup()
    made, _ = stage.annotate_table(table, rejects.append)
    assert not rejects
    rows: list[dict[str, Any]] = made.to_pylist()
    return rows


def deprels_of(documents: list[dict[str, Any]]) -> list[str]:
    return sorted(
        {r for d in documents for side in ("", "_pair") for r in d.get(f"word_deprels{side}") or ()}
    )


@pytest.mark.parametrize("language", ["zh", "en"])
def test_windows_of_real_questions(language: str, real_data: Path, tmp_path: Path) -> None:
    name = {"zh": "cmrc/cmrc2018_trial.json", "en": "sgnet/squad_sample.json"}[language]
    if not (real_data / name).exists():
        pytest.skip(f"no {real_data / name}")
    data = json.loads((real_data / name).read_text(encoding="utf-8"))["data"]
    found = [
        (p["context"], qa) for a in data for p in a["paragraphs"] for qa in p["qas"][:1] if qa["answers"]
    ][:12]
    config = config_of("span", groups=("syntax", "coarse"), max_length=128, language=language)
    config = config.model_copy(
        update={
            "encode": config.encode.model_copy(
                update={"span": config.encode.span.model_copy(update={"doc_stride": 48})}
            )
        }
    )
    if language == "zh" and (vocab := real_data / "bert/bert-base-chinese-vocab.txt").exists():
        config = config.model_copy(
            update={"encode": config.encode.model_copy(update={"tokenizer": str(vocab)})}
        )
    table = raw(
        [qa["question"] for _, qa in found],
        text_pair=[context for context, _ in found],
        answers=[[a["text"] for a in qa["answers"]] for _, qa in found],
        answer_starts=[[c.find(a["text"]) for a in qa["answers"]] for c, qa in found],
        is_impossible=[False] * len(found),
        doc_id=[str(i) for i in range(len(found))],
    )
    documents = annotated(config, table)
    deprels = deprels_of(documents)
    run = encode(tmp_path, config, documents, deprels=deprels)
    check_run(run, documents, config, deprels)
    assert len(run.rows) > 2 * len(documents) - 4
    for row in run.rows:
        check_intervals(row)


def test_choices_of_real_questions(real_data: Path, tmp_path: Path) -> None:
    path = real_data / "sgnet/race_sample.json"
    if not path.exists():
        pytest.skip(f"no {path}")
    found = json.loads(path.read_text(encoding="utf-8"))[:4]
    texts, pairs, starts, stops = [], [], [], []
    for one in found:
        lines = [" ".join([*one["question"], *option]) for option in one["options"]]
        texts.append(" ".join(" ".join(sentence) for sentence in one["article"]))
        pairs.append("\n".join(lines))
        starts.append([sum(len(line) + 1 for line in lines[:i]) for i in range(len(lines))])
        stops.append([a + len(line) for a, line in zip(starts[-1], lines, strict=True)])
    config = config_of("choice", groups=("syntax",), max_length=96, language="en")
    table = raw(texts, text_pair=pairs, choice_starts=starts, choice_stops=stops, label=["0"] * len(texts))
    documents = annotated(config, table)
    deprels = deprels_of(documents)
    run = encode(tmp_path, config, documents, deprels=deprels)
    check_run(run, documents, config, deprels)
    assert len(run.rows) == len(found) and run.counters["truncated_choices"] > 0
