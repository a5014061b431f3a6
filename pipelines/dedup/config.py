"""The `dedup` section of a config: what counts as a duplicate, and of what."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError, field_validator, model_validator

from corpora.layout import InputConfig
from corpora.schema import Task
from pipelines.section import ConfigError, Count, Section


class AgainstConfig(Section):
    """Another corpus: what it holds already is dropped from this one. What is not said is as in `input`."""

    files: list[str]
    """Paths, globs or URIs."""
    format: str | None = None
    """Default: that of `input`. With another format, the other keys of `input` do not hold."""
    document: Literal["file", "line", "blank_line"] | None = None
    """`text` only: what one document is."""
    text: str | list[str] | None = None
    """Field or column that holds the text, or several."""
    text_pair: str | list[str] | None = None
    """Field of the second text: a pair is a duplicate of a pair."""
    language: str | None = None
    """Field that holds each record's language."""
    header: list[str] | None = None
    """`tsv` and `csv`: column names of files without a header line."""
    encoding: str | None = None
    """As in `input`."""

    @field_validator("files", mode="before")
    @classmethod
    def _one_or_many(cls, value: Any) -> Any:
        return [value] if isinstance(value, str) else value

    @field_validator("files")
    @classmethod
    def _some(cls, value: list[str]) -> list[str]:
        if not value:
            raise ValueError("expected at least one file, found an empty list")
        return value


class DedupConfig(Section):
    """Which documents are left out because another one says the same."""

    near: bool = True
    """Also drop near duplicates; without, only texts that are equal but for case, width, white space and
    punctuation."""
    threshold: Annotated[float, Field(gt=0.5, le=1.0)] = 0.8
    """Jaccard similarity of the shingles from which on two documents are near duplicates; above 0.5."""
    shingle: Literal["auto", "characters", "words"] = "auto"
    """`auto`: characters in languages written without spaces (zh, ja, th, ...), words in others."""
    ngram: Count | None = None
    """Characters or words in a shingle; default: 5 characters, 3 words."""
    within: bool = True
    """Drop duplicates within the corpus; `false`: only those of the other one."""
    against: AgainstConfig | None = None
    """Another corpus, such as a test set or what a model has been trained on: what it holds is dropped here."""

    @field_validator("against", mode="before")
    @classmethod
    def _files_alone(cls, value: Any) -> Any:
        return {"files": value} if isinstance(value, (str, list)) else value

    @model_validator(mode="after")
    def _consistent(self) -> DedupConfig:
        if not self.within and self.against is None:
            raise ValueError("`within: false` leaves nothing to do without `against`: name the other corpus")
        if self.ngram is not None and self.ngram > 64:
            raise ValueError(f"ngram: expected at most 64, found {self.ngram}")
        if not self.near and (set(self.model_fields_set) & {"threshold", "shingle", "ngram"}):
            raise ValueError(
                "threshold, shingle and ngram are for near duplicates: drop them, or `near: false`"
            )
        return self


AGAINST = "against"
"""Name of the other corpus where own ones have a split."""


def against_layout(dedup: DedupConfig, layout: InputConfig, task: Task) -> tuple[InputConfig, Task] | None:
    """How the other corpus is read, and as which task; None where there is none. Raises ConfigError."""
    other = dedup.against
    if other is None:
        return None
    same = other.format in (None, layout.format)
    # Source tokens stand in the text of a labelled sequence, so it is read as one, and a question that is to be asked
    # is the second text; other labels do not matter, nor what own splits are for.
    as_task: Task = task if same and task in ("tag", "seq2seq") else "pretrain"
    unused = {"score", "id", "train_splits", "holdout", *(() if as_task == "tag" else ("label",))}
    own = layout.model_dump(exclude=unused, exclude_unset=True) if same else {}
    said = {key: value for key, value in other.model_dump().items() if value is not None}
    try:
        return InputConfig.model_validate({**own, **said, "files": {AGAINST: other.files}}), as_task
    except ValidationError as error:
        wrong = "; ".join(
            ": ".join([*map(str, item["loc"]), item["msg"].removeprefix("Value error, ")])
            for item in error.errors()
        )
        raise ConfigError(f"dedup.against: {wrong}") from None
