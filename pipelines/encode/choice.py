"""Multiple choice: all choices of a question in one row (as RACE and SG-Net's reader comprehension have it).

Each choice is a row of its own first, [CLS] text [SEP] choice [SEP], with everything that such a row has; then the
rows of a question are laid end to end. Values stay what they are: indices begin anew in each choice.

Shapes: Q questions, C choices of all questions, T tokens of all choices.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pipelines.encode.lists import List
from pipelines.ragged import Ints

LENGTHS = {
    "choice_lengths": "input_ids",
    "choice_words": "word_heads",
    "choice_coarse": "coarse_ids",
    "choice_tree": "tree_ids",
    "choice_branches": "branch_triples",
}
"""Column of lengths to one of those that have them."""


def gather(
    made: Mapping[str, List], groups: Ints, starts_c: Ints, special_t: NDArray[np.bool_]
) -> dict[str, List]:
    """Columns of C rows of choices as columns of Q rows of questions, with the lengths that part them again.

    Args:
        made: list columns of the choices' rows, offsets of segment B counting from the choice's own start.
        groups: [Q+1], question q has choices `groups[q]:groups[q + 1]`.
        starts_c: [C], character of the question's second text at which each choice begins.
        special_t: [T], special tokens, whose offsets are 0 and stay it.
    """
    found = {name: (values, offsets[groups]) for name, (values, offsets) in made.items()}
    types, offsets = made["token_type_ids"]
    shift = np.where((types == 1) & ~special_t, np.repeat(starts_c, np.diff(offsets)), 0).astype(np.int32)
    for name in ("char_starts", "char_stops"):
        values, outer = found[name]
        found[name] = (values + shift, outer)
    for name, of in LENGTHS.items():
        if of in made:
            found[name] = (np.diff(made[of][1]).astype(np.int16), groups)
    return found


def choice_labels(names: pa.Array, sizes: Ints) -> tuple[pa.Array, NDArray[np.bool_]]:
    """Index int32 of each question's right choice, null for null; and which names are no index of a choice.

    Args:
        names: [Q], as documents have them: the index in decimal digits, or null.
        sizes: [Q], choices of each question.
    """
    found: list[int | None] = []
    bad = np.zeros(len(names), dtype=bool)
    for i, (name, size) in enumerate(zip(names.to_pylist(), sizes.tolist(), strict=True)):
        good = name is None or (name.isascii() and name.isdecimal() and len(name) < 10 and int(name) < size)
        bad[i] = not good
        found.append(int(name) if good and name is not None else None)
    return pa.array(found, pa.int32()), bad
