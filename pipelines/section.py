"""What every section of a config is: typed, frozen, no key but its own; attribute docstrings are its help."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field


class ConfigError(ValueError):
    """The config cannot be used; the message names the field and the fix."""


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True, allow_inf_nan=False)


MOST = 10**15
"""More than there is of anything; what is counted in 64 bits can be compared with it."""
Count = Annotated[int, Field(ge=1, le=MOST)]
Fraction = Annotated[float, Field(ge=0.0, le=1.0)]
