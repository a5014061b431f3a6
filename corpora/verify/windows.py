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
from corpora.verify.view import Bools, Ints, View, numbers


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
    tokens: Ints
    """int64[3, L]: first characters, ends, ids"""
    times: Ints
    """int64[L]: windows in which the token has most context"""
    ranges: list[tuple[tuple[int, ...], tuple[int, ...]]] = field(default_factory=list)
    """`_edges` of each window, and of its answer's tokens"""


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
        said, asked, new = rows.said(r), rows.asked(r), rows.text_tokens(r)
        if not new.shape[1]:
            return "windows", "the window has no token of the text"
        if self._open is None:
            self._open = _Question(name, row, said, asked, new[:, :0], np.zeros(0, np.int64))
        else:
            for key, value in said.items():
                if value != self._open.said[key]:
                    return "windows", f"{key} differs from that of the question's window before"
            if not np.array_equal(asked, self._open.asked):
                return "windows", "the question's tokens differ from those of its window before"
        question = self._open
        places = _begins(question.tokens, new)
        if not places:
            return "windows", "the window's tokens do not go on from those of the question's window before"
        if len(places) > 1:
            self._open, self._skipped = None, name
            return None
        at = places[0]
        if at == question.tokens.shape[1]:
            past = int(question.tokens[1, -1]) if at else 0
            if trimmed(str(said["text_pair"])[past : new[0, 0]]):
                return "windows", f"tokens of the text from {past} to {new[0, 0]} are in no window"
        if (lost := question.times[:at] != 1).any():
            first = question.tokens[0, :at][lost][0]
            return "max_context", f"the token at {first} of an earlier window has most context in none"
        times = rows.best(r).astype(np.int64)
        times[: question.tokens.shape[1] - at] += question.times[at:]
        if (times > 1).any():
            first = new[0, times > 1][0]
            return "max_context", f"the token at {first} has most context in an earlier window, too"
        question.tokens, question.times = new, times
        question.ranges.append((_edges(new), _edges(rows.answer(r))))
        return None

    def _close(self, question: _Question) -> None:
        """What can be said when all windows have been seen."""
        last = len(question.ranges) - 1
        text, end = str(question.said["text_pair"]), int(question.tokens[1, -1])

        def fail(rule: str, window: int, detail: str) -> None:
            self._fail(rule, question.row + window, f"{question.name}#{window}", detail)

        if trimmed(text[end:]):
            fail("windows", last, f"the last window ends at {end} of a text of {len(text)} characters")
            return
        if (lost := question.times != 1).any():
            fail(
                "max_context",
                last,
                f"the token at {question.tokens[0, lost][0]} has most context in no window",
            )
        windows, answers = np.array(question.ranges, np.int64).transpose(1, 2, 0)
        answered = np.flatnonzero(answers[2] > 0)
        if not len(answered):
            return
        answer = answers[:, answered[0]]
        # Of characters that several tokens share, a window may have only some: it must have as many as the answer.
        low, high = windows[0] - answer[0], answer[1] - windows[1]
        holds = (low < 0) | ((low == 0) & (windows[2] >= answer[2]))
        holds &= (high < 0) | ((high == 0) & (windows[3] >= answer[3]))
        differs = (holds | (answers[2] > 0)) & (answers != answer[:, None]).any(axis=0)
        if differs.any():
            fail(
                "windows",
                int(np.flatnonzero(differs)[0]),
                f"this window holds the answer [{answer[0]}, {answer[1]}) of window {answered[0]}, and gives another",
            )


def _edges(tokens: Ints) -> tuple[int, int, int, int]:
    """First character and one past the last of `tokens` int64[3, L], and how many tokens have the characters of
    the first one, and of the last one. Zeros for no tokens."""
    if not tokens.shape[1]:
        return 0, 0, 0, 0
    spans = tokens[:2]
    first, last = ((spans == spans[:, at : at + 1 or None]).all(axis=0).sum() for at in (0, -1))
    return int(spans[0, 0]), int(spans[1, -1]), int(first), int(last)


def _begins(before: Ints, after: Ints) -> list[int]:
    """Where among the tokens `before` of a window those of the window `after` it may begin, int64[3, L] each.

    L of `before` if they share none; nothing if the windows do not fit together. Several places are possible
    only where several tokens stand for the same character, bytes of it that are equal.
    """
    count, first = before.shape[1], after[:, :1]
    if not count:
        return [0]
    places = [
        at
        for at in np.flatnonzero((before == first).all(axis=0)).tolist()
        if at and np.array_equal(before[:, at:], after[:, : count - at])
    ]
    same_span = (first[:2] == before[:2, -1:]).all()
    shares = max(int((tokens[:2] == first[:2]).all(axis=0).sum()) for tokens in (before, after)) > 1
    if after[0, 0] >= before[1, -1] or (same_span and (shares or not places)):
        places.append(count)
    return places


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

    def text_tokens(self, r: int) -> Ints:
        """int64[3, L]: first characters, ends and ids of the text's tokens."""
        names = ("char_starts", "char_stops", "input_ids")
        return np.array([self._view.flat(name)[self._part(r)] for name in names], np.int64)

    def best(self, r: int) -> Bools:
        """bool[L]: which of them have most context here."""
        return self._view.flat("is_max_context")[self._part(r)]

    def _part(self, r: int) -> slice:
        return slice(self._offsets[r] + self._before[r], self._offsets[r + 1] - 1)

    def answer(self, r: int) -> Ints:
        """int64[3, L]: those of the answer; L = 0 without one."""
        start, stop = (int(s[r]) - int(self._before[r]) for s in self._spans)
        return self.text_tokens(r)[:, start:stop] if self._answered[r] else np.zeros((3, 0), np.int64)
