"""How records lie in raw files: the `input` section of a config."""

from __future__ import annotations

import re
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, field_validator


class InputConfig(BaseModel):
    """Where the corpus is and how its records lie in the files."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: Literal["text", "jsonl", "tsv", "csv", "conll"]
    """`conll`: a token and its label a line (first and last column), blank lines between sentences."""
    files: dict[str, list[str]]
    """Split name to paths, globs or URIs."""
    document: Literal["file", "line", "blank_line"] = "blank_line"
    """`text` only: what one document is."""
    text: str = "text"
    """Field or column that holds the text (TSV files of K-BERT's layout: `text_a`)."""
    text_pair: str | None = None
    label: str | None = None
    """Field of the class label; for `tag`, of the labels; or of the score with `score: true`."""
    score: bool = False
    """The label is a number to regress on (`label_score`)."""
    id: str | None = None
    """Field that holds a unique id; without it ids are made from path and byte offset."""
    language: str | None = None
    """Field that holds each record's language, where the corpus mixes them."""
    header: list[str] | None = None
    """`tsv` and `csv`: column names of files without a header line."""
    separator: str = " "
    """`tag`: what separates source tokens, and labels, in their fields (JSONL may hold lists)."""
    joiner: str | None = None
    """`tag`: put between source tokens to make the text; default: nothing for zh, a space otherwise."""
    orphan_inside: Literal["keep", "begin"] = "keep"
    """`tag`: an I- label without its B-: kept, or turned into B-; counted either way."""
    encoding: str = "utf-8"

    @field_validator("files", mode="before")
    @classmethod
    def _one_or_many(cls, value: Any) -> Any:
        if isinstance(value, (str, list)):
            value = {"train": value}
        if isinstance(value, dict):
            return {k: [v] if isinstance(v, str) else v for k, v in value.items()}
        return value

    @field_validator("files")
    @classmethod
    def _split_names(cls, value: dict[str, list[str]]) -> dict[str, list[str]]:
        for name, patterns in value.items():
            if not re.fullmatch(r"[A-Za-z0-9_]+", name):
                raise ValueError(f"split name {name!r} must be letters, digits and underscores")
            if not patterns:
                raise ValueError(f"split {name!r} has no files")
        if not value:
            raise ValueError("name at least one split, such as `train: corpus/*.txt`")
        return value
