"""What `treegraft kg build`, `stats` and `lookup` refuse: before any work, in one line."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from kg.graph import KnowledgeGraph
from pipelines import cli, graph_build


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """Runs `treegraft kg WORDS` in a folder with `g.spo`; exit status, standard output, standard error."""
    monkeypatch.chdir(tmp_path)
    Path("g.spo").write_text("北京\t类\t城市\n天津\t类\t城市\n", encoding="utf-8")

    def call(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["treegraft", "kg", *words])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        code = ended.value.code
        return int(code or 0), *(" ".join(part.split()) for part in capsys.readouterr())

    return call


@pytest.mark.parametrize("content", ["a letter\n", "", '{"path": "x"}\n', "[1]\n", "\0" * 100, "1"])
@pytest.mark.parametrize("line", ["broken\n", ""])
def test_a_file_that_is_no_list_of_malformed_lines_stays(run, content: str, line: str) -> None:
    Path("my.kg.rejects.jsonl").write_text(content)
    with Path("g.spo").open("a") as file:
        file.write(line)
    status, _, err = run("build", "g.spo", "--out", "my.kg", "--max-reject-fraction", "1")
    assert status == 2 and "my.kg.rejects.jsonl, and what is there is no such list; move it" in err
    assert Path("my.kg.rejects.jsonl").read_text() == content
    assert not Path("my.kg").exists()


def test_an_older_list_of_malformed_lines_is_replaced_and_removed(run) -> None:
    good = Path("g.spo").read_bytes()
    for bad in (b"broken\n", b"x" * 5000 + b"\n", b""):
        Path("g.spo").write_bytes(good + bad)
        assert run("build", "g.spo", "--out", "my.kg", "--max-reject-fraction", "1")[0] == 0
        listed = Path("my.kg.rejects.jsonl")
        assert listed.exists() == bool(bad)
        if bad:
            assert json.loads(listed.read_text())["excerpt"] == bad.decode().strip()[:200]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--max-reject-fraction", "nan"), "--max-reject-fraction"),
        (
            ("--columns", f"subject={'1' * 5000},object=2"),
            "--columns: subject: no file has that many columns",
        ),
        (("--columns", "subject=1,object=9999999999"), "--columns: object: no file has that many columns"),
        (("--stop", "/dev/zero"), "--stop: '/dev/zero' (found by '/dev/zero') is not a regular file"),
    ],
)
def test_flags_that_mean_nothing(run, flags: tuple[str, ...], message: str) -> None:
    status, _, err = run("build", "g.spo", "--out", "my.kg", *flags)
    assert status == 2 and message in err and len(err) < 400
    assert not Path("my.kg").exists()


def test_a_file_of_two_names_is_read_once(run) -> None:
    Path("link.spo").symlink_to("g.spo")
    Path("d").mkdir()
    names = ("g.spo", "./g.spo", "d/../g.spo", str(Path("g.spo").absolute()), "link.spo", ".", "*.spo")
    assert [info.path for info in graph_build.triple_files(names)] == ["g.spo"]
    assert run("build", *names, "--out", "my.kg")[0] == 0
    assert KnowledgeGraph.open("my.kg").info.read == 2


def test_standard_input_is_not_read_to_an_end_that_it_may_not_have(run, monkeypatch) -> None:
    class Endless(io.RawIOBase):
        def readable(self) -> bool:
            return True

        def readinto(self, buffer) -> int:
            nonlocal left
            assert left > 0, "read on and on"
            left -= len(buffer)
            buffer[:] = b"x" * len(buffer)
            return len(buffer)

    left = 1 << 20
    assert run("build", "g.spo", "--out", "my.kg")[0] == 0
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(Endless())))
    status, _, err = run("lookup", "my.kg", "-")
    assert status == 2 and "TEXT: standard input has more than 20,000 characters" in err


@pytest.mark.parametrize("command", ["stats", "lookup", "subjects"])
def test_a_damaged_graph_is_named(run, command: str) -> None:
    words = [command, "my.kg", *(["北京"] if command == "lookup" else [])]
    assert run("build", "g.spo", "--out", "my.kg")[0] == 0
    assert run(*words)[0] == 0
    columns = sorted(Path("my.kg").glob("*.npy"))
    assert len(columns) > 10
    for path in columns:
        good = path.read_bytes()
        if good:
            path.write_bytes(good[:-1] + bytes([good[-1] ^ 255]))
            status, _, err = run(*words)
            assert status == 2 and path.name in err and "compile the triples again" in err
            path.write_bytes(good)


@pytest.mark.parametrize("command", ["stats", "lookup", "subjects"])
@pytest.mark.parametrize(
    ("error", "message"),
    [
        (IndexError("index 7 is out of bounds"), "error: the graph is damaged"),
        (MemoryError("64 GiB"), "error: not enough memory for `treegraft kg {}` (64 GiB)"),
    ],
)
def test_trouble_within_a_graph_is_one_line(
    run, monkeypatch, command: str, error: Exception, message: str
) -> None:
    def trouble(folder: str) -> None:
        raise error

    monkeypatch.setattr("pipelines.view.kg_show.open_for_view", trouble)
    status, _, err = run(command, "my.kg", *(["北京"] if command == "lookup" else []))
    assert status == 1 and err.startswith(message.format(command))


def test_errors_of_ours_keep_their_traceback(monkeypatch) -> None:
    def trouble(*args: object) -> None:
        raise IndexError("ours")

    monkeypatch.setattr("pipelines.view.stats_show.show", trouble)
    monkeypatch.setattr(sys, "argv", ["treegraft", "stats", "anything"])
    with pytest.raises(IndexError, match="ours"):
        cli.main()
