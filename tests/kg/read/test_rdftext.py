"""RDF files made to end the process or to take all memory; each in a process of its own."""

from __future__ import annotations

import io
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from kg.errors import GraphError
from kg.read import rdftext
from tests.kg.read.reading import read

SCRIPT = """
    import io, resource, sys
    from kg.errors import GraphError
    from kg.read import ReadCounts, ReadOptions, read_triples

    resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))
    name, data = sys.argv[1], sys.stdin.buffer.read()
    counts = ReadCounts()
    options = ReadOptions(unlabelled="local_name")
    try:
        rows = list(read_triples([name], lambda _: None, options=options, counts=counts,
                                 open_binary=lambda _: io.BytesIO(data)))
        print(len(rows), *counts.rejected.items())
    except GraphError as error:
        print(error)
"""
SP = "<http://x/a> <http://x/p> "
NESTED = f"{SP}{f'<<( {SP}' * 20_000}<http://x/o>{' )>>' * 20_000} .\n"
GOOD = f'{SP}"o" .\n'
LONG = "a" * 1_000_000


def apart(name: str, text: str) -> str:
    """What is printed of a file that a process of its own reads, within 3 GB."""
    found = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(SCRIPT), name],
        input=text.encode(), capture_output=True, cwd=Path(__file__).parents[3], check=False, timeout=60,
    )  # fmt: skip
    assert found.returncode == 0, found.stderr.decode()[-500:]
    return found.stdout.decode()


@pytest.mark.parametrize("name", ["a.nt", "a.nq"])
def test_a_line_of_terms_within_terms_is_rejected_alone(name: str) -> None:
    assert apart(name, GOOD + NESTED + GOOD) == "2 ('bad_syntax', 1)\n"


@pytest.mark.parametrize("name", ["a.ttl", "a.trig"])
def test_a_document_of_terms_within_terms_is_an_error(name: str) -> None:
    said = apart(name, GOOD * 3 + NESTED)
    assert said.startswith(f"{name}, behind statement ") and "more than 4,096 triple terms" in said
    unclosed = GOOD + f"{SP}{f'<<( {SP} # )>> )>>{chr(10)}' * 20_000}"
    assert "triple terms" in apart(name, unclosed)


def test_terms_that_do_not_nest_too_deep_are_read() -> None:
    term = f"<<( {SP}<http://x/o> )>>"
    many = f"{SP}{term} .\n{SP}{', '.join([term] * 6000)} .\n" + f'{SP}"<<(" .\n' * 9000
    assert read(many.encode(), "a.ttl", unlabelled="local_name")[1].read == 15_001
    deep = f"{SP}{f'<<( {SP}' * 4000}<http://x/o>{' )>>' * 4000} .\n"
    assert read(deep.encode(), "a.ttl")[1].left_out == {"no_label": 1}
    for count, rejected in ((64, {}), (65, {"bad_syntax": 1})):
        line = f"{SP}{f'<<( {SP}' * count}<http://x/o>{' )>>' * count} .\n"
        assert read((GOOD + line).encode(), "a.nt")[1].rejected == rejected


def test_terms_are_counted_across_reads() -> None:
    text = b"<<(" * 5000
    for size in (1, 2, 3, 7, 1000):
        plain = rdftext.PlainText(io.BytesIO(text), "a.ttl", lambda: 0)
        taken = 0
        with pytest.raises(GraphError, match="triple terms"):
            while part := plain.read(size):
                taken += len(part)
        assert 4097 * 3 - size <= taken < 4097 * 3


@pytest.mark.parametrize(
    ("head", "body"),
    [
        (f"@prefix : <http://x/{LONG}> .", ":a <http://x/p> 1 .\n"),
        (f"@prefix : <http://x/{LONG}> .", f"{SP}<<( :a :b "),
        (f"{GOOD}pReFix é: # a comment\n<http://x/\n a{LONG}>", "é:a <http://x/p> 1 .\n"),
        (f"@base <http://x/{LONG}> .", "<#a> <http://x/p> 1 .\n"),
        (f"{SP}1 . BASE\n\n<http://x/{LONG}>", "<#a> <http://x/p> 1 .\n"),
        (f"@base <http://x/{LONG[:5000]}> .", "<#a> <http://x/p> 1 .\n"),
    ],
)
def test_long_prefixes_and_bases_are_an_error(head: str, body: str) -> None:
    assert "a prefix or base of more than 4,096 bytes" in apart("a.ttl", f"{head}\n{body * 3000}")


def test_prefixes_are_found_wherever_reads_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rdftext, "_HELD", 5000)
    for before in range(0, 10_000, 499):
        text = f"#{'x' * before}\n@prefix : <http://x/{'a' * 5000}> .\n:a :p 1 ."
        with pytest.raises(GraphError, match="a prefix or base"):
            read(text.encode(), "a.ttl")


def test_texts_that_look_like_prefixes_are_read() -> None:
    text = "the base < " + "a " * 20_000
    content = (
        f'@prefix x: <http://x/> .\nx:base x:prefix "{text}" .\nx:a x:p "prefix a: <" .\n'
        + "x:a x:p 1 .\n" * 2000
    )
    assert len(read(content.encode(), "a.ttl", unlabelled="local_name")[0]) == 2002


def test_iris_that_are_too_long() -> None:
    for size, fits in ((16_384, True), (16_385, False)):
        iri = f"<http://x/{'a' * (size - 9)}>"
        for line in (
            f'{iri} <http://x/p> "o" .',
            f'<http://x/a> {iri} "o" .',
            f"<http://x/a> <http://x/p> {iri} .",
        ):
            content = (GOOD + line + "\n" + GOOD * 2).encode()
            rows, counts, rejects = read(content, "a.nt", unlabelled="local_name")
            assert len(rows) == 3 + fits and counts.rejected == ({} if fits else {"bad_syntax": 1})
            assert [(r.line, r.detail) for r in rejects] == (
                [] if fits else [(2, "an IRI of 16,385 characters, at most 16,384")]
            )
            if fits:
                assert len(read(content, "a.ttl", unlabelled="local_name")[0]) == 4
            else:
                with pytest.raises(GraphError, match=r"a\.ttl, statement 2: an IRI of 16,385 characters"):
                    read(content, "a.ttl")
