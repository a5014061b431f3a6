"""How files of triples are read, and which format a file has by its name."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Literal

from kg.errors import GraphError
from kg.read.recode import UTF8, encoding_name
from kg.read.records import COMPRESSED

FORMATS = ("auto", "tsv", "csv", "rdf", "conceptnet")
ROLES = ("subject", "predicate", "object")
LABELS = (
    "http://www.w3.org/2000/01/rdf-schema#label",
    "http://www.w3.org/2004/02/skos/core#prefLabel",
    "http://schema.org/name",
    "http://xmlns.com/foaf/0.1/name",
)
PREFIXES = {
    "rdfs": "http://www.w3.org/2000/01/rdf-schema#",
    "skos": "http://www.w3.org/2004/02/skos/core#",
    "schema": "http://schema.org/",
    "foaf": "http://xmlns.com/foaf/0.1/",
    "dc": "http://purl.org/dc/elements/1.1/",
    "dcterms": "http://purl.org/dc/terms/",
}
"""Prefixes that names of labels may begin with."""
ENDINGS = {
    **dict.fromkeys((".spo", ".tsv", ".txt"), "tsv"),
    ".csv": "csv",
    **dict.fromkeys((".nt", ".nq", ".ttl", ".trig", ".rdf", ".owl"), "rdf"),
}
CONCEPTNET = "conceptnet-assertions"

_IRI = re.compile(r"""([A-Za-z][A-Za-z0-9+.\-]*://|urn:|tag:|info:|did:)[^\s<>"{}|\\^`]+""")
MAX_LANGUAGES = 30
_LANGUAGE = re.compile(r"[A-Za-z]{1,8}(-[A-Za-z0-9]{1,8})*")


@dataclass(frozen=True)
class ReadOptions:
    """How to read triples. Raises GraphError naming the field, what it expects and what it found.

    `encoding` is that of tsv and csv. `columns` says where the roles subject, predicate (may be missing) and
    object are in them: 1-based numbers, or names, and then the first line holds the names. `language` is a
    tag such as `zh` or `zh-Hans`, or for rdf several in order of preference: `zh,en`. `labels` and
    `unlabelled` are for rdf: the IRIs of the properties that give a node's text, in order of preference, and
    what becomes of triples with a node that has none.
    """

    format: Literal["auto", "tsv", "csv", "rdf", "conceptnet"] = "auto"
    columns: Mapping[str, str | int] | None = None
    delimiter: str = ","
    encoding: str = UTF8
    language: str | None = None
    labels: Sequence[str] = LABELS
    unlabelled: Literal["skip", "local_name"] = "skip"

    def __post_init__(self) -> None:
        if self.format not in FORMATS:
            raise _wrong("format", f"one of {', '.join(FORMATS)}", self.format)
        if self.columns is not None:
            object.__setattr__(self, "columns", _columns(self.columns, self.format))
        if not isinstance(self.delimiter, str) or len(self.delimiter) != 1 or self.delimiter in '"\r\n\0':
            raise _wrong("delimiter", "one character that is no quote and no line end", self.delimiter)
        try:
            object.__setattr__(self, "encoding", encoding_name(self.encoding))
        except ValueError as error:
            raise _wrong("encoding", str(error), self.encoding) from None
        if self.encoding != UTF8 and self.format in ("rdf", "conceptnet"):
            raise GraphError(
                f"encoding: {self.format} is always UTF-8; drop `encoding`, or convert the files"
            )
        if self.language is not None and not (
            isinstance(self.language, str)
            and all(map(_LANGUAGE.fullmatch, self.languages))
            and len(self.languages) <= MAX_LANGUAGES
        ):
            raise _wrong(
                "language", "a language tag such as en, zh or zh-Hans, or some: zh,en", self.language
            )
        if self.format == "conceptnet":
            self.concept_language("format conceptnet")
        object.__setattr__(self, "labels", _labels(self.labels))
        if self.unlabelled not in ("skip", "local_name"):
            raise _wrong("unlabelled", "skip or local_name", self.unlabelled)
        if not self.labels and self.unlabelled == "skip":
            raise _wrong("labels", "at least one IRI, or `unlabelled: local_name`", "none")

    @property
    def languages(self) -> tuple[str, ...]:
        """The tags of `language`, in order of preference; () where any will do."""
        return tuple(tag.strip() for tag in self.language.split(",")) if self.language is not None else ()

    def concept_language(self, what: str) -> str:
        """The language, where one has to be given."""
        if self.language is None:
            raise GraphError(
                f"{what} needs `language`: ConceptNet holds all languages in one file, and both concepts of "
                "a triple have to be of one; give its code, such as `language: en` or `language: zh`"
            )
        if len(self.languages) > 1:
            raise GraphError(f"{what} needs one `language`, both concepts are of it; found {self.language!r}")
        return self.language


def format_of(path: str, options: ReadOptions) -> str:
    """tsv, csv, rdf or conceptnet. Raises GraphError where neither the options nor the name tell."""
    if options.format != "auto":
        return options.format
    name = plain_name(path)
    if name.startswith(CONCEPTNET):
        return "conceptnet"
    found = ENDINGS.get(ending(path))
    if found is None:
        raise GraphError(
            f"{path}: the name does not tell the format; expected a name that ends in "
            f"{' '.join(ENDINGS)} (and {', '.join(COMPRESSED)} after it) or starts with {CONCEPTNET}. "
            "Rename the file or give `format` (tsv, csv, rdf or conceptnet)"
        )
    return found


def plain_name(path: str) -> str:
    """The file's name without folders and without the ending of a compression, in lower case."""
    name = PurePosixPath(path.replace("\\", "/")).name.lower()
    for suffix in COMPRESSED:
        name = name.removesuffix(suffix)
    return name


def ending(path: str) -> str:
    """The ending of the plain name, such as `.spo`; empty where it has none."""
    return PurePosixPath(plain_name(path)).suffix


def _wrong(field: str, expected: str, found: object) -> GraphError:
    return GraphError(f"{field}: expected {expected}, found {found!r}")


def _columns(columns: object, format: str) -> dict[str, str | int]:
    if not isinstance(columns, Mapping):
        raise _wrong("columns", "role: column, such as subject: 1 or subject: name", columns)
    if format in ("rdf", "conceptnet"):
        raise GraphError(f"columns: only tsv and csv have columns to name, and format is {format}")
    for role in columns:
        if role not in ROLES:
            raise _wrong("columns", f"the roles {', '.join(ROLES)}", role)
    for role in ("subject", "object"):
        if role not in columns:
            raise _wrong("columns", "a column for subject and for object", ", ".join(map(str, columns)))
    for role, column in columns.items():
        number = isinstance(column, int) and not isinstance(column, bool) and column >= 1
        if not number and not (isinstance(column, str) and column):
            raise _wrong(f"columns.{role}", "a number from 1 or the name in the first line", column)
    values = list(columns.values())
    if len(set(values)) < len(values):
        raise _wrong("columns", "a column of its own for each role", dict(columns))
    return {role: columns[role] for role in ROLES if role in columns}


def _labels(labels: object) -> tuple[str, ...]:
    if isinstance(labels, str) or not isinstance(labels, Sequence):
        raise _wrong("labels", "a list of IRIs", labels)
    found: dict[str, None] = {}
    for label in labels:
        prefix, _, name = label.partition(":") if isinstance(label, str) else ("", "", "")
        iri = PREFIXES[prefix] + name if name and prefix in PREFIXES else label
        if not isinstance(iri, str) or not _IRI.fullmatch(iri):
            prefixes = " ".join(f"{prefix}:" for prefix in PREFIXES)
            raise _wrong("labels", f"IRIs such as {LABELS[0]}, in full or with one of {prefixes}", label)
        found[iri] = None
    return tuple(found)
