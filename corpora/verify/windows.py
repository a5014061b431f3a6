"""Rules over all windows of a question (task `span`), which lie side by side in a shard.

Windows are looked at one after another. What is held of a question is the tokens that a later window may
still share and a few numbers a window, however long the text is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from corpora.verify.answers import has_answer
from corpora.verify.edges import trimmed
from corpora.verify.view import Ints, View, numbers


@dataclass
class _Question:
    """A question whose windows are being read. L tokens of its text may come again in the next window."""

    name: str
    row: int
    """Number of the first window's row in the shard."""
    said: dict[str, object]
    """What all windows must say alike."""
    asked: Ints
    """Ids of [CLS], the question and [SEP]."""
    starts: Ints
    stops: Ints
    """int64[L] each, characters"""
    times: Ints
    """int64[L]: windows in which the token has most context"""
    ranges: list[tuple[int, int, int, int]] = field(default_factory=list)
    """A window each: first character and one past the last; those of its answer, -1 without."""


class Windows:
    """Checks the windows of a shard's questions, from view to view; `finish` after the last one."""

    def __init__(self) -> None:
        self._open: _Question | None = None
        self._skipped: str | None = None
        """Question whose further windows say nothing: something was found in an earlier one."""
        self._next: int | None = 0
        """Row that follows on the last one seen."""
        self._fail: Callable[[str, int, str, str], None] = lambda rule, row, identity, detail: None

    def check(self, view: View, sound: View) -> None:
        """Go on with the rows of `view`; `sound` are those of them that nothing was found in."""
        self._fail = sound.fail_named
        place = {int(row): r for r, row in enumerate(sound.rows)}
        rows = _Rows(sound)
        for row, identity in zip(view.rows.tolist(), view.column("id").to_pylist(), strict=True):
            name, _, number = (identity or "").rpartition("#")
            if row != self._next:  # rows between could not be read: nothing is known of this question
                self._open, self._skipped = None, name
            self._next = row + 1
            if self._open is not None and self._open.name != name:
                self._close(self._open)
                self._open = None
            if name == self._skipped:
                continue
            self._skipped = None
            if row not in place:
                self._open, self._skipped = None, name
                continue
            expected = len(self._open.ranges) if self._open else 0
            if number != str(expected):
                self._give_up("windows", row, identity, f"expected window {expected} of question {name!r}")
                continue
            if problem := self._add(name, row, rows, place[row]):
                self._give_up(problem[0], row, identity, problem[1])

    def finish(self) -> None:
        """There are no more rows."""
        if self._open is not None:
            self._close(self._open)
        self._open = None

    def _give_up(self, rule: str, row: int, identity: str, detail: str) -> None:
        self._fail(rule, row, identity, detail)
        self._open, self._skipped = None, identity.rpartition("#")[0]

    def _add(self, name: str, row: int, rows: _Rows, r: int) -> tuple[str, str] | None:
        """Take row r of `rows` as the next window; rule and detail of what is wrong with it."""
        said, asked = rows.said(r), rows.asked(r)
        starts, stops, best = rows.text_tokens(r)
        if not len(starts):
            return "windows", "the window has no token of the text"
        text = str(said["text_pair"])
        if self._open is None:
            none = np.zeros(0, np.int64)
            self._open = _Question(name, row, said, asked, none, none, none)
            at, past = 0, 0
        else:
            past = int(self._open.stops[-1])
            found = np.flatnonzero((self._open.starts == starts[0]) & (self._open.stops == stops[0]))
            at = int(found[0]) if len(found) else len(self._open.starts)
            for key, value in said.items():
                if value != self._open.said[key]:
                    return "windows", f"{key} differs from that of the question's window before"
            if not np.array_equal(asked, self._open.asked):
                return "windows", "the question's tokens differ from those of its window before"
            if at == 0:
                return "windows", "the window begins where the one before does, or earlier"
        question = self._open
        shared = len(question.starts) - at
        if shared == 0 and (starts[0] < past or trimmed(text[past : starts[0]])):
            return "windows", f"tokens of the text between characters {past} and {starts[0]} are in no window"
        if shared > len(starts) or not (
            np.array_equal(question.starts[at:], starts[:shared])
            and np.array_equal(question.stops[at:], stops[:shared])
        ):
            return "windows", "the tokens shared with the question's window before are not the same"
        if (lost := question.times[:at] != 1).any():
            first = question.starts[:at][lost][0]
            return "max_context", f"the token at {first} of an earlier window has most context in none"
        times = best.astype(np.int64)
        times[:shared] += question.times[at:]
        if (times > 1).any():
            first = starts[times > 1][0]
            return "max_context", f"the token at {first} has most context in an earlier window, too"
        question.starts, question.stops, question.times = starts, stops, times
        question.ranges.append((int(starts[0]), int(stops[-1]), *rows.answer(r)))
        return None

    def _close(self, question: _Question) -> None:
        """What can be said when all windows have been seen."""
        last = len(question.ranges) - 1
        text, end = str(question.said["text_pair"]), int(question.stops[-1])

        def fail(rule: str, window: int, detail: str) -> None:
            self._fail(rule, question.row + window, f"{question.name}#{window}", detail)

        if trimmed(text[end:]):
            fail("windows", last, f"the last window ends at {end} of a text of {len(text)} characters")
            return
        if (lost := question.times != 1).any():
            fail(
                "max_context", last, f"the token at {question.starts[lost][0]} has most context in no window"
            )
        low, high, start, stop = np.array(question.ranges, np.int64).T
        answered = np.flatnonzero(start >= 0)
        if not len(answered):
            return
        a, b = start[answered[0]], stop[answered[0]]
        differs = (low <= a) & (b <= high) & ((start != a) | (stop != b))
        differs |= (start >= 0) & ((start != a) | (stop != b))
        if differs.any():
            fail(
                "windows",
                int(np.flatnonzero(differs)[0]),
                f"the answer at [{a}, {b}) of window {answered[0]} is not this window's, which holds it",
            )


class _Rows:
    """Rows of a view, one at a time."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._offsets = view.shape("input_ids").offsets
        self._before = view.shape("input_ids").per_row(view.flat("token_type_ids") == 0)
        self._said = {
            name: view.column(name).to_pylist() for name in ("text", "text_pair", "answers", "is_impossible")
        }
        self._answered = has_answer(view)
        self._spans = numbers(view.column("answer_start")), numbers(view.column("answer_stop"))

    def said(self, r: int) -> dict[str, object]:
        return {name: values[r] for name, values in self._said.items()}

    def asked(self, r: int) -> Ints:
        start = self._offsets[r]
        return self._view.flat("input_ids")[start : start + self._before[r]]

    def text_tokens(self, r: int) -> tuple[Ints, Ints, Ints]:
        """First characters, stops and flags of the text's tokens."""
        part = slice(self._offsets[r] + self._before[r], self._offsets[r + 1] - 1)
        names = ("char_starts", "char_stops", "is_max_context")
        starts, stops, best = (self._view.flat(name)[part] for name in names)
        return starts, stops, best

    def answer(self, r: int) -> tuple[int, int]:
        """Characters of the answer's tokens; -1, -1 without one."""
        if not self._answered[r]:
            return -1, -1
        first, last = (int(self._offsets[r] + s[r]) for s in self._spans)
        return int(self._view.flat("char_starts")[first]), int(self._view.flat("char_stops")[last - 1])
