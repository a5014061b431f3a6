"""How well a parser parses treebanks: `treegraft parse-eval`.

Either the treebank's words and sentences are given and all words are scored, or only its sentences are (`own`
words): then the words that are the same, character for character, are scored, and how many are is told too. A
multiword token that its words do not spell (`du`) is one word there, as everywhere in a dataset.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from corpora.conllu import ConlluSentence, read_conllu
from corpora.multiword import merge
from pipelines.annotate.tools import UPOS, Parse, Parser, Segmenter
from pipelines.annotate.words import Spans, Words
from pipelines.config import ConfigError
from pipelines.parse_eval.score import Counts, Trees, count, not_punctuation, strings
from pipelines.ragged import Ints, bounds

_BATCH_SENTENCES = 1_000


@dataclass(frozen=True)
class Result:
    """One treebank, or several added up. `gold_words`: all of the treebank; `found`: of the parser."""

    file: str
    sentences: int = 0
    unparsed: int = 0  # sentences that the treebank has no tree of: not scored
    gold_words: int = 0
    found: int = 0
    same: int = 0  # words of both
    counts: Counts = field(default_factory=Counts)
    seconds: float = 0.0

    def plus(self, other: Result) -> Result:
        return Result(
            self.file,
            self.sentences + other.sentences,
            self.unparsed + other.unparsed,
            self.gold_words + other.gold_words,
            self.found + other.found,
            self.same + other.same,
            self.counts + other.counts,
            self.seconds + other.seconds,
        )

    def as_dict(self) -> dict[str, Any]:
        """For JSON. Percents of words are of those scored; `words_f1` says how many words are the same."""
        rate = self.found / self.seconds if self.seconds else None
        return {
            "file": self.file,
            "sentences": self.sentences,
            "sentences_without_tree": self.unparsed,
            "words": self.gold_words,
            "words_found": self.found,
            "words_same": self.same,
            "words_f1": 100 * 2 * self.same / max(1, self.gold_words + self.found),
            "words_scored": self.counts.words,
            **self.counts.percents(),
            "words_per_second": rate,
        }


def evaluate(
    path: Path,
    parser: Parser,
    segmenter: Segmenter | None = None,
    *,
    punctuation: bool = True,
    main_relations: bool = False,
) -> Result:
    """Parse a CoNLL-U file and compare. With a segmenter its words are parsed, else the treebank's.

    Raises ConlluError, OSError, and ConfigError for a file without any tree.
    """
    result = Result(str(path))
    for batch in _batches(read_conllu(path)):
        parsed = [s for s in batch if s.has_parse]
        part = Result("", len(parsed), len(batch) - len(parsed))
        if parsed:
            part = part.plus(_evaluate(parsed, parser, segmenter, punctuation, main_relations))
        result = result.plus(part)
    if not result.sentences:
        raise ConfigError(
            f"{path}: no sentence has a tree to compare with ({result.unparsed} without, HEAD is `_`); "
            "name treebanks that are parsed"
        )
    return result


def _evaluate(
    sentences: list[ConlluSentence],
    parser: Parser,
    segmenter: Segmenter | None,
    punctuation: bool,
    main_relations: bool,
) -> Result:
    words, gold = gold_words(sentences) if segmenter is None else gold_words_merged(sentences)
    longest = 10**9  # sentences are the treebank's, none is cut
    begin = perf_counter()
    if segmenter is None:
        parse = parser.parse(words, max_sentence_words=longest)
    else:
        own = segmenter.segment([s.text for s in sentences], _sentences(sentences))
        parse = parser.parse(own, max_sentence_words=longest)
    seconds = perf_counter() - begin
    same = None if segmenter is None else same_words(words, parse.words)
    counts = count(
        gold,
        trees(parse, parser.deprels),
        same,
        scored=None if punctuation else not_punctuation(words.forms),
        main_relations=main_relations,
    )
    alike = len(words.forms) if same is None else int((same >= 0).sum())
    found = len(parse.words.starts)
    return Result("", 0, 0, len(words.forms), found, alike, counts, seconds)


def trees(parse: Parse, deprels: Sequence[str]) -> Trees:
    """A parse with its strings."""
    return Trees(parse.heads, strings(deprels)[parse.deprels], strings(UPOS)[parse.pos])


def gold_words(sentences: Sequence[ConlluSentence]) -> tuple[Words, Trees]:
    """All words of the treebank, each sentence a text of its own."""
    lengths = [len(s.forms) for s in sentences]
    offsets = bounds(lengths)
    words = Words(
        _flat([s.starts for s in sentences]),
        _flat([s.stops for s in sentences]),
        offsets,
        [form for s in sentences for form in s.forms],
        offsets,
    )
    heads = _flat([s.heads for s in sentences]) + np.repeat(offsets[:-1], lengths)
    labels = [label for s in sentences for label in s.deprels]
    return words, Trees(heads, strings(labels), strings([tag for s in sentences for tag in s.upos]))


def gold_words_merged(sentences: Sequence[ConlluSentence]) -> tuple[Words, Trees]:
    """As `gold_words`; words that stand on the same characters are one."""
    words, gold = gold_words(sentences)
    begins = np.ones(len(words.starts), bool)
    begins[1:] = (words.starts[1:] != words.starts[:-1]) | (words.stops[1:] != words.stops[:-1])
    begins[words.offsets[:-1]] = True
    merged = merge(np.cumsum(begins), gold.heads)
    offsets = bounds(begins)[words.offsets]
    starts, stops = words.starts[merged.keep], words.stops[merged.keep]
    text_of = np.repeat(np.arange(len(sentences)), np.diff(offsets)).tolist()
    forms = [
        sentences[text].text[a:b] for text, a, b in zip(text_of, starts.tolist(), stops.tolist(), strict=True)
    ]
    kept = Trees(merged.heads, gold.deprels[merged.keep], gold.pos[merged.keep])
    return Words(starts, stops, offsets, forms, offsets), kept


def same_words(gold: Words, own: Words) -> Ints:
    """For each word of `gold` the word of `own` on the same characters of the same text, -1 for none."""
    width = 1 + max(int(words.stops.max(initial=0)) for words in (gold, own))
    keys = [
        np.repeat(np.arange(len(w.offsets) - 1), np.diff(w.offsets)) * width + w.starts for w in (gold, own)
    ]
    if not len(keys[1]):
        return np.full(len(keys[0]), -1, np.int64)
    at = np.minimum(np.searchsorted(keys[1], keys[0]), len(keys[1]) - 1)
    return np.where((keys[1][at] == keys[0]) & (own.stops[at] == gold.stops), at, -1)


def _flat(lists: Sequence[Sequence[int]]) -> Ints:
    return np.fromiter((value for values in lists for value in values), np.int64)


def _sentences(sentences: Sequence[ConlluSentence]) -> Spans:
    """Each text is one sentence."""
    starts = [len(s.text) - len(s.text.lstrip()) for s in sentences]
    stops = [len(s.text.rstrip()) for s in sentences]
    return Spans(np.array(starts, np.int64), np.array(stops, np.int64), np.arange(len(sentences) + 1))


def _batches(sentences: Iterator[ConlluSentence]) -> Iterator[list[ConlluSentence]]:
    while batch := list(islice(sentences, _BATCH_SENTENCES)):
        yield batch
