"""The `graph` section of a config: which triples, how they are read and compiled, what is grafted.

`build` is what the flags of `treegraft kg build` say, too: both are checked here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, StrictInt, StrictStr, field_validator, model_validator

from corpora.schema import MAX_LENGTH_LIMIT
from kg.errors import GraphError
from pipelines.section import Count, Section

if TYPE_CHECKING:  # imported late below: the readers of all formats take half a second to load
    from kg.read import ReadOptions

Tokens = Annotated[int, Field(ge=3, le=MAX_LENGTH_LIMIT)]


class BuildConfig(Section):
    """How files of triples are read and compiled."""

    format: Literal["auto", "tsv", "csv", "rdf", "conceptnet"] = "auto"
    """`auto`: by each file's name (docs/graphs.md)."""
    columns: dict[str, StrictInt | StrictStr] | None = None
    """`tsv`, `csv`: where subject, predicate (may be left out) and object stand: header names, or numbers
    from 1."""
    delimiter: str = ","
    """`csv`: the character between fields."""
    encoding: str = "utf-8"
    """`tsv`, `csv`: any encoding that holds ASCII as itself, such as `gb18030`."""
    language: str | None = None
    """`rdf`: the language of labels and literals that are taken (default: any); several in order of preference:
    `zh,en`. `conceptnet`: of both concepts."""
    labels: list[str] | None = None
    """`rdf`: IRIs of the properties that name a node, in order of preference. Default: rdfs:label,
    skos:prefLabel, schema.org/name, foaf:name."""
    unlabelled: Literal["skip", "local_name"] = "skip"
    """`rdf`: nodes without a label: their triples are left out, or the end of the IRI names them."""
    fold: list[Literal["nfkc", "case", "simplified"]] = []
    """What text and subjects are compared without: `nfkc` (width and other forms of a character), `case`,
    `simplified` (traditional and simplified Chinese). What is grafted stays as written."""
    min_subject: Count = 1
    """Shorter subjects, in characters, are left out."""
    max_subject: Count = 256
    """Longer subjects, in characters, are left out."""
    max_object: Count = 4096
    """Triples with a longer object, in characters, are left out."""
    stop: list[str] | str = []
    """Subjects that are left out: a list, or a file with one a line."""

    @model_validator(mode="after")
    def _consistent(self) -> BuildConfig:
        if self.min_subject > self.max_subject:
            raise ValueError(f"min_subject {self.min_subject} is more than max_subject {self.max_subject}")
        try:
            self.read_options()
        except GraphError as error:
            raise ValueError(str(error)) from None
        return self

    def read_options(self) -> ReadOptions:
        """`kg`'s own options of reading. Raises GraphError where they make no sense."""
        from kg.read import ReadOptions

        return ReadOptions(
            format=self.format,
            columns=self.columns,
            delimiter=self.delimiter,
            encoding=self.encoding,
            language=self.language,
            unlabelled=self.unlabelled,
            **({} if self.labels is None else {"labels": tuple(self.labels)}),
        )


class GraphConfig(Section):
    """Which triples, which mentions, which branches."""

    triples: list[str] | None = None
    """Files of triples, globs or URIs; compiled beside the shards. Exactly one of `triples` and `compiled`."""
    compiled: str | None = None
    """Folder that `treegraft kg build` made, for graphs that many datasets share. Its files become hard links
    beside the shards, or copies on another filesystem: every dataset keeps what its branches came from."""
    build: BuildConfig = BuildConfig()
    match: Literal["longest", "words"] = "longest"
    """Leftmost-longest over characters, or words of the segmentation that equal a subject (K-BERT)."""
    branches_per_mention: Count = 2
    """Branches that one mention grows at most; at depth 2, also those of one branch."""
    branches_per_row: Count | None = None
    """Branches that one row grows at most; default: as many as fit."""
    depth: Literal[1, 2] = 1
    """2: a branch whose object is a subject grows branches of its own, after all of depth 1. 1 or 2."""
    rank: Literal["file", "shortest", "most_frequent", "least_frequent"] = "file"
    """Which triples of a subject come first: as the files have them, by length of the object, or by how many
    triples of the graph have that object."""
    predicate: bool = False
    """Put the predicate in front of the object in a branch, as the figures of the K-BERT paper draw it."""
    include_predicates: list[str] | None = None
    """Only triples with one of these predicates are grafted; default: all."""
    exclude_predicates: list[str] = []
    """Triples with one of these predicates are never grafted."""
    min_mention_length: Count = 2
    """Shorter subjects, in characters, never match."""
    max_mention_length: Count | None = None
    """Longer subjects, in characters, never match."""
    max_object_length: Count = 64
    """Longer objects, in characters, are never grafted."""
    stop: list[str] | str = []
    """Subjects that never match: a list, or a file with one a line. Compared as the graph folds."""
    max_length: Tokens | None = None
    """Longest flattened tree, in tokens; default: `encode.max_length`."""
    max_positions: Tokens | None = None
    """Size of the model's position table; no soft position reaches it. Default: `encode.max_length`."""

    @field_validator("triples", mode="before")
    @classmethod
    def _one_or_many(cls, value: Any) -> Any:
        return [value] if isinstance(value, str) else value

    @model_validator(mode="after")
    def _consistent(self) -> GraphConfig:
        if (self.triples is None) == (self.compiled is None):
            found = "neither" if self.triples is None else "both"
            raise ValueError(
                "expected either `triples` (files) or `compiled` (a folder that `treegraft kg build` made), "
                f"found {found}"
            )
        if self.triples is not None and not self.triples:
            raise ValueError("triples: expected at least one file, found an empty list")
        if self.compiled is not None and "build" in self.model_fields_set:
            raise ValueError(
                "`build` goes with `triples`; what is `compiled` was built already: drop `build`"
            )
        if self.max_mention_length is not None and self.max_mention_length < self.min_mention_length:
            raise ValueError(
                f"max_mention_length {self.max_mention_length} is less than "
                f"min_mention_length {self.min_mention_length}: nothing would match"
            )
        if self.include_predicates is not None:
            if not self.include_predicates:
                raise ValueError(
                    "include_predicates is empty, so nothing would be grafted; name some, or drop it"
                )
            if both := [p for p in self.include_predicates if p in self.exclude_predicates]:
                raise ValueError(f"{both[0]!r} stands in include_predicates and in exclude_predicates")
        return self
