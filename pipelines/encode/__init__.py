"""Stage 2: fine and coarse tokens, sentence trees and rows, from annotated documents."""

from pipelines.encode.stage import Encode

__all__ = ["Encode"]
