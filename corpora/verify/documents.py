"""Rules of annotated documents (stage 1). Offsets count characters of the document's text."""

from __future__ import annotations

from functools import cache

import numpy as np

from corpora.schema import Column, annotated_columns
from corpora.verify.answers import check_document_answers
from corpora.verify.choices import check_lines
from corpora.verify.view import Bools, Ints, View, check_lengths, check_nulls, check_spans, endless


class DocumentRules:
    """Checks documents of one schema: `parsed` ones have heads, those of a `pair` corpus two texts."""

    slice_rows = 256
    """Documents checked at once: a page or so of text each."""

    def __init__(self, *, parsed: bool, pair: bool, segmented: bool = True) -> None:
        """`segmented`: every text has words; else only texts whose words the corpus brought."""
        self.columns = annotated_columns(parsed=parsed, pair=pair)
        self._segmented = segmented
        self._parsed, self._suffixes = parsed, ("", "_pair") if pair else ("",)
        groups: dict[tuple[str, bool], list[Column]] = {}
        for column in self.columns:
            if column.shape:
                groups.setdefault((column.shape, column.name.endswith("_pair")), []).append(column)
        self._groups = list(groups.values())

    def check(self, view: View) -> dict[str, int]:
        """Check the rows of `view`; returns what was counted."""
        words = sum(int(view.shape(f"word_starts{suffix}").offsets[-1]) for suffix in self._suffixes)
        view = check_lengths(check_nulls(view, self.columns), self._groups)
        self._check_labels(view)
        for suffix in self._suffixes:
            if suffix:
                lacks = view.null("text_pair")
                view.fail_rows(
                    "pair_annotations",
                    (view.null("word_starts_pair") != lacks) | (view.null("sentence_starts_pair") != lacks),
                    lambda r, lacks=lacks: (  # type: ignore[misc]
                        "text_pair is null but annotated"
                        if lacks[r]
                        else "text_pair is there but its words or sentences are null"
                    ),
                )
            self._check_text(view.good(), suffix)
        return {"words": words}

    def finish(self) -> None:
        """Documents say nothing of each other."""

    def _check_labels(self, view: View) -> None:
        score = view.column("label_score").fill_null(0).to_numpy(zero_copy_only=False)
        view.fail_rows("label", ~np.isfinite(score), lambda r: f"label_score is {score[r]}")
        check_spans(view, "tags", "tag_starts", "tag_stops", view.text_lengths("text"), "source token")
        check_document_answers(view)
        check_lines(view)

    def _check_text(self, view: View, suffix: str) -> None:
        of = "text_pair" if suffix else "text"
        lengths = view.text_lengths(of)
        check_spans(
            view, "sentences", f"sentence_starts{suffix}", f"sentence_stops{suffix}", lengths, "sentence"
        )
        check_spans(view, "words", f"word_starts{suffix}", f"word_stops{suffix}", lengths, "word")
        view = view.good()
        self._check_cover(view, suffix)
        sentence = _sentences(view, suffix)
        _check_inside(view, suffix, sentence)
        if self._parsed:
            good = view.good()
            _check_heads(good, suffix, sentence if good is view else _sentences(good, suffix))

    def _check_cover(self, view: View, suffix: str) -> None:
        of = "text_pair" if suffix else "text"
        lengths = view.text_lengths(of)
        base = np.concatenate([[0], np.cumsum(lengths)])
        words = view.shape(f"word_starts{suffix}")
        starts = view.flat(f"word_starts{suffix}") + base[words.row]
        stops = view.flat(f"word_stops{suffix}") + base[words.row]
        ink = ~white_space(view.column(of).to_pylist())
        edges = np.zeros(len(ink) + 1, np.int8)
        edges[starts] += 1  # no two words share a start, or a stop
        edges[stops] -= 1
        bare = ink & (np.cumsum(edges[:-1], dtype=np.int8) == 0)
        if not self._segmented:
            bare &= np.repeat(np.diff(words.offsets) > 0, lengths)
        if bare.any():
            at = np.flatnonzero(bare)
            rows, first = np.unique(np.searchsorted(base, at, side="right") - 1, return_index=True)
            flags = np.zeros(len(view), bool)
            flags[rows] = True
            where = dict(zip(rows.tolist(), at[first].tolist(), strict=True))
            view.fail_rows(
                "uncovered_text",
                flags,
                lambda r: f"character {where[r] - base[r]} of {of} is in no word",
            )
        seen = np.concatenate([[0], np.cumsum(ink)])
        view.fail(
            "blank_word",
            words,
            seen[stops] == seen[starts],
            lambda i: f"word {words.position[i]} of {of} is white space only",
        )


def _sentences(view: View, suffix: str) -> Ints:
    """Flat index of the last sentence that starts at or before each word, int64[D of all rows].

    It may be one of an earlier row, or -1, for a word that starts before its text's first sentence.
    """
    lengths = view.text_lengths("text_pair" if suffix else "text")
    base = np.cumsum(lengths) - lengths
    sentences, words = view.shape(f"sentence_starts{suffix}"), view.shape(f"word_starts{suffix}")
    keys = base[sentences.row] + view.flat(f"sentence_starts{suffix}")  # rising: texts laid end to end
    return np.searchsorted(keys, base[words.row] + view.flat(f"word_starts{suffix}"), side="right") - 1


def _check_inside(view: View, suffix: str, sentence: Ints) -> None:
    """Every word within one sentence."""
    sentences, words = view.shape(f"sentence_starts{suffix}"), view.shape(f"word_starts{suffix}")
    starts, stops = view.flat(f"word_starts{suffix}"), view.flat(f"word_stops{suffix}")
    inside = sentence >= sentences.offsets[words.row]
    inside[inside] = stops[inside] <= view.flat(f"sentence_stops{suffix}")[sentence[inside]]
    view.fail(
        "words_in_sentences",
        words,
        ~inside,
        lambda i: f"word {words.position[i]} [{starts[i]}, {stops[i]}) of text{suffix} lies in no sentence",
    )


def _check_heads(view: View, suffix: str, sentence: Ints) -> None:
    """Heads within their sentence, one root in each, no cycle; words are known to lie in sentences."""
    words, heads = view.shape(f"word_heads{suffix}"), view.flat(f"word_heads{suffix}")
    view.fail(
        "heads_range",
        words,
        (heads < 0) | (heads >= words.lengths[words.row]),
        lambda i: f"word {words.position[i]} has head {heads[i]} among {words.lengths[words.row[i]]} words",
    )
    absolute = np.where(view.bad[words.row], np.arange(len(heads)), heads + words.offsets[words.row])
    counted = ~view.bad[words.row]
    view.fail(
        "heads_sentence",
        words,
        sentence[absolute] != sentence,
        lambda i: f"word {words.position[i]} has its head, word {heads[i]}, in another sentence",
    )
    sentences = view.shape(f"sentence_starts{suffix}")
    total = int(sentences.offsets[-1])
    inhabited = np.bincount(sentence[counted], minlength=total) > 0
    is_root = (absolute == np.arange(len(heads))) & counted
    roots = np.bincount(sentence[is_root], minlength=total)
    view.fail(
        "one_root",
        sentences,
        inhabited & (roots != 1),
        lambda i: f"sentence {sentences.position[i]} has {roots[i]} roots",
    )
    view.fail(
        "heads_cycle",
        words,
        endless(absolute),
        lambda i: f"the heads of word {words.position[i]} run in a circle",
    )


@cache
def _white() -> Bools:
    """bool[0x3002]: characters up to U+3000, the last white space there is, and one for all above."""
    return np.array([chr(code).isspace() for code in range(0x3001)] + [False])


def white_space(texts: list[str | None]) -> Bools:
    """Whether each character of the texts, laid end to end, is white space as `str.isspace` has it."""
    codes = np.frombuffer("".join(text or "" for text in texts).encode("utf-32-le"), np.uint32)
    return _white()[np.minimum(codes, 0x3001)]
