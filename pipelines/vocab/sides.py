"""The two vocabularies as the road sees them: what each is counted from, how it is chosen, what is told of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from corpora.shards import open_shard, read_batches
from pipelines.config import Config
from pipelines.language import primary_language
from pipelines.section import ConfigError
from pipelines.settings import flat
from pipelines.vocab import steps
from pipelines.vocab.branches import Branches
from pipelines.vocab.choose import Counted, choose
from pipelines.vocab.result import FINE_FILE
from pipelines.vocab.units import Lookup
from pipelines.vocab.wordpiece import SPECIALS, alphabet, extended, train

FINE, COARSE = "fine", "coarse"
_SIZES = {FINE: (21_128, 30_522), COARSE: (72_635, 77_645)}
"""Of AMBERT's vocabularies: Chinese, and else English."""
_ALPHABETS = (10_000, 1_000)


class Side(ABC):
    """Small, and without a corpus."""

    name: str
    file: str
    """Of the vocabulary"""
    size: int
    """Most entries"""

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """What shapes it, by dotted config key."""

    def identities(self) -> dict[str, Any]:
        """What else does, by content."""
        return {}

    @abstractmethod
    def count(self, facts: Mapping[str, Any]) -> steps.Step:
        """Step by block."""

    @abstractmethod
    def merge(self, facts: Mapping[str, Any], runs: Sequence[str]) -> steps.Step:
        """Step by range."""

    @abstractmethod
    def choose(self, merged: Iterable[str]) -> tuple[list[str], dict[str, Any]]:
        """Entries, and what is told of how they were chosen. `merged`: shards of the ranges. Raises ConfigError."""

    @abstractmethod
    def measure(self, facts: Mapping[str, Any], runs: Sequence[str], vocab: str) -> steps.Step:
        """Step by range, on the finished vocabulary."""

    @abstractmethod
    def coverage(self, totals: Counter[str]) -> dict[str, float]:
        """Shares, from what was measured."""


class Fine(Side):
    """WordPiece."""

    name, file = FINE, FINE_FILE

    def __init__(self, config: Config, branches: Branches | None = None) -> None:
        """`branches`: what rows will have of them."""
        self._branches = branches
        self._config, chinese = config.vocab.fine, primary_language(config.language) == "zh"
        self._lowercase = config.encode.lowercase
        self.size = self._config.size or _SIZES[FINE][not chinese]
        self._alphabet = self._config.alphabet or _ALPHABETS[not chinese]

    def settings(self) -> dict[str, Any]:
        found = flat("vocab.fine", self._config.model_dump(mode="json"))
        found |= {"vocab.fine.size": self.size, "vocab.fine.alphabet": self._alphabet}
        found["encode.lowercase"] = self._lowercase
        return found if self._branches is None else found | self._branches.settings()

    def identities(self) -> dict[str, Any]:
        return {} if self._branches is None else self._branches.identities()

    def count(self, facts: Mapping[str, Any]) -> steps.Step:
        return steps.CountFine({**facts, "lowercase": self._lowercase})

    def merge(self, facts: Mapping[str, Any], runs: Sequence[str]) -> steps.Step:
        return steps.MergeFine({**facts, "min_count": self._config.min_count}, runs)

    def choose(self, merged: Iterable[str]) -> tuple[list[str], dict[str, Any]]:
        rows = _rows(merged)
        least = self._config.min_count
        characters = alphabet(
            rows[steps.PIECE], lowercase=self._lowercase, most=self._alphabet, min_count=least
        )
        forms = len(SPECIALS) + len(characters.forms())
        if forms > self.size:
            raise ConfigError(
                f"vocab.fine.size: {self.size:,} entries do not hold the {len(SPECIALS)} special tokens and the "
                f"characters of this corpus, alone and within words; at least {forms:,}, or fewer characters "
                f"(vocab.fine.alphabet, now {self._alphabet:,}; vocab.fine.min_count)"
            )
        found: dict[str, Any] = {
            "words": len(rows[steps.WORD]),
            "characters": len(characters.whole),
            "characters_left_out": len({form[-1] for form in rows[steps.PIECE]} - set(characters.whole)),
        }
        if self._branches is not None:
            of_branches = self._branches.forms(lowercase=self._lowercase)
            of_text = len(characters.whole)  # whose pieces want room, too
            characters = extended(characters, of_branches, most=self._alphabet, room=(self.size - forms) // 2)
            found["characters_of_branches"] = len(characters.whole) - of_text
            left = {form[-1] for form in of_branches} - set(characters.whole)
            found["characters_of_branches_left_out"] = len(left)
        trained = train(rows[steps.WORD], characters, self.size, least)
        if trained.scale < 1:
            found["counts_scaled_by"] = trained.scale
        return trained.entries, found

    def measure(self, facts: Mapping[str, Any], runs: Sequence[str], vocab: str) -> steps.Step:
        return steps.MeasureFine({**facts, "lowercase": self._lowercase}, runs, vocab)

    def coverage(self, totals: Counter[str]) -> dict[str, float]:
        return {
            "tokens_per_word": _share(totals["tokens"], totals["words"]),
            "unknown_words": _share(totals["unknown_words"], totals["words"]),
        }


class Coarse(Side):
    """Words, phrases and pieces."""

    name, file = COARSE, "coarse_vocab.txt"

    def __init__(self, config: Config, lookup: Lookup) -> None:
        self._config, chinese = config.vocab.coarse, primary_language(config.language) == "zh"
        self._lookup = lookup
        self.size = self._config.size or _SIZES[COARSE][not chinese]

    def settings(self) -> dict[str, Any]:
        return flat("vocab.coarse", self._config.model_dump(mode="json")) | {"vocab.coarse.size": self.size}

    def identities(self) -> dict[str, Any]:
        return self._lookup.identities()

    def count(self, facts: Mapping[str, Any]) -> steps.Step:
        return steps.CountCoarse(self._known(facts), self._lookup)

    def merge(self, facts: Mapping[str, Any], runs: Sequence[str]) -> steps.Step:
        return steps.MergeCoarse(
            {**self._known(facts), "min_count": self._config.min_count}, runs, self._lookup
        )

    def choose(self, merged: Iterable[str]) -> tuple[list[str], dict[str, Any]]:
        rows = _rows(merged)
        counted = Counted(rows[steps.WORD], rows[steps.PHRASE], rows[steps.PIECE])
        made = choose(counted, self._lookup.tokenizer, self.size, self._config.min_count, self._config.pieces)
        found: dict[str, Any] = {
            "pieces": len(made.pieces),
            "pieces_without_room": made.lost_pieces,
            "words": sum(unit not in rows[steps.PHRASE] for unit in made.units),
            "phrases": sum(unit in rows[steps.PHRASE] for unit in made.units),
            "fell_out": [{"text": text, "count": count} for text, count in made.fallen],
        }
        if self._lookup.lexicon is not None:
            found["lexicon"] = len(self._lookup.lexicon)
            found["never_seen"] = found["lexicon"] - len(rows[steps.PHRASE])
        return made.entries, found

    def measure(self, facts: Mapping[str, Any], runs: Sequence[str], vocab: str) -> steps.Step:
        return steps.MeasureCoarse(self._known(facts), runs, self._lookup, vocab)

    def coverage(self, totals: Counter[str]) -> dict[str, float]:
        phrases, words = totals["phrases"], totals["words"]
        fell = {"phrases_to_words": _share(phrases - totals["phrases_whole"], phrases)} if phrases else {}
        return {
            "characters_in_whole_tokens": _share(totals["characters_whole"], totals["characters"]),
            **fell,
            "words_to_pieces": _share(totals["words_in_pieces"], words),
            "words_unknown": _share(totals["words_unknown"], words),
        }

    def _known(self, facts: Mapping[str, Any]) -> dict[str, Any]:
        return {**facts, **self._lookup.identities()}


def _share(part: int, whole: int) -> float:
    return round(part / whole, 6) if whole else 0.0


def _rows(shards: Iterable[str]) -> tuple[Counter[str], Counter[str], Counter[str]]:
    """Words, phrases and pieces of all ranges with their counts."""
    found: tuple[Counter[str], Counter[str], Counter[str]] = (Counter(), Counter(), Counter())
    for path in shards:
        for batch in read_batches(open_shard(path)):
            columns = (batch[name].to_pylist() for name in steps.MERGED.names)
            for kind, text, count in zip(*columns, strict=True):
                found[kind][text] += count
    return found
