"""`treegraft kg`: what it prints, refuses, and leaves behind."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest
import yaml
from rich.cells import cell_len
from rich.console import Console

from kg.compile import BuildOptions, compile_graph
from kg.graph import KnowledgeGraph
from kg.read import ReadOptions
from kg.tree.rows import GraftPolicy
from pipelines import cli, graph_build
from pipelines.annotate.user_dict import read_user_dict
from pipelines.lookup import look_up
from pipelines.plain_tokens import PlainTokens
from pipelines.view.lookup_show import lookup_parts
from tests.integration.test_cli import SAMPLES, small_config
from tests.pipelines.test_inspect import EVIL

SPO = (
    "北京\t首都之于\t中国\n北京\t类别\t城市\n北京\t位于\t华北\n北京\t又名\t城市\n北京大学\t类别\t大学\n"
    "中国\t首都\t北京\n中国\t类别\t国家\nApple\t类别\t公司\n京\t类别\t字\n中国\t类别\t国家\n"
)


@pytest.fixture
def spo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "g.spo"
    path.write_text(SPO, encoding="utf-8")
    return path


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> object:
    """The command in this process: (exit status, standard output, standard error)."""

    def call(*words: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["treegraft", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        said = capsys.readouterr()
        return int(ended.value.code or 0), said.out, said.err

    return call


def words_of(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


# --- build ------------------------------------------------------------------------------------


def test_build_counts_every_line_and_says_what_comes_next(spo: Path, run) -> None:
    spo.write_text(SPO + "# remark\n\n" + "x\ty\n", encoding="utf-8")
    status, out, err = run("kg", "build", "g.spo", "--out", "my.kg", "--max-reject-fraction", "0.1")
    assert status == 0
    lines = words_of(out)
    for line in (
        ["read", "13"],
        ["kept", "9"],
        ["repeated", "triples", "1"],
        ["comments", "1"],
        ["blank", "lines", "1"],
        ["malformed:", "wrong", "number", "of", "fields", "1"],
        ["triples", "9"],
        ["predicates", "5"],
    ):
        assert line in lines
    graph = KnowledgeGraph.open("my.kg", check=True)
    assert ["content", "hash", graph.info.sha256[:12]] in lines
    size = sum(f.stat().st_size for f in Path("my.kg").iterdir())
    assert ["bytes", f"{size:,}"] in lines
    (reject,) = map(json.loads, Path("my.kg.rejects.jsonl").read_text(encoding="utf-8").splitlines())
    assert (reject["line"], reject["reason"]) == (13, "wrong_field_count")
    assert "g.spo:13: " in err and "my.kg.rejects.jsonl" in err
    assert 'next: treegraft kg stats my.kg\n      treegraft kg lookup my.kg "a text"\n' in err

    spo.write_text(SPO, encoding="utf-8")
    assert run("kg", "build", "g.spo", "--out", "my.kg")[0] == 0
    assert not Path("my.kg.rejects.jsonl").exists()


def test_too_many_malformed_lines_leave_the_old_graph_as_it_was(spo: Path, run) -> None:
    assert run("kg", "build", "g.spo", "--out", "my.kg")[0] == 0
    before = KnowledgeGraph.open("my.kg").info
    spo.write_text(SPO + "x\ty\n" * 3, encoding="utf-8")
    status, _, err = run("kg", "build", "g.spo", "--out", "my.kg")
    assert status == 2
    assert "3 of 13 lines are malformed (23.08%), more than 1.00%:" in err
    assert "g.spo:11: expected 3 fields" in err and "--max-reject-fraction" in err
    assert KnowledgeGraph.open("my.kg", check=True).info == before
    assert len(Path("my.kg.rejects.jsonl").read_text(encoding="utf-8").splitlines()) == 3
    assert sorted(p.name for p in Path().iterdir()) == ["g.spo", "my.kg", "my.kg.rejects.jsonl"]


def test_flags_are_the_options(spo: Path, run, tmp_path: Path) -> None:
    """Each flag reaches the compiler: the same content as the options give."""
    (tmp_path / "e.csv").write_text("head;rel;tail\nＢeijing;in;China\nb;in;c\nlong;in;abcdefgh\nno;in;x\n")
    (tmp_path / "stop.txt").write_text("NO\n")
    status, _, err = run(
        *("kg", "build", "e.csv", "--out", "e.kg", "--columns", "subject=head,object=3", "--delimiter", ";"),
        *(
            "--fold",
            "nfkc,case",
            "--min-subject",
            2,
            "--max-subject",
            20,
            "--max-object",
            6,
            "--stop",
            "stop.txt",
        ),
    )
    assert status == 0, err
    options = BuildOptions(
        read=ReadOptions(columns={"subject": "head", "object": 3}, delimiter=";"),
        fold=("nfkc", "case"),
        min_subject=2,
        max_subject=20,
        max_object=6,
        stop=frozenset({"no"}),
    )
    expected = compile_graph(["e.csv"], tmp_path / "x.kg", options=options)
    graph = KnowledgeGraph.open("e.kg")
    assert graph.info == expected
    assert [graph.subject(t) for t in range(graph.info.triples)] == ["Ｂeijing"]

    (tmp_path / "g.nt").write_text('<http://a/1> <http://n> "甲"@zh .\n<http://a/1> <http://p/色> "红" .\n')
    flags = ("--label", "http://n", "--unlabelled", "local_name", "--language", "zh")
    assert run("kg", "build", "g.nt", "--out", "n.kg", *flags)[0] == 0
    read = ReadOptions(labels=("http://n",), unlabelled="local_name", language="zh")
    assert KnowledgeGraph.open("n.kg").info == compile_graph(
        ["g.nt"], tmp_path / "y.kg", options=BuildOptions(read)
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("gone.spo",), "FILES: no file matches 'gone.spo'"),
        (
            ("g.spo", "--format", "xml"),
            "--format: Input should be 'auto', 'tsv', 'csv', 'rdf' or 'conceptnet', found",
        ),
        (
            ("g.spo", "--fold", "nfkc,lower"),
            "--fold: Input should be 'nfkc', 'case' or 'simplified', found 'lower'",
        ),
        (("g.spo", "--fold", "nfkc,nkfc"), "found 'nkfc'; did you mean 'nfkc'?"),
        (("g.spo", "--format", "cvs"), "found 'cvs'; did you mean 'csv'?"),
        (("g.spo", "--columns", "subject:1"), "--columns: expected role=column, as in subject=1"),
        (("g.spo", "--columns", "subject=1"), "--columns: expected a column for subject and for object"),
        (
            ("g.spo", "--min-subject", "0"),
            "--min-subject: Input should be greater than or equal to 1, found 0",
        ),
        (("g.spo", "--min-subject", "9", "--max-subject", "8"), "min_subject 9 is more than max_subject 8"),
        (("g.spo", "--stop", "gone.txt"), "--stop: gone.txt cannot be read"),
        (("g.spo", "--format", "conceptnet"), "needs --language: ConceptNet"),
        (("g.spo", "--format", "conceptnet"), "such as --language en or --language zh"),
        (("g.spo", "--label", "name", "--format", "rdf"), "--label: expected IRIs"),
        (("g.spo", "--label", "skosx:name", "--format", "rdf"), "found 'skosx:name'"),
        (("sub",), "FILES: the folder sub holds no file whose name tells a format"),
        (("sub/readme.md",), "FILES: sub/readme.md: the name does not tell the format"),
    ],
)
def test_wrong_flags_stop_before_any_work(spo: Path, run, words: tuple[str, ...], message: str) -> None:
    (spo.parent / "sub").mkdir()
    (spo.parent / "sub/readme.md").write_text("")
    status, _, err = run("kg", "build", *words, "--out", "my.kg")
    assert status == 2
    assert message in " ".join(err.split())
    assert not Path("my.kg").exists()


def test_a_folder_that_is_no_graph_is_never_replaced(spo: Path, run) -> None:
    Path("mine").mkdir()
    Path("mine/letter.txt").write_text("dear")
    status, _, err = run("kg", "build", "g.spo", "--out", "mine")
    assert status != 0 and "is not a compiled graph" in err
    assert [p.name for p in Path("mine").iterdir()] == ["letter.txt"]


def test_folders_and_globs_in_sorted_order_each_file_once(spo: Path, run) -> None:
    Path("d").mkdir()
    for name in ("b.spo", "a.tsv", "c.spo", "readme.md", ".hidden.spo"):
        Path("d", name).write_text(f"S\tp\t{name}\n", encoding="utf-8")
    assert run("kg", "build", "d/c*", "d", "d/*.spo", "--out", "my.kg")[0] == 0
    graph = KnowledgeGraph.open("my.kg")
    assert graph.info.sources == ("c.spo", "a.tsv", "b.spo")
    assert [graph.object(t) for t in graph.triples_of(0)] == ["c.spo", "a.tsv", "b.spo"]


def test_stopped_by_the_keyboard_nothing_is_left(spo: Path, run, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(*args: object, on_reject: object, **more: object) -> None:
        Path(args[1], "half").write_text("made")  # type: ignore[arg-type]
        raise KeyboardInterrupt

    monkeypatch.setattr(graph_build, "compile_graph", stopped)
    status, _, err = run("kg", "build", "g.spo", "--out", "my.kg")
    assert status == 130
    assert err == "stopped; nothing was written to my.kg\n"
    assert [p.name for p in Path().iterdir()] == ["g.spo"]


def test_stopped_anywhere_else_it_says_what_to_do(spo: Path, run, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(*args: object, **more: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("pipelines.view.stats_show.show", stopped)
    status, _, err = run("stats", "anything")
    assert (status, err) == (130, "stopped; run the same command again to continue\n")


def test_damaged_compressed_files_are_named(spo: Path, run) -> None:
    import gzip

    whole = gzip.compress((SPO * 500).encode())
    Path("g.spo.gz").write_bytes(whole)
    assert run("kg", "build", "g.spo.gz", "--out", "my.kg")[0] == 0
    assert KnowledgeGraph.open("my.kg").info.triples == 9
    Path("h.spo.gz").write_bytes(whole[:-20])
    status, _, err = run("kg", "build", "h.spo.gz", "--out", "other.kg")
    assert status != 0 and "h.spo.gz is truncated or damaged" in err
    assert not Path("other.kg").exists()


def test_progress_counts_stored_bytes(spo: Path) -> None:
    from corpora import files

    (spo.parent / "z.spo.gz").write_bytes(__import__("gzip").compress(b"a\tb\tc\n" * 1000))
    infos = graph_build.triple_files(["g.spo", "z.spo.gz"])
    out = io.StringIO()
    with graph_build.Reading(Console(file=out, force_terminal=True, width=100), infos) as reading:
        for info in infos:
            with reading.open(info.path) as stream:
                assert stream.read() == files.open_decompressed(info.path).read()
                assert reading._done == infos[0].size, "the compressed one counts when it is done"
        assert reading._bar is not None
        (task,) = reading._bar.tasks
        assert task.completed == task.total - 1 == sum(info.size for info in infos)
        assert "sorting and writing" in task.description


# --- stats ------------------------------------------------------------------------------------


def test_stats_as_tables_and_as_json(spo: Path, run) -> None:
    assert run("kg", "build", "g.spo", "--out", "my.kg")[0] == 0
    status, out, _ = run("kg", "stats", "my.kg", "--top", "2")
    assert status == 0
    lines = words_of(out)
    assert ["triples", "of", "a", "subject", "1", "1", "1.80", "4", "4"] in lines
    assert ["loops", "of", "two", "1"] in lines
    assert ["objects", "that", "are", "subjects", "2", "(2", "triples,", "22.2%)"] in lines
    assert any(line[:1] == ["北京"] and line[-2:] == ["4", "(44.4%)"] for line in lines)
    body = json.loads(run("kg", "stats", "my.kg", "--json")[1])
    assert body["info"]["triples"] == 9
    assert body["summary"]["top_predicates"][0] == ["类别", 5]
    Path("data").mkdir()
    Path("my.kg").rename("data/graph")
    assert run("kg", "stats", "data")[0] == 0


def test_one_triple_is_no_plural_and_equal_counts_have_no_bars(spo: Path, run) -> None:
    spo.write_text("a\tp\tx\n", encoding="utf-8")
    assert "kg stats 'one graph'\n" in run("kg", "build", "g.spo", "--out", "one graph")[2]
    assert ["the", "longest", "of", "1", "character"] in [
        line[2:] for line in words_of(run("kg", "stats", "one graph")[1])
    ]
    assert ["graph", "one", "graph:", "1", "triple,", "1", "subject"] in words_of(
        run("kg", "lookup", "one graph", "b")[1]
    )
    spo.write_text("a\tp\tx\nb\tp\ty\n", encoding="utf-8")
    assert run("kg", "build", "g.spo", "--out", "my.kg")[0] == 0
    shown = run("kg", "stats", "my.kg")[1].split("subjects with most triples")[1].split("predicates")[0]
    assert "a  1 (50.0%)" in shown and "█" not in shown


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("gone.kg", "gone.kg does not exist; make a graph with `treegraft kg build FILES --out DIR`"),
        ("g.spo", "g.spo is a file; make a graph with `treegraft kg build g.spo --out DIR`"),
        (".", "is no compiled graph"),
    ],
)
def test_what_is_no_graph_is_named(spo: Path, run, name: str, message: str) -> None:
    for words in (("stats", name), ("lookup", name, "text")):
        status, _, err = run("kg", *words)
        assert status == 2 and message in " ".join(err.split())


def test_what_may_be_wrong_is_said_in_flags(spo: Path, run) -> None:
    spo.write_text("head\trelation\ttail\n" + SPO, encoding="utf-8")
    status, _, err = run("kg", "build", "g.spo", "--out", "my.kg")
    assert status == 0
    assert "warning: g.spo, line 1: head, relation, tail look like a header" in err
    assert "give --columns subject=head,predicate=relation,object=tail\n" in err
    Path("g.csv").write_text("name,a rel,value\na,b,c\n", encoding="utf-8")
    status, _, err = run("kg", "build", "g.csv", "--out", "other.kg")
    assert status != 0
    assert "--columns: no column is called 'subject'" in err
    assert "give --columns 'subject=name,predicate=a rel,object=value'; where it is no header" in err
    assert "numbers: --columns subject=1,predicate=2,object=3" in err
    Path("g.csv").write_text("subject;predicate;object\na;b;c\n", encoding="utf-8")
    assert "give --delimiter ';'\n" in run("kg", "build", "g.csv", "--out", "other.kg")[2]


# --- subjects ---------------------------------------------------------------------------------


def test_subjects_are_a_dictionary_that_reads_back_whole(spo: Path, run, monkeypatch) -> None:
    names = ["iPhone 12", "vitamin c", "a 3 n", "北京", "京", "two\twords", "安宫 丸"]
    rows = [f'"{name}",p,o' for name in [*names, "x\ny"]]
    Path("g.csv").write_text("subject,predicate,object\n" + "\n".join(rows), encoding="utf-8")
    assert run("kg", "build", "g.csv", "--out", "my.kg")[0] == 0
    status, _, err = run("kg", "subjects", "my.kg", "--out", "words.txt")
    assert status == 0
    assert "6 subjects; 1 shorter than --min-length left out; 1 with a line end left out" in err
    assert "annotate: {user_dict: words.txt}" in err
    words = [word for word, _ in read_user_dict("words.txt")]
    assert words == sorted(name for name in names if len(name) > 1)
    assert run("kg", "subjects", "my.kg", "--min-length", "1", "--out", "all.txt")[0] == 0
    assert [word for word, _ in read_user_dict("all.txt")] == sorted(names)
    whole = Path("words.txt").read_text(encoding="utf-8")
    monkeypatch.setattr("pipelines.kg_subjects._SPELLINGS", 2)
    assert run("kg", "subjects", "my.kg", "--out", "words.txt")[0] == 0
    assert Path("words.txt").read_text(encoding="utf-8") == whole
    (spo.parent / "printed.txt").touch()
    with Path("printed.txt").open("w", encoding="utf-8") as printed:
        monkeypatch.setattr(sys, "stdout", printed)
        with pytest.raises(SystemExit):
            monkeypatch.setattr(sys, "argv", ["treegraft", "kg", "subjects", "my.kg"])
            cli.main()
    assert Path("printed.txt").read_text(encoding="utf-8") == whole


# --- lookup -----------------------------------------------------------------------------------


@pytest.fixture
def graph(spo: Path) -> KnowledgeGraph:
    compile_graph(["g.spo"], Path("my.kg"), options=BuildOptions(fold=("case",)))
    return KnowledgeGraph.open("my.kg")


def shown(graph: KnowledgeGraph, *texts: str, width: int = 100, **policy: object) -> str:
    found = look_up(graph, GraftPolicy(**policy), PlainTokens(), texts, 512)  # type: ignore[arg-type]
    out = io.StringIO()
    console = Console(file=out, width=width, color_system=None)
    for part in lookup_parts(found, graph, [("graph", "my.kg")], width):
        console.print(part)
    return out.getvalue()


def test_every_triple_of_a_mention_has_its_fate(graph: KnowledgeGraph) -> None:
    text = shown(graph, "我在北京大学，北京。")
    lines = words_of(text)
    assert ["0", "北京大学", "2–6", "北京大学", "1", "1"] in lines
    assert ["1", "北京", "7–9", "北京", "4", "2"] in lines
    assert ["1", "首都之于", "中国", "kept", "g.spo:1"] in lines
    assert ["2", "类别", "城市", "kept", "g.spo:2"] in lines
    assert ["3", "位于", "华北", "more", "than", "branches_per_mention", "g.spo:3"] in lines
    assert "北 京 大 学" in text and "(北京 首都之于 中国)" in text


def test_subjects_that_are_no_mention_say_why(graph: KnowledgeGraph) -> None:
    lines = words_of(
        shown(graph, "北京大学 Pineapple 京", stop=frozenset({"北京大学"}), max_mention_length=8)
    )
    assert ["0–4", "北京大学", "on", "the", "stop", "list"] in lines
    assert ["9–14", "apple", "inside", "a", "word"] in lines
    assert ["15–16", "京", "shorter", "than", "min_mention_length"] in lines
    assert ["0", "北京", "0–2", "北京", "4", "2"] in lines
    text = shown(graph, "北京大学")
    lines = words_of(text.split("triples of")[0])
    assert sum("北京大学" in line for line in lines) == 2, "as the text and as the mention"
    assert ["0–2", "北京", "overlapped", "by", "a", "longer", "or", "earlier", "mention"] in lines
    assert "No subject of the graph is mentioned" in shown(graph, "晴天")


def test_a_mention_inside_a_token_is_none_and_has_no_triples(
    graph: KnowledgeGraph, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "pipelines.plain_tokens._pieces",
        lambda text: [(0, 1), (1, 3), (3, len(text))] if len(text) == 6 else [(0, len(text))],
    )
    text = shown(graph, "我北京大中国")
    lines = words_of(text)
    assert ["1–3", "北京", "begins", "or", "ends", "inside", "a", "token"] not in lines, (
        "a whole token ends there"
    )
    assert ["4–6", "中国", "begins", "or", "ends", "inside", "a", "token"] in lines
    assert "triples of 中国" not in text


def test_a_branch_of_depth_two_and_its_loop(graph: KnowledgeGraph) -> None:
    lines = words_of(shown(graph, "北京。", depth=2, branches_per_mention=3))
    at = lines.index(["1", "首都之于", "中国", "kept", "g.spo:1"])
    inner = lines[at + 1 : at + 3]
    assert [
        "└",
        "1",
        "首都",
        "北京",
        "object",
        "that",
        "leads",
        "back",
        "to",
        "where",
        "it",
        "hangs",
        "g.spo:6",
    ] in inner
    assert ["└", "2", "类别", "国家", "kept", "g.spo:7"] in inner


@pytest.mark.parametrize("width", [60, 80])
def test_lookup_fits_the_terminal_and_cannot_steer_it(graph: KnowledgeGraph, width: int) -> None:
    for text in ("我住在北京大学，" * 6 + EVIL, "APPLE 北京"):
        said = shown(graph, text, "北京", width=width, depth=2)
        assert not [c for c in said if c != "\n" and not c.isprintable()]
        before_tree = said.split("sentence tree")[0]
        assert max(cell_len(line) for line in before_tree.splitlines()) <= width


def test_a_hostile_graph_cannot_steer_the_terminal(spo: Path, run) -> None:
    odd = "\u202e[bold]\u200b<b>:smile:"
    spo.write_text(f"北京{odd}\tp{odd}\to{odd}\n北京\t{odd}\t中国\n", encoding="utf-8")
    for words in (
        ("build", "g.spo", "--out", f"{odd}.kg"),
        ("stats", f"{odd}.kg"),
        ("lookup", f"{odd}.kg", f"北京{odd}，北京{EVIL}"),
    ):
        status, out, err = run("kg", *words)
        assert status == 0, err
        assert not [c for c in out + err if c != "\n" and not c.isprintable()]
        assert "\\u202e[bold]\\u200b<b>:smile:" in out.replace("\n", "").replace(" ", "")


def test_lookup_of_a_config_has_its_policy_tokenizer_and_words(spo: Path, run, tmp_path: Path) -> None:
    assert run("kg", "build", "g.spo", "--out", "my.kg")[0] == 0
    graph: dict[str, object] = {
        "match": "words",
        "rank": "shortest",
        "branches_per_mention": 1,
        "stop": ["中国"],
    }
    graph["exclude_predicates"] = ["甲", "乙"]
    config = small_config(tmp_path, graph=graph)
    status, out, err = run("kg", "lookup", "my.kg", "北京的北京大学", "--config", config)
    assert status == 0, err
    assert ["3–5", "北京", "no", "word", "of", "the", "segmentation"] in words_of(out)
    text = " ".join(out.split())
    assert (
        "match: words" in text
        and "rank: shortest" in text
        and "exclude_predicates: 乙, 甲" in text
        and "stop: 中国" in text
    )
    assert "vocab.txt" in text
    assert text.count("more than branches_per_mention") == 3
    small_config(tmp_path, encode={"columns": ["syntax"]}, graph={})
    raw = config.read_text(encoding="utf-8")
    config.write_text(raw[: raw.index("graph:")] + raw[raw.index("run:") :], encoding="utf-8")
    status, _, err = run("kg", "lookup", "my.kg", "北京", "--config", config)
    assert status == 2


def test_lookup_cuts_a_text_as_a_corpus_of_questions_would(spo: Path, run, tmp_path: Path) -> None:
    assert run("kg", "build", "g.spo", "--out", "my.kg")[0] == 0
    config = yaml.safe_load((SAMPLES / "zh-questions.yaml").read_text(encoding="utf-8"))
    config["input"]["files"] = str(SAMPLES / "zh/questions.dev.json")
    config["encode"] |= {"tokenizer": str(SAMPLES / "vocab.txt"), "columns": ["tree"]}
    config["graph"] = {"triples": str(spo), "match": "words"}
    path = tmp_path / "questions.yaml"
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    status, out, err = run("kg", "lookup", "my.kg", "他在北京", "--config", path)
    assert status == 0, err
    assert "match: words" in " ".join(out.split()) and "2–4" in out


def test_lookup_reads_standard_input(spo: Path, run, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run("kg", "build", "g.spo", "--out", "my.kg")[0] == 0
    for raw, good in (("我在北京\n".encode(), True), (b"\xff\xfe", False)):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(raw)))
        status, out, err = run("kg", "lookup", "my.kg", "-")
        assert (status == 0) == good
        assert ("triples of 北京" in out) == good
        assert ("standard input is not UTF-8" in err) != good


@pytest.mark.parametrize("text", ["", " \n", "x" * 20_001])
def test_texts_that_cannot_be_looked_up_are_refused(spo: Path, run, text: str) -> None:
    assert run("kg", "build", "g.spo", "--out", "my.kg")[0] == 0
    status, _, err = run("kg", "lookup", "my.kg", text)
    assert status == 2
    assert "has no tokens" in err or "20,001 characters" in err


def test_many_places_that_are_no_mention_are_counted_and_few_listed(spo: Path, run) -> None:
    spo.write_text("".join(f"{'啊' * k}\t类\t字\n" for k in range(1, 41)), encoding="utf-8")
    assert run("kg", "build", "g.spo", "--out", "my.kg")[0] == 0
    graph = KnowledgeGraph.open("my.kg")
    found = look_up(graph, GraftPolicy(), PlainTokens(), ["啊" * 400], 512)
    everywhere = sum(400 - k + 1 for k in range(1, 41))
    assert found.others_count == everywhere - 10  # ten mentions of forty characters
    assert len(found.others) == 50
    status, out, _ = run("kg", "lookup", "my.kg", "啊" * 400)
    assert status == 0 and f"{everywhere - 10:,}, first 50" in out


def test_lookup_tries_another_policy(spo: Path, run) -> None:
    run("kg", "build", "g.spo", "--out", "my.kg")
    plain = run("kg", "lookup", "my.kg", "北京")[1]
    assert "华北" not in [row[2] for row in words_of(plain) if row[-1:] == ["g.spo:3"] and "kept" in row]
    words = ("--set", "rank=shortest", "--set", "graph.branches_per_mention=3", "--set", "stop=[中国, 京]")
    status, out, _ = run("kg", "lookup", "my.kg", "北京", *words)
    assert status == 0 and "rank: shortest" in out and "branches_per_mention: 3" in out
    assert sum("kept" in line for line in out.splitlines() if "g.spo:" in line) == 3
    for wrong, message in (
        ("rnk=shortest", "did you mean rank=...?"),
        ("rank=short", "rank must be 'file'"),
        ("depth", "expected KEY=VALUE"),
        ("max_length=3", "set it in a config"),
        ("zz=3", "keys: branches_per_mention"),
        ("branches_per_mention=many", "--set: "),
    ):
        status, _, err = run("kg", "lookup", "my.kg", "北京", "--set", wrong)
        assert status == 2 and message in " ".join(err.split()), err


def test_verify_knows_a_compiled_graph(spo: Path, run) -> None:
    run("kg", "build", "g.spo", "--out", "my.kg")
    status, out, _ = run("verify", "my.kg")
    assert status == 0 and "every file is as it was compiled" in out
    column = Path("my.kg/objects.npy")
    raw = bytearray(column.read_bytes())
    raw[-1] ^= 1
    column.write_bytes(bytes(raw))
    status, _, err = run("verify", "my.kg")
    assert status == 1 and "objects.npy was changed" in err


def test_plain_tokens_tile_what_is_no_white_space() -> None:
    text = f"我爱 Apple's 9.5元，e\u0301t\u00e9 한국{SAMPLES.name}\u200b"
    tokens = PlainTokens().encode_texts([text, ""])
    pieces = [text[a:b] for a, b in zip(tokens.starts.tolist(), tokens.stops.tolist(), strict=True)]
    assert "".join(pieces) == text.replace(" ", "")
    assert pieces[:7] == ["我", "爱", "Apple", "'", "s", "9.5", "元"]
    assert tokens.offsets.tolist() == [0, len(pieces), len(pieces)]
