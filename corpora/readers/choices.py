"""From one question with options to a row: how its choices are composed, and which one is right.

A choice is the question with one option: behind it (`blank: append`), or in its first blank, a run of `_`
(`fill`; behind it where there is none). Choices stand in `text_pair`, a line each; a line end within one
becomes a space, which moves no offset.

An option that is empty stays an option, since taking it away would move the others, and the question with
it: its choice is the bare question. Counted: `options_empty`; `answers_ambiguous`, an answer given as text that
two options have, whose first is taken; `questions_unlabelled`; `words_blank`, given words of nothing but white
space, which are left out.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import accumulate, chain
from operator import sub
from string import ascii_uppercase
from typing import Any

from corpora.layout import InputConfig
from corpora.readers.fields import not_empty, required_text, wrong_type
from corpora.readers.sink import FieldError, Sink

_BLANK = re.compile("_+")


class Choices:
    """Turns questions with options of one split into rows of a sink; raises FieldError for one that cannot be used."""

    def __init__(self, layout: InputConfig, language: str, split: str, sink: Sink, *, letters: bool) -> None:
        self._sink = sink
        self._trains = layout.trains(split)
        self._fill = layout.blank == "fill"
        self._joiner = "" if language.lower().startswith(("zh", "ja")) else " "
        self._letters = letters

    def add(
        self, byte: int, doc_id: str | None, passage: Any, question: Any, options: Any, answer: Any
    ) -> None:
        """Add the question at `byte`, of strings. Arguments are values of the corpus, None where it has none.

        Raises:
            FieldError: `missing_text`, `empty_text`, `bad_type`, `too_few_options`, `missing_label`, `bad_answer`.
        """
        passage, question = required_text(passage, "passage"), required_text(question, "question")
        texts = _options(options)
        label = self._label(answer, texts)
        self._count_empty(texts)
        lines = [self._composed(question, option).replace("\n", " ") for option in texts]
        starts, stops = _line_spans(lines)
        self._sink.row(
            byte,
            passage,
            doc_id=doc_id,
            text_pair="\n".join(lines),
            label=label,
            choice_starts=starts,
            choice_stops=stops,
        )

    def add_words(
        self, byte: int, doc_id: str | None, passage: Any, question: Any, options: Any, answer: Any
    ) -> None:
        """Add a question that is given in words: a passage of sentences, a question and options of words.

        Words are joined by spaces. The given words and sentences become the row's annotations; in a choice
        the question is a sentence and the option behind it another.

        Raises:
            FieldError: as `add` does.
        """
        if not isinstance(passage, list):
            raise wrong_type("passage", "a list of sentences, which are lists of words", passage)
        sentences = [words for sentence in passage if (words := self._words(sentence, "passage"))]
        asked = self._words(question, "question")
        offered = [self._words(option, "options") for option in _at_least_two(options)]
        if not sentences or not asked:
            raise FieldError("empty_text", f"the {'question' if sentences else 'passage'} has no word")
        texts = [" ".join(words) for words in offered]
        label = self._label(answer, texts)
        self._count_empty(texts)
        choices = [self._composed_words(asked, words) for words in offered]
        lines = [" ".join(chain.from_iterable(choice)) for choice in choices]
        starts, stops = _line_spans(lines)
        self._sink.row(
            byte,
            " ".join(chain.from_iterable(sentences)),
            doc_id=doc_id,
            text_pair="\n".join(lines),
            label=label,
            choice_starts=starts,
            choice_stops=stops,
            **_spans(sentences, ""),
            **_spans(list(chain.from_iterable(choices)), "_pair"),
        )

    # --- the choices ----------------------------------------------------------------------

    def _composed(self, question: str, option: str) -> str:
        if self._fill and _BLANK.search(question):
            return not_empty(_BLANK.sub(lambda _: option, question, count=1), "question and option")
        if not option.strip():
            return question
        return f"{question}{self._joiner}{option}"

    def _composed_words(self, question: list[str], option: list[str]) -> list[list[str]]:
        """Sentences of words: the question's and the option's, or one where the option fills a blank."""
        if self._fill:
            for i, word in enumerate(question):
                if blank := _BLANK.search(word):
                    before, after = word[: blank.start()], word[blank.end() :]
                    inside = [*filter(None, [before]), *option, *filter(None, [after])]
                    if not (filled := [*question[:i], *inside, *question[i + 1 :]]):
                        raise FieldError("empty_text", "the question and its option have no word")
                    return [filled]
        return [question, option] if option else [question]

    def _count_empty(self, options: Sequence[str]) -> None:
        if empty := sum(not option.strip() for option in options):
            self._sink.count("options_empty", empty)

    def _words(self, words: Any, field: str) -> list[str]:
        """Words without white space at their edges, and without those that are nothing else."""
        if not isinstance(words, list):
            raise wrong_type(field, "a list of words", words)
        try:
            kept = [word for word in map(str.strip, words) if word]
        except TypeError:
            bad = next(word for word in words if not isinstance(word, str))
            raise wrong_type(field, "a list of words", bad) from None
        if len(kept) < len(words):
            self._sink.count("words_blank", len(words) - len(kept))
        return [word.replace("\n", " ") for word in kept] if any("\n" in word for word in kept) else kept

    # --- the right one --------------------------------------------------------------------

    def _label(self, answer: Any, options: list[str]) -> str | None:
        if answer is None:
            if self._trains:
                raise FieldError("missing_label", "the question has no answer, and its split trains")
            self._sink.count("questions_unlabelled", 1)
            return None
        index = self._right(answer, options)
        if index is None:
            last = ascii_uppercase[: len(options)][-1]
            raise FieldError(
                "bad_answer",
                f"the answer must be one of {len(options)} options: its letter (A to {last}), its index from 0, "
                f"or its text; found {str(answer)[:100]!r}",
            )
        return str(index)

    def _right(self, answer: Any, options: list[str]) -> int | None:
        if type(answer) is int:
            return answer if 0 <= answer < len(options) else None
        if not isinstance(answer, str):
            return None
        letter = ascii_uppercase.find(answer) if len(answer) == 1 else -1
        if self._letters and 0 <= letter < len(options):
            return letter
        if answer in options and answer.strip():
            if options.count(answer) > 1:
                self._sink.count("answers_ambiguous", 1)
            return options.index(answer)
        return letter if 0 <= letter < len(options) else None


def _options(options: Any) -> list[str]:
    for option in _at_least_two(options):
        if not isinstance(option, str):
            raise wrong_type("options", "a list of strings", option)
    return options


def _at_least_two(options: Any) -> list[Any]:
    if options is None:
        raise FieldError("missing_text", "the field 'options' is missing or null")
    if not isinstance(options, list):
        raise wrong_type("options", "a list", options)
    if len(options) < 2:
        raise FieldError("too_few_options", f"a question needs at least 2 options, found {len(options)}")
    return options


def _line_spans(lines: list[str]) -> tuple[list[int], list[int]]:
    """First character of each line, and one past its last, where one character stands between each two."""
    lengths = list(map(len, lines))
    stops = [end - 1 for end in accumulate([length + 1 for length in lengths])]
    return list(map(sub, stops, lengths)), stops


def _spans(sentences: list[list[str]], suffix: str) -> dict[str, Any]:
    """Annotations of words of which one character stands between each two, sentences and lines too."""
    starts, stops = _line_spans(list(chain.from_iterable(sentences)))
    edges = list(accumulate(map(len, sentences), initial=0))
    return {
        f"sentence_starts{suffix}": [starts[i] for i in edges[:-1]],
        f"sentence_stops{suffix}": [stops[i - 1] for i in edges[1:]],
        f"word_starts{suffix}": starts,
        f"word_stops{suffix}": stops,
    }
