"""The one error of this room."""

from __future__ import annotations


class GraphError(ValueError):
    """Triples, a compiled graph or a policy that cannot be used; the message says what to do."""
