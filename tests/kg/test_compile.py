"""Compiling: cleaning counted by reason, folding, numbering, and bytes that are a function of the triples."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kg import BuildOptions, GraphError, KnowledgeGraph, ReadOptions, compile_graph, folders, strings
from kg.compile import gather
from kg.match.fold import NAMES, Folding
from kg.read import RejectedLine, read_triples
from tests.kg.handmade import graph_of

ROOT = Path(__file__).parents[2]


def compiled(folder: Path, *lines: str, **options: object) -> KnowledgeGraph:
    """A graph of `.spo` lines with build options."""
    source = folder / "a.spo"
    source.write_bytes("".join(line + "\n" for line in lines).encode())
    with mock.patch.object(folders, "sync"):
        compile_graph([str(source)], folder / "kg", options=BuildOptions(**options))  # type: ignore[arg-type]
    return KnowledgeGraph.open(folder / "kg", check=True)


def folder_bytes(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


# --- cleaning -----------------------------------------------------------------------------------


def test_c14_duplicates_once_self_triples_out_and_cycles_kept(tmp_path: Path) -> None:
    lines = ["甲乙\t类\t甲乙", "甲乙\t类\t丙丁", "甲乙\t类\t丙丁", "丙丁\t类\t甲乙", "甲乙\t属\t丙丁"]
    graph = graph_of(tmp_path, *lines)
    info = graph.info
    assert (info.triples, info.read, info.left_out) == (3, 5, {"duplicate": 1, "self_triple": 1})
    objects = {s: [graph.object(t) for t in graph.triples_of(graph.subject_id(s))] for s in ("甲乙", "丙丁")}
    assert objects == {"甲乙": ["丙丁", "丙丁"], "丙丁": ["甲乙"]}


def test_every_line_left_out_is_counted_under_its_first_reason(tmp_path: Path) -> None:
    rejects: list[RejectedLine] = []
    source = tmp_path / "a.spo"
    lines = [
        "# comment",
        "",
        "甲\t类\t" + "长" * 9,  # too short, before its object is too long
        "甲" * 7 + "\t类\t乙",
        "甲乙\t类\t" + "长" * 9,
        "停用\t类\t停用",  # stopped, before it is a self triple
        "ＡＢ\t类\tab",
        "甲乙\t\t丙",
        "甲乙\t\t丙",
        "one field",
        "Ab\t类\t丙",
    ]
    source.write_text("\n".join(lines) + "\n", encoding="utf-8")
    options = BuildOptions(
        min_subject=2, max_subject=6, max_object=8, stop=frozenset({"停用"}), fold=("nfkc", "case")
    )
    info = compile_graph([str(source)], tmp_path / "kg", options=options, on_reject=rejects.append)
    assert info.left_out == {
        "blank": 1, "comment": 1, "duplicate": 1, "object_too_long": 1, "self_triple": 1,
        "subject_stopped": 1, "subject_too_long": 1, "subject_too_short": 1,
    }  # fmt: skip
    assert info.rejects == {"wrong_field_count": 1}
    assert [(r.path, r.line, r.reason) for r in rejects] == [(str(source), 10, "wrong_field_count")]
    assert (info.read, info.triples, info.empty_predicates) == (11, 2, 1)


def test_folded_subjects_are_one_and_keep_their_spellings(tmp_path: Path) -> None:
    lines = ["ＮＡＳＡ\t类\t机构", "Nasa\t位于\t美国", "nasa\t类\t机构", "Nasa\t类\tＡ", "蘋果\t类\t水果"]
    graph = compiled(tmp_path, *lines, fold=NAMES)
    nasa = graph.subject_id("NASA")
    assert nasa == graph.subject_id("ｎａｓａ") >= 0
    assert [graph.object(t) for t in graph.triples_of(nasa)] == ["机构", "美国", "Ａ"]  # objects as written
    assert [graph.source(t)[1] for t in graph.triples_of(nasa)] == [1, 2, 4]
    assert graph.spellings(nasa) == ["Nasa", "ＮＡＳＡ"]  # more triples first; "nasa" has none of its own
    assert graph.subject_text(nasa) == graph.subject(0) == "Nasa"
    assert graph.spellings(graph.subject_id("苹果")) == ["蘋果"]
    assert graph.info.merged_spellings == 1 and graph.info.left_out == {"duplicate": 1}
    assert graph.info.fold == NAMES and graph.info.longest_subject == 4
    for wrong in (-1, 2):
        with pytest.raises(IndexError):
            graph.spellings(wrong)


def test_a_tie_of_spellings_goes_to_the_first_by_code_point(tmp_path: Path) -> None:
    graph = compiled(tmp_path, "ab\tx\t1", "AB\tx\t2", "Ab\tx\t3", fold=["case"])
    assert graph.spellings(0) == ["AB", "Ab", "ab"]


def test_self_triples_are_compared_after_folding(tmp_path: Path) -> None:
    lines = ["Apple\t同\tAPPLE", "Apple\t类\t水果"]
    assert compiled(tmp_path, *lines, fold=["case"]).info.left_out == {"self_triple": 1}
    assert compiled(tmp_path, *lines).info.left_out == {}


def test_the_stop_list_is_compared_after_folding(tmp_path: Path) -> None:
    lines = ["Apple\t类\t水果", "梨\t类\t水果"]
    stop = frozenset({"ＡＰＰＬＥ", "\ud800", "桃"})
    graph = compiled(tmp_path, *lines, fold=["nfkc", "case"], stop=stop)
    assert graph.info.left_out == {"subject_stopped": 1} and graph.info.objects == 1
    assert compiled(tmp_path, *lines, stop=stop).info.left_out == {}


alphabet = st.sampled_from("aAＡbé\u0301蘋苹ß甲ﷺ·")
names = st.text(alphabet, min_size=1, max_size=3)
triples = st.lists(st.tuples(names, st.sampled_from(["", "p", "q"]), names), min_size=1, max_size=30)


@settings(max_examples=150, deadline=None)
@given(
    rows=triples,
    rule=st.sampled_from([(), ("case",), ("nfkc", "case"), NAMES]),
    limits=st.tuples(st.integers(1, 2), st.integers(2, 3), st.integers(1, 3)),
    stop=st.frozensets(names, max_size=3),
    cut=st.integers(0, 30),
)
def test_a_graph_is_what_a_loop_makes_of_its_triples(
    rows: list[tuple[str, str, str]],
    rule: tuple[str, ...],
    limits: tuple[int, int, int],
    stop: frozenset[str],
    cut: int,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.mktemp("kg")
    paths = [str(folder / name) for name in ("b.spo", "a.spo")]
    for path, part in zip(paths, (rows[:cut], rows[cut:]), strict=True):
        Path(path).write_bytes("".join("\t".join(row) + "\n" for row in part).encode())
    fold = Folding.build(rule).fold_text
    stopped = {fold(text) for text in stop}
    left_out: Counter[str] = Counter()
    kept: dict[str, dict[tuple[str, str], tuple[str, str, int]]] = {}
    for s, p, o, path, line in read_triples(paths, lambda _: None):
        if len(s) < limits[0]:
            left_out["subject_too_short"] += 1
        elif len(s) > limits[1]:
            left_out["subject_too_long"] += 1
        elif len(o) > limits[2]:
            left_out["object_too_long"] += 1
        elif fold(s) in stopped:
            left_out["subject_stopped"] += 1
        elif fold(s) == fold(o):
            left_out["self_triple"] += 1
        elif (p, o) in kept.get(fold(s), {}):
            left_out["duplicate"] += 1
        else:
            kept.setdefault(fold(s), {})[p, o] = (s, Path(path).name, line)
    options = BuildOptions(ReadOptions(), rule, *limits, stop)
    with mock.patch.object(folders, "sync"), mock.patch.object(strings, "PENDING_BYTES", 0):
        if not kept:
            with pytest.raises(GraphError, match="no triple in"):
                compile_graph(paths, folder / "kg", options=options)
            return
        info = compile_graph(paths, folder / "kg", options=options)
    graph = KnowledgeGraph.open(folder / "kg", check=True)
    assert graph.info == info
    assert info.left_out == left_out and info.rejects == {}
    assert info.read == len(rows) == info.triples + sum(left_out.values())
    assert info.subjects == len(kept) and info.longest_subject == max(map(len, kept))
    for number, key in enumerate(sorted(kept)):
        found = graph.triples_of(number)
        assert [(graph.predicate(t), graph.object(t)) for t in found] == list(kept[key])
        assert [graph.source(t) for t in found] == [where[1:] for where in kept[key].values()]
        written = Counter(where[0] for where in kept[key].values())
        assert graph.spellings(number) == sorted(written, key=lambda text: (-written[text], text))
        assert {graph.subject_id(text) for text in (key, *written)} == {number}
    counts = Counter(o for pairs in kept.values() for _, o in pairs)
    assert [graph.object_text(k) for k in range(info.objects)] == sorted(counts)
    assert graph.object_counts.tolist() == [counts[o] for o in sorted(counts)]
    assert graph.object_lengths.tolist() == [len(o) for o in sorted(counts)]
    keys = sorted(kept)
    assert graph.object_subjects.tolist() == [
        keys.index(fold(o)) if fold(o) in kept else -1 for o in sorted(counts)
    ]
    predicates = sorted({p for pairs in kept.values() for p, _ in pairs})
    assert [graph.predicate_text(k) for k in range(info.predicates)] == predicates
    assert info.empty_predicates == sum(p == "" for pairs in kept.values() for p, _ in pairs)
    assert info.merged_spellings == sum(
        len({where[0] for where in pairs.values()}) - 1 for pairs in kept.values()
    )


# --- strings ------------------------------------------------------------------------------------


@given(st.lists(st.lists(st.text(max_size=3), max_size=5), max_size=6), st.integers(0, 200))
def test_strings_are_encoded_part_by_part(parts: list[list[str]], pending: int) -> None:
    encoder = strings.Encoder("strings")
    with mock.patch.object(strings, "PENDING_BYTES", pending):
        for part in parts:
            encoder.add(pa.array(part, pa.large_string()))
    distinct, codes = encoder.finish()
    flat = [text for part in parts for text in part]
    assert distinct.to_pylist() == list(dict.fromkeys(flat))
    assert codes.dtype == np.int32 and [distinct[i].as_py() for i in codes] == flat


@settings(deadline=None)
@given(st.lists(st.text(st.one_of(alphabet, st.characters(exclude_categories=["Cs"])))), st.integers(1, 12))
def test_strings_are_folded_slice_by_slice(texts: list[str], size: int) -> None:
    folding = Folding.build(NAMES)
    array = pa.array(["", *texts], pa.large_string())[1:]
    with mock.patch.object(strings, "SLICE_BYTES", size):
        assert strings.fold(array, folding).to_pylist() == [folding.fold_text(text) for text in texts]
        assert strings.code_points(array).tolist() == [ord(char) for text in texts for char in text]
    assert strings.utf8(array).tobytes() == "".join(texts).encode()


def test_folded_strings_of_every_width_in_utf8() -> None:
    edges = "".join(map(chr, (0x7F, 0x80, 0x7FF, 0x800, 0xD7FF, 0xE000, 0xFFFF, 0x10000, 0x10FFFF)))
    texts = [f"A{edge}" for edge in edges] + [edges + "Z"]
    array = pa.array(texts, pa.large_string())
    assert strings.fold(array, Folding.build(["case"])).to_pylist() == [text.lower() for text in texts]


# --- identity and bytes -------------------------------------------------------------------------

COMPILE = """
import sys
from pathlib import Path
from kg import BuildOptions, compile_graph
compile_graph([sys.argv[1]], Path(sys.argv[2]), options=BuildOptions(fold=("nfkc", "case"), stop=frozenset("甲乙丙丁")))
"""


def test_bytes_are_the_same_under_any_hash_seed_and_from_any_folder(tmp_path: Path) -> None:
    folders = []
    for seed in range(3):
        place = tmp_path / f"place{seed}" / ("deep" * seed)
        place.mkdir(parents=True)
        lines = [f"词{k}Ａ\t类{k % 7}\t物{k % 5}" for k in range(200)] + ["甲\t类\t乙", "词1a\t类\t词2A"]
        (place / "a.spo").write_text("\n".join(lines), encoding="utf-8")
        subprocess.run(
            [sys.executable, "-c", COMPILE, str(place / "a.spo"), str(place / "kg")],
            env={**os.environ, "PYTHONHASHSEED": str(seed), "PYTHONPATH": str(ROOT)},
            cwd=place,
            check=True,
        )
        folders.append(folder_bytes(place / "kg"))
    assert folders[0] == folders[1] == folders[2]


def test_bytes_do_not_depend_on_where_the_files_are(tmp_path: Path) -> None:
    for place in ("here", "elsewhere/deep"):
        (tmp_path / place / "sub").mkdir(parents=True)
        (tmp_path / place / "a.spo").write_text("甲乙\t类\t丙\n", encoding="utf-8")
        (tmp_path / place / "sub/b.spo").write_text("丁戊\t类\t己\n", encoding="utf-8")
        compile_graph(
            [str(tmp_path / place / name) for name in ("a.spo", "sub/b.spo")], tmp_path / place / "kg"
        )
    assert folder_bytes(tmp_path / "here/kg") == folder_bytes(tmp_path / "elsewhere/deep/kg")
    assert KnowledgeGraph.open(tmp_path / "here/kg").info.sources == ("a.spo", "sub/b.spo")


def test_identity_is_of_the_triples_their_order_and_the_folding(tmp_path: Path) -> None:
    a = graph_of(tmp_path, "甲乙\t类\t丙", "甲乙\t类\t丁", name="a").info.sha256
    same = graph_of(tmp_path, "#", " 甲乙\t类\t丙", "甲乙\t类\t丙", "甲乙\t类\t丁", name="same").info.sha256
    order = graph_of(tmp_path, "甲乙\t类\t丁", "甲乙\t类\t丙", name="order").info.sha256
    folded = compiled(tmp_path, "甲乙\t类\t丙", "甲乙\t类\t丁", fold=["case"]).info.sha256
    assert a == same and len({a, order, folded}) == 3


def test_several_files_keep_their_order(tmp_path: Path) -> None:
    for name, lines in (("z", "甲词\t类\tZ1\n甲词\t类\tA1\n"), ("a", "甲词\t类\tA2\n甲词\t类\tZ1\n")):
        (tmp_path / f"{name}.spo").write_text(lines, encoding="utf-8")
    compile_graph([str(tmp_path / "z.spo"), str(tmp_path / "a.spo")], tmp_path / "kg")
    graph = KnowledgeGraph.open(tmp_path / "kg")
    assert [graph.object(t) for t in graph.triples_of(0)] == ["Z1", "A1", "A2"]
    assert [graph.source(t) for t in graph.triples_of(0)] == [("z.spo", 1), ("z.spo", 2), ("a.spo", 1)]
    assert graph.info.left_out == {"duplicate": 1}


@pytest.mark.parametrize("name", ["HowNet", "Medical"])
def test_real_graphs_lose_nothing(real_data: Path, tmp_path: Path, name: str) -> None:
    source = real_data / "kg" / f"{name}.spo"
    info = compile_graph([str(source)], tmp_path / "kg")
    lines = [tuple(line.split("\t")) for line in source.read_text(encoding="utf-8").split("\n") if line]
    assert info.read == len(lines)
    assert info.read == info.triples + sum(info.left_out.values()) + sum(info.rejects.values())
    kept = [line for line in dict.fromkeys(lines) if line[0] != line[2]]
    graph = KnowledgeGraph.open(tmp_path / "kg")
    found = {(graph.subject(t), graph.predicate(t), graph.object(t)) for t in range(info.triples)}
    assert info.triples == len(kept) and found == set(kept)
    assert info.longest_subject == {"HowNet": 18, "Medical": 21}[name]
    spaced = [s for s, _, _ in kept if " " in s]
    assert all(graph.subject_id(s) >= 0 for s in spaced)


# --- misuse -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"fold": ("lower",)}, "fold: expected some of nfkc, case, simplified, found 'lower'"),
        ({"fold": "case"}, "fold: expected several"),
        ({"stop": "的"}, "stop: expected several"),
        ({"min_subject": 0}, "min_subject: expected a number of characters from 1, found 0"),
        ({"max_object": True}, "max_object: expected a number of characters from 1, found True"),
        ({"max_subject": 2**40}, "max_subject: expected a number"),
        ({"max_subject": 4097}, "max_subject: expected at most 4,096 characters, found 4,097"),
        ({"min_subject": 9, "max_subject": 8}, r"min_subject: expected at most max_subject \(8\), found 9"),
    ],
)
def test_wrong_options_name_the_field(options: dict[str, object], message: str) -> None:
    with pytest.raises(GraphError, match=message):
        BuildOptions(**options)  # type: ignore[arg-type]


def test_more_than_the_format_can_number_is_refused(tmp_path: Path) -> None:
    lines = ["甲乙\t类\t丙", "甲乙\t类\t丁", "甲乙\t类\t戊"]
    for module, name, value, message in (
        (gather, "MAX_NUMBER", 2, "more than 2 triples in all; compile them into several graphs"),
        (strings, "MAX_NUMBER", 2, "more than 2 different objects; compile several graphs"),
        (gather, "MAX_LINE", 2, "a.spo has more than 2 lines; split the file"),
        (gather, "MAX_FILES", 0, "1 triples files, at most 0 fit in a graph"),
    ):
        with mock.patch.object(module, name, value), pytest.raises(GraphError, match=message):
            compiled(tmp_path, *lines)
    assert compiled(tmp_path, *lines).info.triples == 3


def test_what_is_not_a_graph_is_never_overwritten(tmp_path: Path) -> None:
    source = tmp_path / "a.spo"
    source.write_text("甲乙\t类\t丙\n", encoding="utf-8")
    precious = tmp_path / "thesis"
    precious.mkdir()
    (precious / "chapter1").write_text("years of work")
    for out, holds in ((precious, ": it holds 'chapter1'"), (source, "")):
        with pytest.raises(GraphError, match=f"is not a compiled graph{holds}; choose another output"):
            compile_graph([str(source)], out)
    assert (precious / "chapter1").read_text() == "years of work"


def test_files_without_a_triple_say_what_was_found(tmp_path: Path) -> None:
    source = tmp_path / "a.spo"
    source.write_text("苹果 类别 水果\n梨 类别 水果\n苹\t类\t水果\n", encoding="utf-8")
    with pytest.raises(
        GraphError,
        match=r"3 lines read \(wrong number of fields 2, subject shorter than min_subject 1\); give `columns`",
    ):
        compile_graph([str(source)], tmp_path / "kg", options=BuildOptions(min_subject=2))
    source.write_text("苹\t类\t水果\n\n\n", encoding="utf-8")
    with pytest.raises(GraphError, match="give a smaller `min_subject`"):
        compile_graph([str(source)], tmp_path / "kg", options=BuildOptions(min_subject=2))
    source.write_text("", encoding="utf-8")
    with pytest.raises(GraphError, match=r"0 lines read; expected triples .* in the `.spo` form"):
        compile_graph([str(source)], tmp_path / "kg")
    source.unlink()
    with pytest.raises(GraphError, match="no triples files were named"):
        compile_graph([], tmp_path / "kg")
    assert not list(tmp_path.iterdir())


# --- what nobody would call a triple ------------------------------------------------------------


def test_subjects_of_any_shape(tmp_path: Path) -> None:
    odd = [
        "。",
        "!?",
        "\u0301",
        "\u200b",
        "𠀀",
        "乙" * 255,
        "#\u20dd",
        "-1",
        "a\u2028b",
        "\U0010ffff",
    ]
    graph = graph_of(
        tmp_path, "丙\t\t" + odd[0], *(f"x{s}\t类\t{s}" for s in odd), *(f"{s}\t类\t形" for s in odd)
    )
    assert graph.info.left_out == {"comment": 1}  # "#\u20dd" as a subject
    for subject in odd:
        number = graph.subject_id(f"x{subject}")
        assert number >= 0 and graph.subject_text(number) == f"x{subject}", repr(subject)
        assert [graph.object(t) for t in graph.triples_of(number)] == [subject]
    assert graph.subject_id("x") == -1


def test_a_subject_of_four_thousand_characters_where_it_is_asked_for(tmp_path: Path) -> None:
    long = "甲" * 4095
    graph = compiled(tmp_path, f"{long}乙\t类\t丙", f"{long}\t类\t丙", max_subject=4096)
    assert graph.info.longest_subject == 4096
    assert graph.longest_mentions("丁" + long + "乙丁")[1].tolist() == [4097]
    assert compiled(tmp_path, f"{long}\t类\t丙", "丁\t类\t丙").info.left_out == {"subject_too_long": 1}


PEAK = """
import re, sys
from pathlib import Path
from kg import compile_graph
info = compile_graph([sys.argv[1]], Path(sys.argv[2]))
peak = int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) / 1024
print(info.triples, info.left_out["object_too_long"], peak)
"""

linux = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux's /proc")


@linux
def test_objects_of_ten_megabytes_are_left_out_and_never_pile_up(tmp_path: Path) -> None:
    with (tmp_path / "a.spo").open("wb") as stream:
        for k in range(12):
            stream.write(f"甲城{k}\t全文\t".encode() + "长".encode() * 3_500_000 + b"\n")
        stream.write("甲城\t类\t城市\n".encode())
    arguments = [str(tmp_path / "a.spo"), str(tmp_path / "kg")]
    done = subprocess.run([sys.executable, "-c", PEAK, *arguments], cwd=ROOT, capture_output=True, check=True)
    triples, left_out, peak = map(float, done.stdout.split())
    assert (triples, left_out) == (1, 12)
    assert peak < 300  # the objects are 120 MiB in all; Python with Arrow and pandas takes 130


def test_a_million_objects_of_one_subject(tmp_path: Path) -> None:
    source = tmp_path / "a.spo"
    source.write_bytes("".join(f"甲城\t类\t物{k}\n" for k in range(1_000_000)).encode())
    start = time.process_time()
    info = compile_graph([str(source)], tmp_path / "kg")
    assert time.process_time() - start < 20
    assert (info.triples, info.subjects, info.objects) == (1_000_000, 1, 1_000_000)
    graph = KnowledgeGraph.open(tmp_path / "kg")
    assert graph.object(999_999) == "物999999"


def test_damaged_lines_are_named_with_file_and_line(tmp_path: Path) -> None:
    rejects: list[RejectedLine] = []
    (tmp_path / "a.spo").write_bytes("甲\t类\t乙\n".encode() + b"\xff\t\xfe\tx\n" + "丙\t类\t\n".encode())
    info = compile_graph([str(tmp_path / "a.spo")], tmp_path / "kg", on_reject=rejects.append)
    assert [(Path(r.path).name, r.line, r.reason) for r in rejects] == [
        ("a.spo", 2, "bad_encoding"),
        ("a.spo", 3, "empty_object"),
    ]
    assert info.rejects == {"bad_encoding": 1, "empty_object": 1} and info.read == 3


# --- size ---------------------------------------------------------------------------------------

MEASURE = """
import re, sys, time
from pathlib import Path
from kg import compile_graph
start = time.process_time()
info = compile_graph([sys.argv[1]], Path(sys.argv[2]))
peak = int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) / 1024
print(info.read, time.process_time() - start, peak)
"""


@linux
@pytest.mark.heavy
def test_ten_million_triples_in_bounded_time_and_memory(tmp_path: Path) -> None:
    from tests.bench.graphs import write_graph

    seconds = {}
    for triples in (1_000_000, 10_000_000):
        write_graph(tmp_path / "large.spo", triples * 3 // 10, triples)
        arguments = [str(tmp_path / "large.spo"), str(tmp_path / "large.kg")]
        done = subprocess.run(
            [sys.executable, "-c", MEASURE, *arguments], cwd=ROOT, capture_output=True, check=True, text=True
        )
        read, seconds[triples], peak = map(float, re.findall(r"[0-9.]+", done.stdout))
        print(f"{triples:,} triples: {seconds[triples]:.1f} s, {peak:.0f} MiB")
        assert read == triples
    assert seconds[10_000_000] < 120 and peak < 3500
    assert seconds[10_000_000] < 14 * seconds[1_000_000]  # linear, and caches that no longer hold it
