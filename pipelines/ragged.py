"""The ragged arrays of `corpora.ragged`, under the name that this room knows them by."""

from corpora.ragged import Ints, bounds, ranges

__all__ = ["Ints", "bounds", "ranges"]
