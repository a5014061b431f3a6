"""Files that are damaged, huge or not what they seem: a clear error or counts, in bounded memory."""

from __future__ import annotations

import bz2
import gzip
import io
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from kg.errors import GraphError
from kg.read import ReadCounts, ReadOptions, read_triples
from tests.kg.read.reading import read, read_files

LINE = {
    "a.spo": "甲乙\t类\t丙\n",
    "a.tsv": "甲乙\t丙\n",
    "a.csv": "subject,predicate,object\n",
    "a.nt": '<http://x/a> <http://x/p> "丙" .\n',
    "a.ttl": '<http://x/a> <http://x/p> "丙" .\n',
    "conceptnet-assertions-5.csv": "/a/x\t/r/IsA\t/c/en/a\t/c/en/b\t{}\n",
}
LINES = [name for name in LINE if name != "a.ttl"]


def compressed(opener: Callable[[Any], Any], data: bytes) -> Callable[[str], BinaryIO]:
    return lambda _: opener(io.BytesIO(data))


@pytest.mark.parametrize("name", LINE)
@pytest.mark.parametrize(("pack", "opener"), [(gzip.compress, gzip.open), (bz2.compress, bz2.open)])
def test_compressed_streams_and_those_cut_off(
    name: str, pack: Callable[[bytes], bytes], opener: Callable[[Any], Any]
) -> None:
    body = b"".join(os.urandom(8).hex().encode().join([b"# ", b"\n"]) for _ in range(3000))
    content = body + LINE[name].encode() if name != "a.csv" else LINE[name].encode() + b"a,b,c\n" * 3000
    options = ReadOptions(language="en" if "concept" in name else None, unlabelled="local_name")
    stored = pack(content)
    rows = list(
        read_triples([f"{name}.gz"], lambda _: None, options=options, open_binary=compressed(opener, stored))
    )
    assert len(rows) == (3000 if name == "a.csv" else 1)
    with pytest.raises(GraphError, match=rf"{name}\.gz cannot be read to its end: .*[Ff]etch"):
        list(
            read_triples(
                [f"{name}.gz"], lambda _: None, options=options, open_binary=compressed(opener, stored[:-20])
            )
        )


class Damaged(ValueError):
    """What the opener of another room may raise; its message names the file already."""


class Stream(io.RawIOBase):
    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        raise Damaged("a.spo is truncated")


@pytest.mark.parametrize("name", LINE)
def test_errors_of_an_opener_that_name_the_file_come_through(name: str) -> None:
    with pytest.raises(Damaged):
        list(
            read_triples(
                [name], lambda _: None, options=ReadOptions(language="en"), open_binary=lambda _: Stream()
            )
        )


@pytest.mark.parametrize("name", LINE)
def test_empty_files_and_files_of_comments(name: str) -> None:
    options = {"language": "en"}
    for content in (b"", b"\xef\xbb\xbf"):
        rows, counts, rejects = read(content, name, **options)
        assert (rows, counts, rejects) == ([], ReadCounts(), [])
    if name not in ("a.csv", "a.ttl"):
        rows, counts, rejects = read(b"# a\n#\n\n# b", name, **options)
        assert (rows, counts, rejects) == ([], ReadCounts(read=4, left_out={"comment": 3, "blank": 1}), [])


def test_files_with_a_byte_order_mark_and_crlf() -> None:
    content = {
        name: b"\xef\xbb\xbf"
        + (line + ("甲乙,类,丙\n" if name == "a.csv" else "")).replace("\n", "\r\n").encode()
        for name, line in LINE.items()
    }
    rows, _, rejects = read_files(content, language="en", unlabelled="local_name")
    assert rejects == []
    assert [row[:3] for row in rows] == [
        ("甲乙", "类", "丙"),
        ("甲乙", "", "丙"),
        ("甲乙", "类", "丙"),
        ("a", "p", "丙"),
        ("a", "p", "丙"),
        ("a", "IsA", "b"),
    ]


@pytest.mark.parametrize("name", LINES)
def test_garbage_is_rejected_line_by_line(name: str) -> None:
    random = os.urandom(20_000)
    rows, counts, rejects = read(random, name, language="en") if name != "a.csv" else read(
        LINE[name].encode() + random, name
    )  # fmt: skip
    assert len(rejects) > 10
    assert counts.read >= len(rejects)
    assert all(len(reject.excerpt) <= 200 for reject in rejects)
    assert len(rows) < 3


def test_objects_of_ten_megabytes() -> None:
    big = "丙" * 3_400_000
    content = {
        "a.spo": f"甲乙\t类\t{big}\n",
        "a.csv": f'subject,predicate,object\n甲乙,类,"{big}"\n',
        "a.nt": f'<http://x/甲乙> <http://x/类> "{big}" .\n',
        "a.ttl": f'<http://x/甲乙> <http://x/类> "{big}" .\n',
        "a.rdf": '<r:RDF xmlns:r="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:x="http://x/">'
        f'<r:Description r:about="http://x/甲乙"><x:类>{big}</x:类></r:Description></r:RDF>',
    }
    rows, _, rejects = read_files(
        {name: text.encode() for name, text in content.items()}, unlabelled="local_name"
    )
    assert rejects == []
    assert [row[:3] for row in rows] == [("甲乙", "类", big)] * 5


@pytest.mark.parametrize(("name", "fate"), [*((name, "line_too_long") for name in LINES), ("a.ttl", "buffer"), ("a.rdf", "more than"), ("b.rdf", "more than")])  # fmt: skip
def test_memory_is_bounded_where_nothing_ends(name: str, fate: str) -> None:
    """200 MB without a line's end, in a process of its own."""
    script = """
        import io, sys
        from kg.errors import GraphError
        from kg.read import ReadCounts, ReadOptions, read_tables

        name = sys.argv[1]
        quad = b'<http://x/a> <http://x/p> "'
        start = {
            "a.nt": quad, "a.ttl": quad, "a.csv": b'subject,predicate,object\\n"', "b.rdf": b"<!--",
            "a.rdf": b"<r:RDF xmlns:r='http://www.w3.org/1999/02/22-rdf-syntax-ns#' xmlns:x='http://x/'><x:a><x:p>",
        }

        class Endless:
            def __init__(self):
                self.left, self.start = 200_000_000, start.get(name, b"")
            def read(self, size):
                part = self.start or b"x" * min(size, self.left)
                self.start, self.left = b"", self.left - len(part)
                return part
            def __enter__(self):
                return self
            def __exit__(self, *_):
                pass

        counts = ReadCounts()
        def read(name, opener):
            options = ReadOptions(language="en")
            list(read_tables([name], lambda _: None, options=options, counts=counts, open_binary=lambda _: opener()))
        def peak():
            return int(next(l for l in open("/proc/self/status") if l.startswith("VmHWM")).split()[1]) // 1024

        read("a.spo", lambda: io.BytesIO(b"ab\\tis\\tc\\n"))  # libraries are loaded
        read("a.ttl", io.BytesIO)
        before = peak()
        try:
            read(name, Endless)
            print(*counts.rejected, end=" ")
        except GraphError as error:
            print(str(error).replace(" ", "_"), end=" ")
        print(peak() - before)
    """
    code = textwrap.dedent(script)
    found = subprocess.run(
        [sys.executable, "-c", code, name],
        check=True, capture_output=True, text=True, cwd=Path(__file__).parents[3],
    ).stdout.split()  # fmt: skip
    assert fate.replace(" ", "_") in found[0]
    assert int(found[1]) < 100, found
