"""Stage 1: sentences, words and dependency parses, as offsets into a text that is never altered."""

from pipelines.annotate.stage import Annotate

__all__ = ["Annotate"]
