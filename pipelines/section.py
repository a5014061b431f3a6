"""What every section of a config is, and the error of a config."""

from __future__ import annotations

from corpora.sections import MOST, Count, Fraction, Section

__all__ = ["MOST", "ConfigError", "Count", "Fraction", "Section"]


class ConfigError(ValueError):
    """The config cannot be used; the message names the field and the fix."""

    exit_code = 2
