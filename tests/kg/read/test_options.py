"""Options say what is wrong with them; formats go by names."""

from __future__ import annotations

from typing import Any

import pytest

from kg.errors import GraphError
from kg.read import ReadOptions
from kg.read.options import format_of
from tests.kg.read.reading import read


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"format": "spo"}, "format: expected one of auto, tsv, csv, rdf, conceptnet, found 'spo'"),
        ({"columns": [1, 2]}, "columns: expected role: column"),
        ({"columns": {"subject": 1}}, "columns: expected a column for subject and for object, found 'subject'"),
        ({"columns": {"subject": 1, "object": 2, "line": 3}}, "columns: expected the roles .*, found 'line'"),
        ({"columns": {"subject": 0, "object": 2}}, "columns.subject: expected a number from 1 .* found 0"),
        ({"columns": {"subject": True, "object": 2}}, "columns.subject: .* found True"),
        ({"columns": {"subject": "", "object": 2}}, "columns.subject"),
        ({"columns": {"subject": 1, "object": 1}}, "columns: expected a column of its own for each role"),
        ({"columns": {"subject": 1, "object": 2}, "format": "rdf"}, "columns: only tsv and csv"),
        ({"delimiter": ""}, "delimiter: expected one character"),
        ({"delimiter": ",,"}, "delimiter"),
        ({"delimiter": '"'}, "delimiter"),
        ({"delimiter": "\n"}, "delimiter"),
        ({"language": "zh_CN"}, "language: expected a language tag such as en, zh or zh-Hans, or some: zh,en, found 'zh_CN'"),
        ({"language": ""}, "language"),
        ({"language": "zh,"}, "language: expected .*, or some: zh,en, found 'zh,'"),
        ({"language": "zh,en", "format": "conceptnet"}, "format conceptnet needs one `language`.*'zh,en'"),
        ({"format": "conceptnet"}, "format conceptnet needs `language`.*such as .language: en."),
        ({"labels": "http://a/b"}, "labels: expected a list of IRIs"),
        ({"labels": ["label"]}, "labels: expected IRIs such as http://www.w3.org/2000/01/rdf-schema#label"),
        ({"labels": [3]}, "labels"),
        ({"labels": ["skosx:prefLabel"]}, "labels: expected IRIs.* with one of rdfs: skos: .*found 'skosx:prefLabel'"),
        ({"labels": ["skos:"]}, "labels"),
        ({"labels": []}, "labels: expected at least one IRI, or .unlabelled: local_name."),
        ({"unlabelled": "keep"}, "unlabelled: expected skip or local_name, found 'keep'"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(GraphError, match=message):
        ReadOptions(**options)


def test_good_options_stay_as_they_are() -> None:
    options = ReadOptions(
        format="csv", columns={"object": "o", "subject": 1}, delimiter=";", language="zh-Hans", labels=["urn:b", "urn:b", "skos:prefLabel"]
    )  # fmt: skip
    assert options.columns == {"subject": 1, "object": "o"}
    assert options.labels == ("urn:b", "http://www.w3.org/2004/02/skos/core#prefLabel")
    assert ReadOptions(labels=(), unlabelled="local_name").labels == ()


@pytest.mark.parametrize(
    ("name", "format"),
    [
        ("a/b.spo", "tsv"),
        ("a.csv/b.TSV.gz", "tsv"),
        ("b.txt.zst", "tsv"),
        ("gs://bucket/b.csv.bz2", "csv"),
        ("b.nt", "rdf"),
        ("b.ttl.gz", "rdf"),
        ("b.nq", "rdf"),
        ("b.trig", "rdf"),
        ("b.rdf", "rdf"),
        ("b.owl", "rdf"),
        ("x/conceptnet-assertions-5.7.0.csv.gz", "conceptnet"),
    ],
)
def test_formats_by_name(name: str, format: str) -> None:
    assert format_of(name, ReadOptions()) == format
    assert format_of(name, ReadOptions(format="tsv")) == "tsv"


@pytest.mark.parametrize("name", ["triples", "a.json", "a.gz", ".spo", "a.spo.zip"])
def test_names_that_do_not_tell(name: str) -> None:
    with pytest.raises(GraphError, match=r"the name does not tell the format.*\.spo.*`format`"):
        read(b"ab\tis\tc\n", name)
    assert read(b"ab\tis\tc\n", name, format="tsv")[0] == [("ab", "is", "c", 1)]
