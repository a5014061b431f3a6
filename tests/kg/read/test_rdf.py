"""RDF: statements become texts by their labels, and each of them is counted once."""

from __future__ import annotations

import builtins
from typing import Any

import pytest

from kg.errors import GraphError
from kg.read.options import LABELS
from tests.kg.read.reading import blocks_of, read, read_files

LABEL = f"<{LABELS[0]}>"
PREFIXES = "@prefix : <http://x/> . @prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .\n"
TURTLE = (
    PREFIXES
    + """:a :p :b ; :q "文"@zh, "字"@zh-TW, "word"@en, 42, "2001-02-03"^^<http://x/date>, [] ;
   rdfs:label "苹果"@zh, "apple"@en .
:b rdfs:label "水果"@zh-CN . :p rdfs:label "是"@zh .
:a :p :New_York%20City . _:n :p :b .
"""
)


def test_nodes_become_their_labels_and_literals_their_text() -> None:
    rows, counts, rejects = read(TURTLE.encode(), "a.ttl", language="zh")
    assert rows == [
        ("苹果", "是", "水果", 1),
        ("苹果", "q", "文", 2),
        ("苹果", "q", "字", 3),
        ("苹果", "q", "42", 5),
        ("苹果", "q", "2001-02-03", 6),
    ]
    assert rejects == []
    assert counts.left_out == {"other_language": 2, "no_label": 3, "label": 3}
    assert counts.read == 13


def test_languages_are_taken_in_order_and_lost_ones_are_told() -> None:
    content = (
        PREFIXES
        + """:a rdfs:label "apple"@en, "苹果"@zh-CN, "Apfel"@de . :b rdfs:label "pear"@en, "Birne"@de .
:c rdfs:label "Kirsche"@de, "Sauerkirsche"@de-AT . :d rdfs:label "fig"@en, "Feige" .
:a :p :b . :b :p :c . :d :p :a .
"""
    ).encode()
    rows, counts, _ = read(content, "a.ttl", language="zh,en")
    assert [row[::2][:2] for row in rows] == [("苹果", "pear"), ("fig", "苹果")]
    assert counts.left_out["no_label"] == 1
    assert counts.remarks == []
    assert counts.languages == {"en", "de", "zh-cn", "de-at"}
    assert read(content, "a.ttl", language="en, zh")[0][0][0] == "apple"
    counts = read(content, "a.ttl")[1]
    assert counts.remarks == [
        "2 nodes have labels in several languages; one label of each was taken, whatever its language: give "
        "`language: en`, say"
    ]


def test_more_languages_than_have_numbers() -> None:
    tags = [f"{a}{b}" for a in "abcdefgh" for b in "abcdefghijkl"]
    labels = " , ".join(f'"{tag}"@{tag}' for tag in tags)
    rows, counts, _ = read((PREFIXES + f":a rdfs:label {labels} . :a :p :a .").encode(), "a.ttl")
    assert rows == [("aa", "p", "aa", len(tags) + 1)]
    assert counts.remarks[0].startswith("1 node has labels in several languages")


def test_nodes_without_a_label_may_have_their_local_name() -> None:
    rows, counts, _ = read(TURTLE.encode(), "a.ttl", language="zh", unlabelled="local_name")
    assert ("苹果", "是", "New York City", 12) in rows
    assert counts.left_out == {"other_language": 2, "no_label": 2, "label": 3}


@pytest.mark.parametrize(
    ("iri", "name"),
    [
        ("http://x/a#b_c", "b c"),
        ("http://x#a/b", "b"),
        ("urn:isbn:1", "urn:isbn:1"),
        ("http://x/%E8%8B%B9%E6%9E%9C", "苹果"),
        ("http://x/%FF_%41", "%FF %41"),
        ("http://x/a%2Fb", "a/b"),
        ("http://x/苹果", "苹果"),
        ("http://x/", None),
        ("http://x/_", None),
    ],
)
def test_local_names(iri: str, name: str | None) -> None:
    content = f'<{iri}> <http://x/p> "o" .\n'.encode()
    rows, counts, _ = read(content, "a.nt", unlabelled="local_name")
    assert rows == ([] if name is None else [(name, "p", "o", 1)])
    assert counts.left_out == ({"no_label": 1} if name is None else {})


def test_labels_stand_in_any_file_and_behind_their_use() -> None:
    files = {
        "a.nt": b"<http://x/a> <http://x/p> <http://x/b> .\n",
        "b.spo": b"<http://x/a>\tis\tb\n",
        "c.ttl": (PREFIXES + ':b rdfs:label "bee" . :a rdfs:label "ay" .').encode(),
    }
    rows, counts, _ = read_files(files)
    assert rows == [("ay", "p", "bee", "a.nt", 1), ("<http://x/a>", "is", "b", "b.spo", 1)]
    assert counts.left_out == {"label": 2}


@pytest.mark.parametrize(
    ("labels", "language", "chosen"),
    [
        (["rdfs:label 'b'@zh", "rdfs:label 'a'@zh-CN", "rdfs:label '0'", "skos:prefLabel 'A'@zh"], "zh", "b"),
        (["rdfs:label 'b'@zh-hk", "rdfs:label 'c'@zh-CN", "rdfs:label '0'"], "zh", "b"),
        (["rdfs:label 'b'@en", "rdfs:label '0'", "rdfs:label '1'"], "zh", "0"),
        (["rdfs:label 'b'@zh", "rdfs:label '乙'@zh", "rdfs:label 'B'@ZH"], "zh", "B"),
        (["rdfs:label 'b'@en", "skos:prefLabel 'c'@zh"], "zh", "c"),
        (["rdfs:label 'z'", "skos:prefLabel 'A'@zh"], "zh", "z"),
        (["rdfs:label 'b'@zh", "rdfs:label 'a'@zh-Hans"], "zh-Hans", "a"),
        (["rdfs:label 'b'@zho"], "zh", None),
        (["rdfs:label '𠀀'", "rdfs:label '￼'"], None, "￼"),  # by code point, not by UTF-16 unit
        (["rdfs:label 'b'@zh", "rdfs:label 'a'@en", "skos:prefLabel 'A'"], None, "a"),
        (["rdfs:label ' '@zh", "rdfs:label '\\u0000'@zh", "rdfs:label ' z '@zh"], "zh", "z"),
        (["rdfs:label :c", "rdfs:label 'c'"], "zh", "c"),
        (["<http://schema.org/name> 's'", "<http://xmlns.com/foaf/0.1/name> 'f'"], None, "s"),
    ],
)  # fmt: skip
def test_of_several_labels_one_is_chosen(labels: list[str], language: str | None, chosen: str | None) -> None:
    head = PREFIXES + "@prefix skos: <http://www.w3.org/2004/02/skos/core#> . :a :p 'o' .\n"
    for order in (labels, labels[::-1]):
        content = head + "".join(f":a {label} .\n" for label in order)
        rows = read(content.encode(), "a.ttl", language=language)[0]
        assert [row[0] for row in rows if row[2] == "o"] == ([] if chosen is None else [chosen])


def test_other_properties_may_give_the_labels() -> None:
    content = (
        b'<http://x/a> <http://x/p> "o" .\n<http://x/a> <http://x/l> "L" .\n<http://x/a> %s "r" .\n'
        % LABEL.encode()
    )
    rows, counts, _ = read(content, "a.nt", labels=["http://x/l"])
    assert rows == [("L", "p", "o", 1), ("L", "label", "r", 3)]
    assert counts.left_out == {"label": 1}


def test_malformed_lines_of_n_triples_are_rejected_alone() -> None:
    lines = [
        '<http://x/a> <http://x/p> "1" .',
        "garbage",
        '<http://x/a> <http://x/p> "2"',
        "# a comment",
        '<http://x/a> <p> "3" .',
        '<http://x/a> <http://x/p> "4" . <http://x/a> <http://x/p> "5" .',
        "",
        '<http://x/a> <http://x/p>',
        ' "6" .',
        '<http://x/a> <http://x/p> "7',
        '<http://x/a> <http://x/p> "\\uD800" .',
        '<http://x/a> <http://x/p> "8" . # with a comment\r',
        '<http://x/a> <http://x/p> "9" .\r<http://x/a> <http://x/p> "9" .',
        '<http://x/a> <http://x/p> " " .',
        '<http://x/a> <http://x/p> "\\u001b" .',
        '<http://x/a> <http://x/p> "10"@en .',
        f'<http://x/a> {LABEL} "A" .',
    ]  # fmt: skip
    content = (
        "\n".join(lines).encode() + b'\n<http://x/a> <http://x/p> "\xff" .\n<http://x/a> <http://x/p> "11" .'
    )
    for block in (1 << 20, 50):
        with blocks_of(block):
            rows, counts, rejects = read(content, "a.nt")
        assert [(row[2], row[3]) for row in rows] == [("1", 1), ("8", 12), ("10", 16), ("11", 19)]
        assert sorted((r.line, r.reason) for r in rejects) == [
            *((n, "bad_syntax") for n in (2, 3, 5, 6, 8, 9, 10, 11, 13)),
            (14, "empty_object"),
            (15, "control_character"),
            (18, "bad_encoding"),
        ]
        assert counts.left_out == {"comment": 1, "blank": 1, "label": 1}
        starts = {r.line: r.byte for r in rejects}
        assert content[starts[11] :].startswith(lines[10].encode())
        assert content[starts[15] :].startswith(lines[14].encode())
    details = {r.line: r.detail for r in rejects}
    assert details[5] == "columns 14 and 17: No scheme found in an absolute IRI"
    assert details[13] == "a carriage return inside the line"


def test_n_quads_and_trig_lose_their_graphs() -> None:
    assert read(b'<http://x/a> <http://x/p> "o" <http://g> .\n', "a.nq", unlabelled="local_name")[0] == [
        ("a", "p", "o", 1)
    ]
    assert read(b"@prefix : <http://x/> . :g { :a :p 'o' . }", "a.trig", unlabelled="local_name")[0] == [
        ("a", "p", "o", 1)
    ]
    _, _, rejects = read(b'<http://x/a> <http://x/p> "o" <http://g> .\n', "a.nt")
    assert [r.reason for r in rejects] == ["bad_syntax"]


def test_triples_as_nodes_have_no_label() -> None:
    content = b"<http://x/a> <http://x/p> <<( <http://x/a> <http://x/p> <http://x/b> )>> .\n"
    rows, counts, _ = read(content, "a.nt", unlabelled="local_name")
    assert (rows, counts.left_out) == ([], {"no_label": 1})


def test_labels_that_are_written_with_escapes_are_found() -> None:
    escaped = LABEL.replace("label", "\\u006cabel")
    content = f'<http://x/a> <http://x/p> "o" .\n<http://x/\\u0061> {escaped} "A" .\n'.encode()
    assert read(content, "a.nt")[0] == [("A", "p", "o", 1)]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.ttl", PREFIXES + ":a :p 'o' .\n:a :p oh .\n:a :p 'o' .\n", r"a\.ttl, line 3: .*oh.*N-Triples"),
        ("a.trig", ":a :p 'o' .\n", r"a\.trig, line 1: .*prefix"),
        ("a.rdf", "@prefix : <http://x/> .\n", r"a\.rdf, line 1: this is no well-formed XML"),
        ("a.owl", "<a>\n<b>\n</a>\n", r"a\.owl, line 3: this is no well-formed XML \(mismatched tag\)"),
        ("a.rdf", "", r"a\.rdf, line 1: this is no well-formed XML"),
        ("a.ttl", b":a :p '\xff' .", r"a\.ttl, line 1: "),
    ],
)
def test_the_first_error_of_a_document_stops(name: str, content: str | bytes, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        read(content if isinstance(content, bytes) else content.encode(), name)


def test_iris_that_are_not_quite_iris_do_no_harm_in_documents() -> None:
    content = (PREFIXES + "<x y> :p 'o' . <x y> rdfs:label 'A' .").encode()
    assert read(content, "a.ttl")[0] == [("A", "p", "o", 1)]
    assert [r.reason for r in read(b"<x y> <http://x/p> 'o' .\n", "a.nt")[2]] == ["bad_syntax"]


def test_a_syntax_has_to_be_told_by_the_name() -> None:
    with pytest.raises(GraphError, match=r"a\.txt: which RDF syntax.*\.ttl"):
        read(b"", "a.txt", format="rdf")


def test_without_pyoxigraph_the_line_that_installs_it_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def missing(name: str, *args: Any, **kwargs: Any) -> Any:
        if name == "pyoxigraph":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(GraphError, match="pip install pyoxigraph"):
        read(b"<http://x/a> <http://x/p> <http://x/b> .\n", "a.nt")


def test_a_byte_order_mark_is_no_part_of_a_document() -> None:
    assert len(read(b"\xef\xbb\xbf" + TURTLE.encode(), "a.ttl", language="zh")[0]) == 5


def test_documents_longer_than_a_batch_keep_their_numbers() -> None:
    content = "@prefix : <http://x/> .\n" + "".join(f":s{n} :p {n} .\n" for n in range(1, 70_001))
    rows, counts, _ = read(content.encode(), "a.ttl", unlabelled="local_name")
    assert counts.read == 70_000
    assert rows[65_535:65_537] == [("s65536", "p", "65536", 65_536), ("s65537", "p", "65537", 65_537)]
