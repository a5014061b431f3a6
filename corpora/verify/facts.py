"""What a shard's schema metadata promises about the values in its rows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError


class SpecialIds(BaseModel):
    """Ids of the control tokens; `unk` stands for text and is none of them."""

    cls: int
    sep: int
    pad: int | None = None
    mask: int | None = None

    @property
    def control(self) -> tuple[int, ...]:
        """Ids that text never yields."""
        return tuple(i for i in (self.pad, self.cls, self.sep, self.mask) if i is not None)


class _GraphFacts(BaseModel):
    triples: int = Field(ge=0)


class RowFacts(BaseModel):
    """What the schema metadata of shard rows says about their values."""

    model_config = ConfigDict(extra="ignore")

    special_ids: SpecialIds
    vocab_size: int = Field(ge=1)
    max_length: int = Field(ge=2)
    labels: list[str] = []
    deprels: list[str] = []
    coarse_special_ids: SpecialIds | None = None
    coarse_vocab_size: int | None = None
    tree_max_length: int | None = None
    max_positions: int | None = None
    graph: _GraphFacts | None = None
    misaligned: Literal["drop", "widen"] = "drop"
    """`span`: whether an answer's tokens may stand for more than the answer."""

    @classmethod
    def read(cls, metadata: dict[str, Any], groups: Iterable[str]) -> RowFacts:
        """Facts of a shard with column groups `groups`; ValueError names what is missing or wrong."""
        present = {key: value for key, value in metadata.items() if value is not None}
        try:
            facts = cls.model_validate(present)
        except ValidationError as error:
            first = error.errors()[0]
            raise ValueError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None
        needed = {
            "syntax": ["deprels"],
            "coarse": ["coarse_special_ids", "coarse_vocab_size"],
            "tree": ["tree_max_length", "max_positions", "graph"],
        }
        for group in groups:
            for key in needed.get(group, []):
                if key not in present:
                    raise ValueError(f"{key}: missing, but the shard has {group!r} columns")
        return facts
