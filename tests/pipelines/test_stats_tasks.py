"""`treegraft stats` on questions, choices and targets: figures equal a naive count."""

from __future__ import annotations

import io
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from corpora.manifest import read_manifest, write_manifest
from pipelines.view.histogram import Histogram
from pipelines.view.reasons import in_words, of_questions
from pipelines.view.splitstats import SplitStats
from pipelines.view.stats import collect
from pipelines.view.stats_show import show, stats_page
from pipelines.view.taskview import parts_of
from tests.pipelines.annotated import document
from tests.pipelines.test_stats import naive
from tests.rows import GROUPS, documents_schema, make_rows, rows_schema, write_folder

Row = dict[str, Any]


def counted(histogram: Histogram) -> Counter[int]:
    return Counter({v: int(n) for v, n in enumerate(histogram.counts) if n})


def folder_of(tmp_path: Path, task: str, shards: list[list[Row]], groups: tuple[str, ...] = ()) -> Path:
    splits = {"train": shards, "dev": [shards[0]]}
    return write_folder(tmp_path / task, rows_schema(task, groups), splits, task=task, max_batch_rows=7)


def printed(folder: Path, width: int = 120) -> str:
    out = io.StringIO()
    show(folder, Console(file=out, width=width, color_system=None))
    return out.getvalue()


def test_windows_and_answers_are_counted(tmp_path: Path) -> None:
    rows = make_rows(5, "span", GROUPS, 90)
    cut = next(i for i in range(40, 90) if rows[i]["id"].endswith("#0"))
    stats = collect(folder_of(tmp_path, "span", [rows[:cut], rows[cut:]], GROUPS))
    split: SplitStats = stats.splits["train"]
    windows: Counter[str] = Counter(r["id"].rpartition("#")[0] for r in rows)
    firsts = [r for r in rows if r["id"].endswith("#0")]
    answered = [r for r in rows if (r["answer_start"], r["answer_stop"]) != (0, 1)]
    assert counted(split.histogram("windows")) == Counter(windows.values())
    assert counted(split.histogram("gold answers")) == Counter(len(r["answers"]) for r in firsts)
    assert counted(split.histogram("question tokens")) == Counter(
        r["token_type_ids"].count(0) - 2 for r in firsts
    )
    assert counted(split.histogram("answer tokens")) == Counter(
        r["answer_stop"] - r["answer_start"] for r in answered
    )
    assert split.tally["questions"] == len(windows)
    assert split.tally["impossible"] == sum(r["is_impossible"] for r in firsts) > 0
    assert split.tally["null_spans"] == len(rows) - len(answered) > 0
    assert stats.total.tally["questions"] == split.tally["questions"] + stats.splits["dev"].tally["questions"]
    assert stats.total.histogram("windows").total == stats.total.tally["questions"]
    want = naive(rows)
    for name in ("tokens", "words", "branches", "parse depth", "coarse tokens"):
        assert counted(split.histogram(name)) == want[name], name


def test_choices_are_counted_one_by_one(tmp_path: Path) -> None:
    rows = make_rows(6, "choice", GROUPS, 40)
    stats = collect(folder_of(tmp_path, "choice", [rows[:15], rows[15:]], GROUPS))
    split = stats.splits["train"]
    want = naive([part for row in rows for part in parts_of(row)])
    for name in (
        "tokens", "words", "sentences", "parse depth", "head distance", "coarse tokens", "tree tokens",
        "grafted mentions", "branches", "branch tokens", "highest soft position",
    ):  # fmt: skip
        assert counted(split.histogram(name)) == want[name], name
    assert counted(split.histogram("choices")) == Counter(len(r["choice_lengths"]) for r in rows)
    assert split.labels == Counter(f"choice {r['label']}" for r in rows if r["label"] is not None)
    assert split.tally["unlabelled"] == sum(r["label"] is None for r in rows) > 0
    assert split.tally["rows_with_branches"] == sum(bool(r["branch_triples"]) for r in rows)
    assert "tokens per choice" in printed(folder_of(tmp_path / "b", "choice", [rows]))


def test_a_row_is_of_full_length_if_one_of_its_choices_is(tmp_path: Path) -> None:
    rows = make_rows(6, "choice", (), 10)
    longest = max(size for row in rows for size in row["choice_lengths"])
    schema = rows_schema("choice", (), max_length=longest)
    folder = write_folder(tmp_path / "f", schema, {"train": [rows]}, task="choice")
    assert collect(folder).total.tally["full"] == sum(longest in row["choice_lengths"] for row in rows)


def test_targets_are_counted(tmp_path: Path) -> None:
    rows = make_rows(7, "seq2seq", (), 60)
    stats = collect(folder_of(tmp_path, "seq2seq", [rows[:20], rows[20:]]))
    split = stats.splits["train"]
    assert split.tally["targets_cut"] == sum(r["target_cut"] for r in rows) > 0
    assert counted(split.histogram("target tokens")) == Counter(
        r["token_type_ids"].count(1) - (not r["target_cut"]) for r in rows
    )
    assert counted(split.histogram("source tokens")) == Counter(
        r["token_type_ids"].count(0) - 2 for r in rows
    )
    text = printed(folder_of(tmp_path / "b", "seq2seq", [rows]))
    assert "rows whose target was cut" in text and "tokens per target" in text


def test_what_was_mended_and_rejected_is_told(tmp_path: Path) -> None:
    """Counters of encoding, and those of questions from the annotated documents beside the shards."""
    folder = folder_of(tmp_path, "span", [make_rows(5, "span", (), 20)])
    made = document("q", "a", pair=True, text_pair="b", answers=["b"], answer_starts=[0], is_impossible=False)
    schema = documents_schema("span", pair=True)
    row = {name: made[name] for name in schema.names}
    for path, stage, counters, rejects in (
        (folder, "encode", {"answers_widened": 3, "questions_cut": 0}, {"answer_not_on_tokens": 2}),
        (
            folder / "annotated",
            "annotate",
            {"answers_repaired": 5, "documents": 9},
            {"answer_not_in_context": 4},
        ),
    ):
        if stage == "annotate":
            write_folder(path, schema, {"train": [[row]]}, stage=stage, task="span")
        manifest = read_manifest(str(path))
        manifest.splits["train"].counters.update(counters)
        manifest.splits["train"].rejects.update(rejects)
        write_manifest(str(path), manifest)
    stats = collect(folder)
    split = stats.splits["train"]
    assert split.counters["answers_repaired (annotate)"] == 5 and "documents (annotate)" not in split.counters
    assert split.rejects == {"answer_not_on_tokens": 2, "answer_not_in_context (annotate)": 4}
    text, page = printed(folder), stats_page(stats)
    for line in (
        "answers whose offset was wrong or missing, mended (annotate)",
        "answers widened to whole tokens",
        "answer_not_in_context (annotate)",
    ):
        assert line in page and line.split(",")[0] in text
    assert "questions cut" not in text  # nothing to tell


def test_documents_with_questions_and_choices_are_counted(tmp_path: Path) -> None:
    def question(i: int, **fields: Any) -> Row:
        return document(f"q{i}", "在哪", pair=True, text_pair="我在北京", **fields)

    made = [
        question(0, answers=["北京", "x"], answer_starts=[2, -1], is_impossible=False),
        question(1, answers=[], answer_starts=[], is_impossible=True),
        question(2),
        document("c", "a", pair=True, text_pair="b\nc", choice_starts=[0, 2], choice_stops=[1, 3], label="1"),
    ]
    schema = documents_schema("span", pair=True)
    rows = [{name: row[name] for name in schema.names} for row in made]
    folder = write_folder(tmp_path / "d", schema, {"train": [rows]}, stage="annotate", task="span")
    split = collect(folder).splits["train"]
    assert counted(split.histogram("gold answers")) == Counter({2: 1, 0: 1})
    assert counted(split.histogram("choices")) == Counter({2: 1})
    assert counted(split.histogram("characters of the second text")) == Counter({4: 3, 3: 1})
    assert (split.tally["questions"], split.tally["impossible"], split.tally["unplaced"]) == (2, 1, 1)
    assert "answers of unknown place" in printed(folder)


@pytest.mark.parametrize(
    "changes", [{"choice_lengths": [9999]}, {"choice_lengths": [-1, 1]}, {"id": "no-number"}]
)
def test_wrong_rows_are_counted_without_a_crash(changes: Row, tmp_path: Path) -> None:
    task = "span" if "id" in changes else "choice"
    row = make_rows(1, task, (), 1)[0] | changes
    stats = collect(folder_of(tmp_path, task, [[row]]))
    assert stats.splits["train"].tally["tokens"] == len(row["input_ids"])
    assert stats.splits["train"].tally["questions"] == 0


def test_counters_of_questions_are_told_in_words() -> None:
    assert in_words("answers_repaired (annotate)").endswith("mended (annotate)")
    assert of_questions("questions_cut") and of_questions("answers_empty (annotate)")
    assert not of_questions("documents") and not of_questions("dropped_budget")
