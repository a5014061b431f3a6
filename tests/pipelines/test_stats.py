"""`treegraft stats`: figures equal a naive count, memory stays bounded, pages are inert."""

from __future__ import annotations

import io
import os
import random
import statistics
import subprocess
import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from corpora.manifest import read_manifest, write_manifest
from corpora.schema import row_schema
from corpora.shards import ShardWriter
from pipelines.view.folder import FolderError
from pipelines.view.histogram import Histogram, TripleCounts
from pipelines.view.rowview import NSP
from pipelines.view.stats import collect, depths
from pipelines.view.stats_overview import overview
from pipelines.view.stats_show import bars, show, stats_page
from pipelines.view.tables import Column, fitted
from tests import rows
from tests.pipelines.handmade import Vocabulary, make_row, write_dataset
from tests.pipelines.test_inspect import EVIL, Page

GROUPS = ("syntax", "coarse", "tree")


def counted(histogram: Histogram) -> Counter[int]:
    return Counter({v: int(n) for v, n in enumerate(histogram.counts) if n})


def depth_of(heads: list[int], word: int) -> int:
    steps = 0
    while heads[word] != word:
        word, steps = heads[word], steps + 1
    return steps


def naive(made: list[dict[str, Any]]) -> dict[str, Counter[Any]]:
    """Every distribution of `made` by plain loops."""
    found: dict[str, Counter[Any]] = {}

    def add(name: str, value: Any) -> None:
        found.setdefault(name, Counter())[value] += 1

    for row in made:
        heads, of = row["word_heads"], row["sentence_index"]
        add("tokens", len(row["input_ids"]))
        add("words", len(heads))
        add("sentences", len(set(of)))
        for sentence in set(of):
            add("parse depth", max(depth_of(heads, w) for w, s in enumerate(of) if s == sentence))
        for word, head in enumerate(heads):
            if head != word:
                add("head distance", abs(word - head))
        add("coarse tokens", len(row["coarse_ids"]))
        add("tree tokens", len(row["tree_ids"]))
        add("grafted mentions", len({m for m in row["tree_mention"] if m >= 0}))
        add("branches", len(row["branch_triples"]))
        add("branch tokens", sum(b > 0 for b in row["tree_branch"]))
        add("highest soft position", max(row["tree_soft_positions"]))
        for deprel in row["word_deprels"]:
            add("deprels", rows.DEPRELS[deprel])
        for triple in row["branch_triples"]:
            add("triples", triple)
    return found


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(["classify", "tag", "pretrain"]))
def test_figures_equal_a_naive_count(tmp_path_factory: pytest.TempPathFactory, seed: int, task: str) -> None:
    made = [rows.make_rows(seed + i, task, rows.GROUPS, 7) for i in range(3)]
    folder = rows.write_folder(
        tmp_path_factory.mktemp("s"),
        rows.rows_schema(task, rows.GROUPS, max_length=12),
        {"train": made[:2], "dev": made[2:]},
        task=task,
        max_batch_rows=3,
    )
    stats = collect(folder)
    for part, own in (
        (stats.splits["train"], made[0] + made[1]),
        (stats.total, [*made[0], *made[1], *made[2]]),
    ):
        expected = naive(own)
        assert part.rows == len(own)
        for name, histogram in part.histograms.items():
            assert counted(histogram) == expected.get(name, Counter()), name
        assert {"tokens", "words", "parse depth", "grafted mentions", "branch tokens"} <= set(part.histograms)
        assert part.deprels == expected["deprels"]
        ids, counts = part.triples.items()
        assert dict(zip(ids.tolist(), counts.tolist(), strict=True)) == expected.get("triples", {})
        fine = [i for row in own for i in row["input_ids"]]
        coarse = [i for row in own for i in row["coarse_ids"]]
        assert part.tally["tokens"] == len(fine)
        assert part.tally["text_tokens"] == sum(i not in (rows.CLS, rows.SEP) for i in fine)
        assert part.tally["unknown"] == fine.count(rows.UNK)
        assert part.tally["coarse_unknown"] == coarse.count(rows.UNK)
        assert part.tally["coarse_text_tokens"] == sum(i not in (rows.CLS, rows.SEP) for i in coarse)
        assert part.tally["full"] == sum(len(row["input_ids"]) >= 12 for row in own)
        in_branches = [i for r in own for i, b in zip(r["tree_ids"], r["tree_branch"], strict=True) if b > 0]
        assert part.tally["unknown_in_branches"] == in_branches.count(rows.UNK)
        assert part.tally["rows_with_branches"] == sum(bool(row["branch_triples"]) for row in own)
        if task == "tag":
            assert "unlabelled" not in part.tally
            labels = [rows.LABELS[x] for row in own for x in row["token_labels"] if x != -100]
            assert part.token_labels == Counter(labels)
        elif task == "pretrain":
            assert part.labels == Counter(NSP[row["label"]] for row in own)
            assert part.tally["unlabelled"] == sum(row["label"] is None for row in own)
        else:
            assert part.labels == Counter(rows.LABELS[r["label"]] for r in own if r["label"] is not None)
            bare = [r for r in own if r["label"] is None and r["label_score"] is None]
            assert part.tally["unlabelled"] == len(bare)
            scores = [float(np.float32(r["label_score"])) for r in own if r["label_score"] is not None]
            if scores:
                assert part.scores == pytest.approx([len(scores), sum(scores), min(scores), max(scores)])
            else:
                assert part.scores == []


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 10**6), st.booleans(), st.booleans())
def test_annotated_folders_are_counted_too(
    tmp_path_factory: pytest.TempPathFactory, seed: int, parsed: bool, pair: bool
) -> None:
    made = rows.make_documents(seed, 9, parsed=parsed, pair=pair)
    made.sort(key=lambda row: row["text_pair"] is None)
    schema = rows.documents_schema(parsed=parsed, pair=pair)
    plain = [{k: v for k, v in row.items() if k in schema.names} for row in made]
    folder = rows.write_folder(
        tmp_path_factory.mktemp("a"),
        schema,
        {"train": [plain]},
        stage="annotate",
        task="classify",
        max_batch_rows=4,
    )
    part = collect(folder).total
    sides = [(row, s) for row in made for s in ("", "_pair") if row.get(f"word_starts{s}") is not None]
    assert part.rows == 9
    assert counted(part.histograms["characters"]) == Counter(len(row["text"]) for row in made)
    words = Counter(len(row[f"word_starts{s}"]) for row, s in sides)
    assert counted(part.histograms["words"]) - Counter({0: 99}) == words
    if parsed:
        depth: Counter[int] = Counter()
        for row, s in sides:
            starts, heads = row[f"word_starts{s}"], row[f"word_heads{s}"]
            for a, b in zip(row[f"sentence_starts{s}"], row[f"sentence_stops{s}"], strict=True):
                depth[max(depth_of(heads, w) for w, at in enumerate(starts) if a <= at < b)] += 1
        assert counted(part.histograms["parse depth"]) == depth
        assert part.deprels == Counter(d for row, s in sides for d in row[f"word_deprels{s}"])
    assert part.labels == Counter(row["label"] for row in made if row["label"] is not None)
    assert part.token_labels == Counter(x for row in made for x in row["tag_labels"] or ())
    assert part.tally["unlabelled"] == sum(r["label"] is None and r["label_score"] is None for r in made)


# --- histograms -------------------------------------------------------------------------------


@given(st.lists(st.integers(0, 300), max_size=80), st.lists(st.integers(0, 300), max_size=80))
def test_histogram_equals_the_list(first: list[int], second: list[int]) -> None:
    a, b = Histogram(), Histogram()
    a.add(np.array(first, int))
    b.add(np.array(second, int))
    a.merge(b)
    values = sorted(first + second)
    assert (a.total, a.sum) == (len(values), sum(values))
    if values:
        assert (a.min, a.max) == (values[0], values[-1])
        assert a.mean == pytest.approx(statistics.fmean(values))
        for share in (0.0, 0.05, 0.5, 0.99, 1.0):
            within = next(v for i, v in enumerate(values, 1) if i >= share * len(values))
            assert a.percentile(share) == within
    for most in (2, 5, 20):
        bins = a.bins(most)
        assert len(bins) <= most
        assert [n for *_, n in bins] == [sum(low <= v <= high for v in values) for low, high, _ in bins]
        assert sum(n for *_, n in bins) == len(values)
        assert all(high + 1 == low for (_, high, _), (low, *_) in pairwise(bins))


def test_a_long_tail_does_not_flatten_the_bins() -> None:
    histogram = Histogram()
    histogram.add(np.array([1] * 500 + [2] * 300 + [3] * 195 + [400] * 5))
    assert histogram.bins(16) == [(1, 1, 500), (2, 2, 300), (3, 3, 195), (4, 400, 5)]


def test_an_empty_histogram() -> None:
    empty = Histogram()
    assert (empty.total, empty.mean, empty.min, empty.max, empty.percentile(0.5), empty.bins()) == (
        0,
        0.0,
        0,
        0,
        0,
        [],
    )


@given(st.lists(st.lists(st.integers(0, 50), max_size=30), max_size=10))
def test_triple_counts_equal_a_counter(batches: list[list[int]]) -> None:
    counts, halves = TripleCounts(), (TripleCounts(), TripleCounts())
    for i, batch in enumerate(batches):
        counts.add(np.array(batch, np.int64))
        halves[i % 2].add(np.array(batch, np.int64))
    halves[0].merge(halves[1])
    expected = Counter(x for batch in batches for x in batch)
    top = sorted(expected.items(), key=lambda item: (-item[1], item[0]))[:5]
    assert counts.top(5) == halves[0].top(5) == top


def test_triple_counts_hold_distinct_ids_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipelines.view.histogram._COMPACT", 100)
    counts = TripleCounts()
    for _ in range(200):
        counts.add(np.arange(50, dtype=np.int64))
        assert sum(len(ids) for ids, _ in counts._pending) <= 100
    assert counts.top(1) == [(0, 200)]


@given(st.integers(0, 10**6), st.integers(1, 60))
def test_depths_equal_walking_up(seed: int, count: int) -> None:
    heads = rows.make_heads(random.Random(seed), [0] * count, extra_roots=0.1)
    assert depths(np.array(heads)).tolist() == [depth_of(heads, w) for w in range(count)]


def test_depths_of_a_chain_and_of_a_cycle() -> None:
    chain = np.maximum(np.arange(30_000) - 1, 0)
    assert depths(chain)[-1] == 29_999
    assert len(depths(np.array([1, 0, 2]))) == 3


# --- what is shown ----------------------------------------------------------------------------


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    fine, coarse = Vocabulary("龘"), Vocabulary("龘")
    graft = [(1, 3, [(1, "水果"), (2, "红色")])]
    made = [
        make_row(fine, coarse, "a", [["苹果", "好"]], [1, 1], [1, 0], graft, label=1),
        make_row(fine, coarse, "b", [["苹果", "龘"]], [1, 1], [1, 0], graft[:1], label=1),
        make_row(fine, coarse, "c", [["好"], ["坏"]], [0, 1], [0, 0], label=0),
    ]
    return write_dataset(
        tmp_path / "d",
        {"train": [made[:2], made[2:]], "dev": [made[1:2]]},
        fine,
        coarse,
        counters={
            "dropped_budget": 4,
            "dropped_position": 1,
            "dropped_empty": 0,
            "truncated_rows": 2,
            "records": 5,
        },
        rejects={"empty_text": 3},
    )


def printed(folder: Path, width: int = 100, **options: object) -> str:
    out = io.StringIO()
    show(folder, Console(file=out, width=width, color_system=None), **options)  # type: ignore[arg-type]
    return out.getvalue()


def test_overview_per_split_and_in_total(dataset: Path) -> None:
    lines = dict(overview(collect(dataset)))
    assert lines["rows"] == ["3", "1", "4"]
    assert lines["shards"] == ["2", "1", "3"]
    assert lines["tokens (special ones too)"] == ["14", "5", "19"]
    assert lines["tokens of text"] == ["8", "3", "11"]
    assert lines["unknown tokens of text [UNK]"] == ["1 (12.5%)", "1 (33.3%)", "2 (18.2%)"]
    assert lines["coarse tokens (special ones too)"] == ["12", "4", "16"]
    assert lines["coarse tokens of text"] == ["6", "2", "8"]
    assert lines["unknown coarse tokens of text"] == ["1 (16.7%)", "1 (50.0%)", "2 (25.0%)"]
    assert lines["fine per coarse token"] == ["1.333", "1.500", "1.375"]
    assert lines["rows with branches"] == ["2 (66.7%)", "1 (100.0%)", "3 (75.0%)"]
    assert lines["unknown tokens of branches [UNK]"] == ["0 (0.0%)", "0 (0.0%)", "0 (0.0%)"]
    assert lines["tokens added by branches"] == ["8 (57.1%)", "4 (80.0%)", "12 (63.2%)"]
    assert lines["mentions with branches"] == ["2", "1", "3"]
    assert "rows without label" not in lines
    assert lines["rejected records"] == ["3", "3", "6"]
    assert lines["truncated rows"] == ["2", "2", "4"]


def test_terminal_names_triples_labels_drops_and_rejects(dataset: Path) -> None:
    text = printed(dataset)
    lines = [line.split() for line in text.splitlines()]
    assert ["no", "room", "left", "in", "max_length", "4", "4", "8"] in lines
    assert ["would", "pass", "max_positions", "1", "1", "2"] in lines
    assert ["empty_text", "3", "3", "6"] in lines
    assert "empty " not in text
    assert any(
        line[:4] == ["苹果", "类别", "水果", "g.spo:2"] and line[-2:] == ["3", "(50.0%)"] for line in lines
    )
    assert any(line[:1] == ["positive"] and line[-2:] == ["3", "(75.0%)"] for line in lines)
    assert max(cell_len(line) for line in text.splitlines()) <= 100


def test_rejects_of_both_stages_are_shown(dataset: Path) -> None:
    manifest = read_manifest(str(dataset))
    (dataset / "annotated").mkdir()
    split = manifest.splits["train"].model_copy(update={"rejects": {"bad_json": 2}})
    earlier = manifest.model_copy(update={"stage": "annotate", "splits": {"train": split}})
    write_manifest(str(dataset / "annotated"), earlier)
    stats = collect(dataset)
    assert stats.total.rejects == {"empty_text": 6, "bad_json (annotate)": 2}
    assert dict(overview(stats))["rejected records"] == ["5", "3", "8"]
    (dataset / "annotated" / "manifest.json").write_text("{}", encoding="utf-8")
    assert "is not a treegraft manifest" in collect(dataset).notes[0]


def test_coarse_tokens_are_phrases_words_and_pieces(dataset: Path) -> None:
    manifest = read_manifest(str(dataset))
    counted = {"coarse_phrases": 2, "coarse_pieces": 1, "coarse_fallen_words": 3}
    split = manifest.splits["train"].model_copy(update={"counters": counted})
    write_manifest(str(dataset), manifest.model_copy(update={"splits": {"train": split}}))
    lines = dict(overview(collect(dataset)))
    assert (
        lines["coarse tokens of text"][0] == "6" and lines["unknown coarse tokens of text"][0] == "1 (16.7%)"
    )
    assert lines["coarse tokens that are phrases"][0] == "2 (33.3%)"
    assert lines["coarse tokens that are words"][0] == "2 (33.3%)"
    assert lines["coarse tokens that are pieces of words"][0] == "1 (16.7%)"


def test_no_name_means_two_things(dataset: Path) -> None:
    """The run counts all mentions, the rows hold those with branches: 7 found, 2 of them in the rows of `train`."""
    manifest = read_manifest(str(dataset))
    counted = {
        "mentions": 7,
        "mentions_grafted": 3,
        "coarse_tokens": 6,
        "unknown_coarse_tokens": 1,
        "tokens": 14,
    }
    split = manifest.splits["train"].model_copy(update={"counters": counted})
    write_manifest(str(dataset), manifest.model_copy(update={"splits": {"train": split}}))
    text = printed(dataset, html=dataset / "s.html")
    lines = [line.split() for line in text.splitlines()]
    assert [line for line in lines if line[:1] == ["mentions"]] == [
        ["mentions", "(per", "row)", "7", "(2.33)", "0", "(0.00)", "7", "(1.75)"],
        ["mentions", "with", "branches", "2", "(28.6%)", "1", "3", "(42.9%)"],
    ]
    texts = Page.parse((dataset / "s.html").read_text(encoding="utf-8")).texts
    assert "mentions" not in texts
    assert "counted while it was made" not in texts  # tokens stand above, counted in the rows
    assert {"mentions with branches", "grafted mentions per row"} <= set(texts)


def test_branches_of_depth_two_have_their_own_line(tmp_path: Path) -> None:
    fine, coarse = Vocabulary(), Vocabulary()
    graft = [(1, 3, [(2, "红色", [(0, "三原色")]), (1, "水果")])]
    made = [make_row(fine, coarse, "a", [["苹果", "好"]], [1, 1], [1, 0], graft, label=1)]
    lines = dict(overview(collect(write_dataset(tmp_path / "d", {"train": [made]}, fine, coarse))))
    assert lines["branches"] == ["3"]
    assert lines["of them of depth 2"] == ["1 (33.3%)"]


@pytest.mark.parametrize("task", ["classify", "pretrain"])
def test_rows_without_label_are_said(tmp_path: Path, task: str) -> None:
    fine, coarse = Vocabulary(), Vocabulary()
    made = [
        make_row(fine, coarse, str(i), [["好"]], [0], label=label) for i, label in enumerate((0, None, 1))
    ]
    scored = make_row(fine, coarse, "s", [["好"]], [0], label=None, label_score=0.5)
    shards = [[*made, scored]] if task == "classify" else [made]
    folder = write_dataset(tmp_path / "d", {"train": shards, "dev": [made[:1]]}, fine, coarse, task=task)
    lines = dict(overview(collect(folder)))
    share = "25.0%" if task == "classify" else "33.3%"
    assert lines["rows without label"][:2] == [f"1 ({share})", "0 (0.0%)"]


def large(folder: Path, splits: int, longest: int) -> Path:
    """As `splits` splits with long names, with figures of many digits."""
    row = rows.make_documents(1, 1, parsed=True, pair=False)[0]
    row = {**row, "text": row["text"] + " " * longest}
    schema = rows.documents_schema(parsed=True, pair=False)
    plain = {k: v for k, v in row.items() if k in schema.names}
    names = [f"a_split_with_a_long_name_{i}" for i in range(splits)]
    made = {name: [[plain] * (i + 1)] for i, name in enumerate(names)}
    return rows.write_folder(folder, schema, made, stage="annotate", task="classify")


@pytest.mark.parametrize("width", [60, 70, 80, 100, 200])
@pytest.mark.parametrize(("splits", "longest"), [(1, 10), (2, 1_000), (7, 3_000_000)])
def test_numbers_are_never_cut(tmp_path: Path, width: int, splits: int, longest: int) -> None:
    """Every figure of the overview stands whole at every width; columns of distributions go by rank."""
    folder = large(tmp_path / "d", splits, longest)
    stats = collect(folder)
    text = printed(folder, width=width)
    lines = text.splitlines()
    assert max(map(cell_len, lines)) <= width
    assert "…" not in text
    top = text[: text.index("distributions")].split()
    for name, values in overview(stats):
        for value in values:
            for piece in value.split():
                assert top.count(piece) >= values.count(value), (name, value)
    at = next(i for i, line in enumerate(lines) if line.startswith("distributions"))
    left_out = "left out" in lines[at]
    at = next(i for i, line in enumerate(lines) if i > at and "median" in line)
    header, body = lines[at].split(), lines[at + 2 : lines.index("", at)]
    kept = [name for name in header if name != "split"]
    assert {"median", "max"} <= set(kept)
    assert left_out == (len(kept) < 9)
    assert splits > 1 or {"min", "mean", "95%"} <= set(kept)
    h = stats.total.histograms["characters"]
    whole = {"mean": f"{h.mean:,.2f}", "min": f"{h.min:,}", "max": f"{h.max:,}"}
    whole |= {"median": f"{h.percentile(0.5):,}", "95%": f"{h.percentile(0.95):,}"}
    of_characters = [line.split() for line in body if line.startswith("characters")]
    found = of_characters[-1][-len(kept) :]
    assert len(of_characters) == len(stats.splits) + (splits > 1)
    shown = dict(zip(kept, found, strict=True))
    assert {k: shown[k] for k in whole if k in shown} == {k: v for k, v in whole.items() if k in shown}


def test_columns_are_left_out_by_rank() -> None:
    """A label of 22 cells that folds to 14 and columns of 5, 5 and 1, two cells apart: 39 cells, at least 31."""
    ranks = {"a": 2, "b": 1, "c": 3}
    columns = [Column("", number=False), *(Column(name, rank=rank) for name, rank in ranks.items())]
    cells = [[Text("a label of some length"), Text("1,234"), Text("5,678"), Text("9")]]
    for width in range(45, 13, -1):
        table, left_out = fitted(columns, cells, width)
        out = io.StringIO()
        Console(file=out, width=width, color_system=None).print(table)
        gone = "" if width >= 31 else "c" if width >= 28 else "ac" if width >= 21 else "abc"
        assert left_out == list(gone)
        kept = [value.plain for name, value in zip(ranks, cells[0][1:], strict=True) if name not in gone]
        assert [word for word in out.getvalue().split() if word[0].isdigit()] == kept
        assert max(map(cell_len, out.getvalue().splitlines())) <= width
        assert width < 39 or "a label of some length" in out.getvalue()


def test_eighty_columns_in_a_pipe(dataset: Path) -> None:
    """No terminal: rich assumes 80 columns, and nothing is cut there either."""
    done = subprocess.run(
        [sys.executable, "-c", "from pipelines.cli import main; main()", "stats", str(dataset)],
        capture_output=True,
        text=True,
        encoding="utf-8",
        env={**os.environ, "COLUMNS": "", "PYTHONIOENCODING": "utf-8"},
        check=True,
    )
    assert "…" not in done.stdout
    assert "left out" not in done.stdout
    header = next(line for line in done.stdout.splitlines() if "median" in line)
    assert header.split() == ["split", "mean", "min", "5%", "25%", "median", "75%", "95%", "99%", "max"]


def test_bars_line_up_and_never_hide_what_is_rare() -> None:
    lines = bars([("苹果", 1000), ("a", 1), ("none", 0), ("中文" * 40, 500)], 60).plain.split("\n")
    assert len({cell_len(line[: line.index("  ", len(line) - len(line.lstrip()))]) for line in lines}) == 1
    assert "▏" in lines[1]
    assert "▏" not in lines[2] and "█" not in lines[2]
    assert max(map(cell_len, lines)) <= 60
    assert lines[0].count("█") == pytest.approx(2 * lines[3].count("█"), abs=1)


def test_page_is_self_contained_and_has_charts_of_every_split(dataset: Path, tmp_path: Path) -> None:
    printed(dataset, html=tmp_path / "s.html")
    source = (tmp_path / "s.html").read_text(encoding="utf-8")
    page = Page.parse(source)
    page.check()
    assert {"svg", "title", "table", "details"} <= page.tags
    assert {"split train", "split dev", "苹果 类别 水果  g.spo:2", "tokens per row"} <= set(page.texts)
    assert {"no room left in max_length"} <= set(page.texts)
    assert "positive: 3 (75.0%)" in page.texts
    charts = [v for a, v in page.attributes if a == "role"]
    assert len(charts) > 20
    assert set(charts) == {"img"}


def test_hostile_names_are_escaped_everywhere(tmp_path: Path) -> None:
    fine, coarse = Vocabulary(), Vocabulary()
    row = make_row(fine, coarse, "a", [["好"]], [0], [1], label=0)
    folder = write_dataset(
        tmp_path / "d",
        {"train": [[row]]},
        fine,
        coarse,
        labels=[f"l{EVIL}"],
        deprels=["root", f"r{EVIL}"],
        counters={f"dropped_{EVIL}": 1},
        rejects={f"why{EVIL}": 1},
    )
    text = printed(folder, width=200, html=tmp_path / "s.html")
    source = (tmp_path / "s.html").read_text(encoding="utf-8")
    for shown in (text, source):
        assert not [c for c in shown if c != "\n" and not c.isprintable()]
    assert text.count("[bold]") >= 4
    assert "<script" not in source
    Page.parse(source).check()


def test_a_dataset_without_rows_or_groups(tmp_path: Path) -> None:
    folder = write_dataset(
        tmp_path / "d", {"train": [[]]}, Vocabulary(), Vocabulary(), groups=(), graph=False
    )
    assert "rows" in printed(folder)
    Page.parse(stats_page(collect(folder))).check()
    fine = Vocabulary()
    row = make_row(fine, fine, "a", [["好"]], [0], label=0)
    plain = write_dataset(tmp_path / "e", {"train": [[row]]}, fine, fine, groups=(), graph=False)
    assert set(collect(plain).total.histograms) == {"tokens"}


def test_labels_that_point_nowhere_are_counted_as_such(tmp_path: Path) -> None:
    fine, coarse = Vocabulary(), Vocabulary()
    made = [make_row(fine, coarse, "a", [["好"]], [0], [9], label=7)]
    stats = collect(write_dataset(tmp_path / "d", {"train": [made]}, fine, coarse))
    assert stats.total.labels == {"?": 1}
    assert stats.total.deprels == {"?": 1}


def test_errors_and_notes(dataset: Path, tmp_path: Path) -> None:
    with pytest.raises(FolderError, match="not a dataset folder"):
        collect(tmp_path)
    out = io.StringIO()
    with pytest.raises(FolderError, match="does not exist; make it first"):
        show(dataset, Console(file=out), tmp_path / "no" / "s.html")
    assert out.getvalue() == "", "found before anything is read"
    (dataset / "manifest.json").unlink()
    stats = collect(dataset)
    assert stats.total.rows == 4
    assert "did not finish" in stats.notes[0]
    (dataset / "dev-00000-of-00001.arrow").write_bytes(b"not arrow")
    with pytest.raises(ValueError, match=r"dev-00000-of-00001\.arrow"):
        collect(dataset)


@pytest.mark.bench
def test_bench_rows_per_second(tmp_path: Path) -> None:
    """Rows of 128 tokens with all groups; prints the rate."""
    import time

    schema = rows.rows_schema("classify", rows.GROUPS)
    rng = random.Random(1)
    made = [rows.make_row(rng, "classify", rows.GROUPS, str(i), most_words=60) for i in range(500)]
    batch = rows.to_batch(made, schema)
    path = tmp_path / "train-00000-of-00001.arrow"
    assert schema.names == row_schema("classify", GROUPS).names
    with ShardWriter(str(path), schema) as shard:
        for _ in range(400):
            shard.write(batch)
    start = time.perf_counter()
    stats = collect(tmp_path)
    seconds = time.perf_counter() - start
    tokens = stats.total.tally["tokens"]
    print(f"\nstats: {stats.total.rows / seconds:,.0f} rows/s, {tokens / seconds / 1e6:.1f} M tokens/s")
    assert stats.total.rows == 200_000
