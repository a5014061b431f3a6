"""RDF/XML: entities of the file are expanded within bounds, nothing outside the file is read."""

from __future__ import annotations

from pathlib import Path

import pytest

from kg.errors import GraphError
from kg.read import rdfxml
from tests.kg.read.reading import read

NAMESPACES = (
    'xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:x="http://x/" '
    'xmlns:rdfs="http://www.w3.org/2000/01/rdf-schema#"'
)


def document(body: str, doctype: str = "", encoding: str = "utf-8") -> bytes:
    head = f'<?xml version="1.0" encoding="{encoding}"?>\n{doctype}\n'
    return f"{head}<rdf:RDF {NAMESPACES}>{body}</rdf:RDF>".encode(encoding)


def values(content: bytes) -> list[str]:
    return [row[2] for row in read(content, "a.rdf", unlabelled="local_name")[0]]


def about(text: str) -> str:
    return f'<rdf:Description rdf:about="http://x/a"><x:p>{text}</x:p></rdf:Description>'


def test_a_file_as_editors_write_it() -> None:
    doctype = '<!DOCTYPE rdf:RDF [\n<!ENTITY x "http://x/">\n<!ENTITY fruit "水果">]>'
    body = """<!-- a comment --><?pi x?>
      <rdf:Description rdf:about="&x;a" rdfs:label="苹果">
        <x:p rdf:resource="#b"/> <x:q>&lt;&fruit;&amp;"'&#13;<![CDATA[<x>]]></x:q>
        <x:r rdf:parseType="Resource"><x:s>blank</x:s></x:r>
      </rdf:Description>
      <rdf:Description rdf:ID="b"><rdfs:label xml:lang="zh">红果</rdfs:label></rdf:Description>"""
    rows, counts, _ = read(document(body, doctype), "a.owl", language="zh")
    assert rows == [("苹果", "p", "红果", 2), ("苹果", "q", "<水果&\"'\r<x>", 3)]
    assert counts.left_out == {"label": 2, "no_label": 2}


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "iso-8859-1"])
def test_encodings(encoding: str) -> None:
    assert values(document(about("é"), encoding=encoding)) == ["é"]
    assert values(b"\xef\xbb\xbf" + document(about("é"))) == ["é"]


def test_external_entities_are_not_read(tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("secret")
    doctype = f'<!DOCTYPE r [\n<!ENTITY e SYSTEM "{secret.as_uri()}">]>'
    with pytest.raises(GraphError, match=r"a\.rdf, line 4: .*external entity"):
        values(document(about("&e;"), doctype))
    assert values(document(about("o"), doctype)) == ["o"]


@pytest.mark.parametrize(
    "doctype",
    [
        '<!DOCTYPE r SYSTEM "file:///nowhere.dtd">',
        '<!DOCTYPE r [<!ENTITY % p SYSTEM "file:///nowhere.dtd"> %p; <!ENTITY e "x">]>',
        '<!DOCTYPE r SYSTEM "file:///nowhere.dtd" [%p; <!ENTITY e "x">]>',
    ],
)
def test_entities_that_an_outer_file_could_declare_are_an_error(doctype: str) -> None:
    with pytest.raises(GraphError, match=r"a\.rdf, line 3: .*'e', which the file does not declare"):
        values(document(about("&e;"), doctype))
    assert values(document(about("o"), doctype)) == ["o"]


def test_entities_within_entities_are_bounded() -> None:
    nested = "".join(f'<!ENTITY a{n} "{f"&a{n - 1};" * 10}">' for n in range(1, 12))
    doctype = f'<!DOCTYPE r [<!ENTITY a0 "aaaaaaaaaa">{nested}]>'
    assert values(document(about("&a2;"), doctype)) == ["a" * 1000]
    with pytest.raises(GraphError, match=r"a\.rdf, line 3: "):
        values(document(about("&a11;"), doctype))
    long = f'<!DOCTYPE r [<!ENTITY a "{"a" * 100_000}">]>'
    with pytest.raises(GraphError, match=r"a\.rdf, line 3: "):
        values(document(about("&a;" * 1_000_000), long))


def test_elements_that_nest_too_deep(monkeypatch: pytest.MonkeyPatch) -> None:
    def nested(depth: int) -> bytes:
        return document("<x:a>" * depth + "</x:a>" * depth)

    with pytest.raises(GraphError, match=r"a\.rdf, line 3: elements nest deeper than 256"):
        values(nested(300))
    monkeypatch.setattr(rdfxml, "MAX_DEPTH", 20)
    assert values(nested(18)) == []
    assert values(document(about("o") * 100)) == ["o"] * 100
    with pytest.raises(GraphError, match="deeper than 20"):
        values(nested(20))


def test_texts_and_tags_without_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rdfxml, "MAX_LINE_BYTES", 1 << 20)
    assert values(document(about("x" * (1 << 20)))) == ["x" * (1 << 20)]
    for text in ("x" * (1 << 21), "x\n" * (1 << 20), "&amp;" * (3 << 19)):
        with pytest.raises(GraphError, match=r"a text of more than 1,048,576 characters"):
            values(document(about(text)))
    with pytest.raises(GraphError, match="a tag or comment of more than"):
        values(document("<!--" + "x" * (1 << 22) + "-->"))


def test_errors_of_rdf_come_with_a_place() -> None:
    with pytest.raises(GraphError, match=r"a\.rdf, at or before line \d+: "):
        values(document('<rdf:Description rdf:about="http://x/a" rdf:ID="b"/>\n'))


@pytest.mark.parametrize("name", ["xmlns:long", "xmlns", "xml:base"])
def test_namespaces_and_bases_are_no_longer_than_iris(name: str) -> None:
    for size, fits in ((4000, True), (1_000_000, False)):
        start = f'<rdf:Description {name}="http://x/{"a" * size}/" rdf:about="'
        content = document(f'{start}#b"><x:p>o</x:p></rdf:Description>')
        if fits:
            assert values(content) == ["o"]
        else:
            with pytest.raises(GraphError, match=rf"a\.rdf, line 3: {name} of more than 4,096 characters"):
                values(content)


def test_iris_are_no_longer_than_iris() -> None:
    with pytest.raises(GraphError, match=r"a\.rdf, statement 1: an IRI of 20,009 characters"):
        values(document(about("o").replace("http://x/a", f"http://x/{'a' * 20_000}")))
