"""Rules of shard rows (stage 2): the base columns and the labels.

T tokens of a row; a row is [CLS] A [SEP], or [CLS] A [SEP] B [SEP] where `text_pair` is not null (without
the last [SEP] where a target was cut), and of multiple choice one such sequence after another.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from corpora.schema import IGNORED_LABEL, Column, row_columns
from corpora.verify.answers import check_answers
from corpora.verify.branch_tokens import BranchTokens
from corpora.verify.choices import ChoiceView, check_choice_tokens, check_choices
from corpora.verify.coarse import check_coarse
from corpora.verify.coarse_text import CoarseText
from corpora.verify.facts import RowFacts
from corpora.verify.syntax import check_syntax
from corpora.verify.tokens import check_ids, check_special, check_types, cut_targets, segments
from corpora.verify.tree import check_tree
from corpora.verify.view import Bools, Ints, View, check_lengths, check_nulls, check_spans
from corpora.verify.windows import Windows

_PAIRS = ("span", "choice", "seq2seq")
"""Tasks whose rows all have a second text."""


class RowRules:
    """Checks rows of one task with the column groups that the shard has, shard by shard."""

    slice_rows = 512
    """Rows checked at once: few enough that their columns stay in the processor's cache."""

    def __init__(
        self,
        task: str,
        groups: Iterable[str],
        facts: RowFacts,
        branch_tokens: BranchTokens | None = None,
        coarse_text: CoarseText | None = None,
    ) -> None:
        self._task, self._wanted, self._facts = task, set(groups), facts
        self._branch_tokens, self._coarse_text = branch_tokens, coarse_text
        self.columns = row_columns(task, self._wanted)
        by_shape: dict[str, list[Column]] = {}
        for column in self.columns:
            if column.shape:
                by_shape.setdefault(column.shape, []).append(column)
        self._groups = list(by_shape.values())
        self._windows = Windows() if task == "span" else None

    def check(self, view: View) -> dict[str, int]:
        """Check the rows of `view`; returns what was counted."""
        counted = {"tokens": int(view.shape("input_ids").offsets[-1])}
        if "syntax" in self._wanted:
            counted["words"] = int(view.shape("word_heads").offsets[-1])
        whole = view
        view = check_lengths(check_nulls(view, self.columns), self._groups)
        if self._task in _PAIRS:
            view.fail_rows("second_text", view.null("text_pair"), lambda r: "text_pair is null")
            view = view.good()
        if self._task == "choice":
            view = ChoiceView.of(check_choices(view, self.columns), self.columns)
        sound = self._check_sequences(view)
        if self._windows is not None:
            self._windows.check(whole, sound)
        return counted

    def finish(self) -> None:
        """Check what can be said of a shard's rows once all have been seen."""
        if self._windows is not None:
            self._windows.finish()

    def _check_sequences(self, view: View) -> View:
        """Check rows of [CLS] A [SEP] or [CLS] A [SEP] B [SEP]; returns those whose base columns are sound."""
        facts = self._facts
        view = check_ids(view, "input_ids", "token_ids", facts.vocab_size)
        check_special(view, "input_ids", "special_tokens", facts.special_ids, cut_targets(view))
        view = view.good()  # what follows counts on control tokens being where they belong
        segment = segments(view, "input_ids", facts.special_ids)
        check_types(view, "token_types", "input_ids", "token_type_ids", segment)
        tokens, ids = view.shape("input_ids"), view.flat("input_ids")
        view.fail_rows(
            "max_length",
            tokens.lengths > facts.max_length,
            lambda r: f"{tokens.lengths[r]} tokens, max_length is {facts.max_length}",
        )
        special = (ids == facts.special_ids.cls) | (ids == facts.special_ids.sep)
        self._check_offsets(view, special, segment)
        self._check_labels(view, special, segment)
        if "syntax" in self._wanted:
            check_syntax(view.fresh(), special, segment, len(facts.deprels))
        if "coarse" in self._wanted:
            check_coarse(view.fresh(), facts, self._coarse_text)
        if "tree" in self._wanted:
            check_tree(view.fresh(), facts, self._branch_tokens)
        return view.good()

    def _check_offsets(self, view: View, special: Bools, segment: Ints) -> None:
        tokens = view.shape("input_ids")
        starts, stops = view.flat("char_starts"), view.flat("char_stops")
        limits = np.stack([view.text_lengths("text"), view.text_lengths("text_pair")])
        limit = limits[segment, tokens.row]
        wrong = np.where(
            special, (starts != 0) | (stops != 0), (starts < 0) | (stops <= starts) | (stops > limit)
        )
        view.fail(
            "offsets",
            tokens,
            wrong,
            lambda i: (
                f"{'special ' if special[i] else ''}token {tokens.position[i]} is "
                f"[{starts[i]}, {stops[i]}) in a segment of {limit[i]} characters"
            ),
        )
        # Special tokens part rows and segments, so two neighbours of text share both.
        falls = np.zeros(len(starts), bool)
        falls[1:] = (starts[1:] < starts[:-1]) & ~special[1:] & ~special[:-1]
        view.fail(
            "offsets",
            tokens,
            falls,
            lambda i: f"token {tokens.position[i]} starts at {starts[i]}, before the token in front of it",
        )

    def _check_labels(self, view: View, special: Bools, segment: Ints) -> None:
        if self._task == "tag":
            _check_token_labels(view, special, len(self._facts.labels))
            _check_tags(view, special)
        elif self._task == "span":
            check_answers(view, special, segment, self._facts)
        elif isinstance(view, ChoiceView):
            check_choice_tokens(view, special, segment)
        elif self._task == "seq2seq":
            _check_target(view, special, segment)
        else:
            self._check_class(view)

    def _check_class(self, view: View) -> None:
        count = len(self._facts.labels)
        null = view.null("label")
        label = view.column("label").fill_null(0).to_numpy(zero_copy_only=False)
        if self._task == "pretrain":
            single = view.null("text_pair")
            view.fail_rows(
                "label", null != single, lambda r: "label is not null exactly where text_pair is not null"
            )
            count = 2
        view.fail_rows(
            "label",
            ~null & ((label < 0) | (label >= count)),
            lambda r: f"label is {label[r]}, expected 0 to {count - 1}",
        )
        if self._task == "classify":
            score = view.column("label_score").fill_null(0).to_numpy(zero_copy_only=False)
            view.fail_rows("label", ~np.isfinite(score), lambda r: f"label_score is {score[r]}")


def _check_token_labels(view: View, special: Bools, count: int) -> None:
    """Labels are -100 or indices of `count` names, and -100 on special tokens."""
    tokens, labels = view.shape("token_labels"), view.flat("token_labels")
    ignored = labels == IGNORED_LABEL
    view.fail(
        "token_labels",
        tokens,
        np.where(special, ~ignored, ~ignored & ((labels < 0) | (labels >= count))),
        lambda i: (
            f"token {tokens.position[i]}{' (special)' if special[i] else ''} has label {labels[i]} of {count}"
        ),
    )


def _check_target(view: View, special: Bools, segment: Ints) -> None:
    """Neither source nor target is empty."""
    tokens = view.shape("input_ids")
    for number, side in enumerate(("source", "target")):
        empty = tokens.per_row((segment == number) & ~special) == 0
        view.fail_rows("target_tokens", empty, lambda r, s=side: f"the {s} has no token")  # type: ignore[misc]


def _check_tags(view: View, special: Bools) -> None:
    """Source tokens are spans of the text; tokens are pieces of them, and only first pieces have labels."""
    lengths = view.text_lengths("text")
    check_spans(view, "tags", "tag_starts", "tag_stops", lengths, "source token")
    tokens, tags = view.shape("input_ids"), view.shape("tag_starts")
    # One number line for all rows' texts; no two of them touch, and in rows that are sound so far both
    # tokens and source tokens rise along it.
    base = np.cumsum(lengths + 1) - (lengths + 1)
    sound = ~view.bad
    plain = np.flatnonzero(~special & sound[tokens.row])
    tag = np.flatnonzero(sound[tags.row])
    starts, stops = view.flat("char_starts")[plain], view.flat("char_stops")[plain]
    tag_starts, tag_stops = view.flat("tag_starts")[tag], view.flat("tag_stops")[tag]
    tag_row, row = tags.row[tag], tokens.row[plain]
    of = np.searchsorted(base[tag_row] + tag_starts, base[row] + starts, "right") - 1
    inside = of >= 0
    inside[inside] = (tag_row[of[inside]] == row[inside]) & (stops[inside] <= tag_stops[of[inside]])
    view.fail_at(
        "token_tags",
        tokens,
        plain[~inside],
        lambda i: (
            f"token {tokens.position[i]} is [{view.flat('char_starts')[i]}, {view.flat('char_stops')[i]}), "
            "which is not part of one source token"
        ),
    )
    of, plain = of[inside], plain[inside]
    view.fail_at(
        "token_tags",
        tags,
        tag[np.bincount(of, minlength=len(tag)) == 0],
        lambda i: f"source token {tags.position[i]} has no token",
    )
    labels, later = view.flat("token_labels")[plain], np.zeros(len(plain), bool)
    later[1:] = of[1:] == of[:-1]
    view.fail_at(
        "token_labels",
        tokens,
        plain[later & (labels != IGNORED_LABEL)],
        lambda i: f"token {tokens.position[i]} has a label, but is not its source token's first piece",
    )
