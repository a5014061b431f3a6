"""Rules of multiple choice, and a question's choices as rows of their own, for the rules of all rows.

N choices of a question; the lists of a row are those of its choices, one after another.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from corpora.schema import Column
from corpora.verify.view import Bools, Ints, View

_LENGTHS = {
    "T": "choice_lengths",
    "W": "choice_words",
    "C": "choice_coarse",
    "F": "choice_tree",
    "B": "choice_branches",
}
"""Column that says how many entries of each shape a choice has."""
_LEAST = {"T": 2, "C": 2, "F": 2}
"""[CLS] and [SEP] at least; this also bounds the number of choices by the tokens there are."""


def check_choices(view: View, columns: Sequence[Column]) -> View:
    """Lengths, lines, label of each question; returns the rows that pass."""
    lists = [c for c in columns if c.shape in _LENGTHS]
    choices = view.shape("choice_lengths")
    view.fail_rows("choice_lengths", choices.lengths == 0, lambda r: "the question has no choice")
    for shape, name in _LENGTHS.items():
        if not (of_shape := [c.name for c in lists if c.shape == shape]):
            continue
        each = view.flat(name).astype(np.int64)
        least = _LEAST.get(shape, 0)
        view.fail(
            "choice_lengths",
            choices,
            each < least,
            lambda i, n=name, e=each, m=least: (  # type: ignore[misc]
                f"{n}[{choices.position[i]}] is {e[i]}, expected {m} or more"
            ),
        )
        total = _sums(each, choices.offsets)
        have = view.shape(of_shape[0]).lengths
        view.fail_rows(
            "choice_lengths",
            total != have,
            lambda r, n=name, t=total, h=have, f=of_shape[0]: (  # type: ignore[misc]
                f"{n} sums up to {t[r]}, {f} has {h[r]} entries"
            ),
        )
    check_lines(view)
    null = view.null("label")
    label = view.column("label").fill_null(0).to_numpy(zero_copy_only=False)
    view.fail_rows(
        "label",
        ~null & ((label < 0) | (label >= choices.lengths)),
        lambda r: f"label is {label[r]} of {choices.lengths[r]} choices",
    )
    return view.good()


def check_lines(view: View) -> None:
    """Choices are the lines of the second text: all of them, in order, each whole. Null choices are none."""
    choices = view.shape("choice_starts")
    starts, stops = (view.flat(f"choice_{edge}").astype(np.int64) for edge in ("starts", "stops"))
    lengths = view.text_lengths("text_pair")
    has = choices.lengths > 0
    breaks = pc.fill_null(pc.count_substring(view.column("text_pair"), "\n"), 0).to_numpy(
        zero_copy_only=False
    )
    view.fail_rows(
        "choices",
        has & (breaks != choices.lengths - 1),
        lambda r: f"{choices.lengths[r]} choices, but text_pair has {breaks[r] + 1} lines",
    )
    ahead = np.zeros(len(starts), np.int64)
    ahead[1:] = stops[:-1] + 1
    ahead[choices.first] = 0
    last = np.zeros(len(starts), bool)
    last[choices.offsets[1:][has] - 1] = True
    wrong = (starts != ahead) | (stops < starts) | np.where(last, stops != lengths[choices.row], False)
    view.fail(
        "choices",
        choices,
        wrong,
        lambda i: (
            f"choice {choices.position[i]} is [{starts[i]}, {stops[i]}) of a text of "
            f"{lengths[choices.row[i]]} characters, expected the next line, from {ahead[i]}"
        ),
    )
    texts = view.column("text_pair")
    for r in np.flatnonzero(has & ~view.bad).tolist():
        text = texts[r].as_py() or ""
        part = slice(choices.offsets[r], choices.offsets[r + 1] - 1)
        # As many line ends as gaps between choices: if each gap is one, none is inside a choice.
        off = [stop for stop in stops[part].tolist() if text[stop] != "\n"]
        if off:
            flags = np.zeros(len(view), bool)
            flags[r] = True
            detail = f"a choice ends at {off[0]}, where no line does"
            view.fail_rows("choices", flags, lambda _, d=detail: d)  # type: ignore[misc]


class ChoiceView(View):
    """The choices of the questions of a view, a row each. C choices of R questions.

    Texts are not copied; what is found is told of the question.
    """

    def __init__(self, questions: View, batch: pa.RecordBatch, owner: Ints, number: Ints) -> None:
        super().__init__(batch, questions.rows[owner], questions.shard, questions.findings)
        self._questions, self._owner, self._number = questions, owner, number

    @classmethod
    def of(cls, questions: View, columns: Sequence[Column]) -> ChoiceView:
        """All choices of `questions`, which pass `check_choices`."""
        choices = questions.shape("choice_lengths")
        arrays, fields = [], []
        for column in columns:
            if column.shape not in _LENGTHS:
                continue
            sizes = questions.flat(_LENGTHS[column.shape]).astype(np.int64)
            offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
            values = questions.column(column.name).flatten()
            arrays.append(pa.ListArray.from_arrays(pa.array(offsets), values, type=column.type))
            fields.append(column.field)
        batch = pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))
        return cls(questions, batch, choices.row, choices.position)

    def good(self) -> ChoiceView:
        if not self.bad.any():
            return self
        keep = ~self.bad
        batch = self.batch.filter(pa.array(keep))
        return ChoiceView(self._questions, batch, self._owner[keep], self._number[keep])

    def fresh(self) -> ChoiceView:
        view = ChoiceView(self._questions, self.batch, self._owner, self._number)
        view._shapes, view._flat = self._shapes, self._flat
        return view

    def null(self, name: str) -> Bools:
        own = name in self.batch.schema.names
        return super().null(name) if own else self._questions.null(name)[self._owner]

    def texts(self, name: str) -> list[str]:
        texts = self._questions.texts(name)
        return [texts[question] for question in self._owner.tolist()]

    def text_lengths(self, name: str) -> Ints:
        return self._questions.text_lengths(name)[self._owner]

    def spans(self) -> tuple[Ints, Ints]:
        """int64[C]: characters of `text_pair` that are each choice."""
        at = self._questions.shape("choice_starts").offsets[self._owner] + self._number
        starts, stops = (self._questions.flat(f"choice_{edge}")[at] for edge in ("starts", "stops"))
        return starts.astype(np.int64), stops.astype(np.int64)

    def _fail(self, rule: str, rows: Ints, detail: Callable[[int], str]) -> None:
        self.bad[rows] = True
        owners, first = np.unique(self._owner[rows], return_index=True)
        self._questions._fail(
            rule,
            owners,
            lambda index: f"choice {self._number[rows[first[index]]]}: {detail(int(first[index]))}",
        )


def check_choice_tokens(view: ChoiceView, special: Bools, segment: Ints) -> None:
    """Tokens of segment B stand for characters of their choice, and there are some.

    `special` bool[T of all rows], `segment` int64[T of all rows].
    """
    tokens = view.shape("input_ids")
    starts, stops = view.flat("char_starts"), view.flat("char_stops")
    low, high = view.spans()
    own = (segment == 1) & ~special
    view.fail(
        "choice_tokens",
        tokens,
        own & ((starts < low[tokens.row]) | (stops > high[tokens.row])),
        lambda i: (
            f"token {tokens.position[i]} is [{starts[i]}, {stops[i]}), "
            f"the choice [{low[tokens.row[i]]}, {high[tokens.row[i]]})"
        ),
    )
    view.fail_rows("choice_tokens", tokens.per_row(own) == 0, lambda r: "the choice has no token")


def _sums(values: Ints, offsets: Ints) -> Ints:
    total = np.concatenate([[0], np.cumsum(values)])
    return total[offsets[1:]] - total[offsets[:-1]]
