"""Source and target for asking questions: an answer with the text around it, and the question (UniLM).

Dong et al. 2019, section 3.3: the source is the passage and the answer, the target is the question. Here the answer
comes first, on a line of its own: where a source has to be cut it is cut at its end, and the answer stays. The paper
takes whole passages; of a long text what says most about the question stands around the answer, so with
`input.context` a source that would be longer has a window of its text, in which the answer stands once more.

The window is characters, not sentences: readers know none, and a sentence may be longer than any row. But it begins
and ends behind a blank or a mark of Chinese, if one is near, so that hardly any source begins in the middle of a word.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from corpora.graphemes import inside_cluster

_MARKS = frozenset("。！？；，、：…」』”）》")


class Chosen(NamedTuple):
    """The answer that is asked about; `start` its first character in the text, -1 if it isn't there."""

    text: str
    start: int


def choose(answers: Sequence[str], starts: Sequence[int]) -> Chosen:
    """The first gold answer that stands in the text; if none does, the first."""
    found = [i for i, start in enumerate(starts) if start >= 0]
    first = found[0] if found else 0
    return Chosen(answers[first], starts[first])


def source(answer: Chosen, text: str, context: int | None) -> str:
    """The answer, a line end, and the text: all of it, or a window of it around the answer.

    Args:
        context: most characters of the source, unless the answer alone makes more, for it is whole in both its
            places; None: any number. Of a text in which the answer does not stand, as splits that do not train may
            have, the beginning is taken.
    """
    room = len(text) if context is None else max(context - len(answer.text) - 1, 0)
    if len(text) <= room:
        return f"{answer.text}\n{text}"
    start, stop = window(text, max(answer.start, 0), len(answer.text) if answer.start >= 0 else 0, room)
    return f"{answer.text}\n{text[start:stop]}"


def window(text: str, at: int, length: int, size: int) -> tuple[int, int]:
    """First character, and one past the last, of at most `size` around the `length` that begin at `at`.

    As much before them as behind; where the text ends sooner on one side, the other gets what is left. An edge within
    the text then moves towards the answer, by half of what it has at most, to where a word or clause ends. It never
    parts what a reader sees as one character.
    """
    stop = at + length
    room = max(size - length, 0)
    before = min(at, max(room // 2, room - (len(text) - stop)))
    first, last = at - before, min(len(text), stop + room - before)
    if first > 0:
        middle = first + (at - first) // 2
        first = next((i for i in range(first, middle + 1) if _parts(text, i)), first)
    if last < len(text):
        middle = stop + (last - stop + 1) // 2
        last = next((i for i in range(last, middle - 1, -1) if _parts(text, i)), last)
    while first < at and inside_cluster(text, first):
        first += 1
    while last > stop and inside_cluster(text, last):
        last -= 1
    return first, last


def _parts(text: str, at: int) -> bool:
    """Whether a word or clause ends before this character."""
    before = text[at - 1]
    return (before.isspace() or before in _MARKS) and not inside_cluster(text, at)
