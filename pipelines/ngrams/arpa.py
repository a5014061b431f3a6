"""Lines of an ARPA file, as `lmplz` writes them: log10 probability, tab, n-gram, tab, log10 back-off."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.ngrams.interpolate import log10
from pipelines.ngrams.keys import Keys, Packing, take
from pipelines.ngrams.weights import Floats

_LINES = 1 << 18
"""Lines made at a time: about 20 MB."""


def header(counts: Sequence[int]) -> bytes:
    """The part before the n-grams; `counts` is the number of those of every order."""
    lines = [f"ngram {order}={count}\n" for order, count in enumerate(counts, 1)]
    return b"\\data\\\n" + "".join(lines).encode()


def section(order: int) -> bytes:
    """What stands before the n-grams of an order."""
    return f"\n\\{order}-grams:\n".encode()


FOOTER = b"\n\\end\\\n"


def lines(
    keys: Keys, order: int, probabilities: Floats, backoffs: Floats | None, words: pa.Array, packing: Packing
) -> Iterator[bytes]:
    """The lines of n-grams in suffix order's fields; of the highest order, which has no back-offs, without them."""
    for start in range(0, len(probabilities), _LINES):
        part = slice(start, start + _LINES)
        some = take(keys, part)
        spelt = [words.take(pa.array(packing.field(some, field))) for field in range(order - 1, -1, -1)]
        gram = pc.binary_join_element_wise(*spelt, " ") if order > 1 else spelt[0]
        columns = [_number(probabilities[part], top=0.0), gram]
        if backoffs is not None:
            columns.append(_number(backoffs[part]))
        text = pc.binary_join_element_wise(pc.binary_join_element_wise(*columns, "\t"), "", "\n")
        yield _bytes(text)


def _number(values: Floats, top: float | None = None) -> pa.Array:
    logs = log10(values)
    return pa.array(logs if top is None else np.minimum(logs, np.float32(top))).cast(pa.string())


def _bytes(text: pa.Array) -> bytes:
    _, offsets, data = text.buffers()
    edges = np.frombuffer(offsets, np.int32)[text.offset : text.offset + len(text) + 1]
    return data.slice(int(edges[0]), int(edges[-1] - edges[0])).to_pybytes() if len(text) else b""
