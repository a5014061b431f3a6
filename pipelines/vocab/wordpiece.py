"""A WordPiece vocabulary from counted words: the trainer of `tokenizers`, fed and made to repeat itself.

The trainer alone does not give the same vocabulary twice (0.23: three runs, three vocabularies): it numbers the
`##x` forms of characters in the order of a randomly seeded hash map and settles equal pair counts by those numbers.
So both forms of every character are numbered here, in code point order, before training starts.

It takes texts, not counts: each word is fed as often as it occurs, three million a second. Where that would be more
than `MOST_WORDS`, all counts are scaled down, the rare ones to one at least.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from tokenizers.pre_tokenizers import WhitespaceSplit
from tokenizers.trainers import WordPieceTrainer

from pipelines.encode.tokenizer import SPECIAL_TOKENS

SPECIALS = tuple(names[0] for names in SPECIAL_TOKENS.values())
PREFIX = "##"
MOST_WORDS = 200_000_000
"""Words that the trainer is given."""
_SLICE = 1 << 16
"""Characters of a text that it is given; larger ones are slower."""


class Alphabet(NamedTuple):
    """Characters with entries, each in code point order."""

    whole: Sequence[str]
    """All of them: each may begin a word"""
    rest: Sequence[str]
    """Those that go on with one as well"""

    def forms(self) -> list[str]:
        """Their entries."""
        return [*self.whole, *(PREFIX + c for c in self.rest)]


def printable_ascii(*, lowercase: bool) -> str:
    """Always in, so that a user's own English never falls to [UNK] for a stray sign."""
    signs = "".join(map(chr, range(0x21, 0x7F)))
    return "".join(dict.fromkeys(signs.lower())) if lowercase else signs


def character_forms(words: Mapping[str, int]) -> Counter[str]:
    """Counts of `x` for characters that begin a word, and of `##x` for those that go on with one."""
    counts: Counter[str] = Counter()
    for word, count in words.items():
        counts[word[0]] += count
        for char in word[1:]:
            counts[PREFIX + char] += count
    return counts


def alphabet(
    forms: Mapping[str, int], *, lowercase: bool, most: int | None = None, min_count: int = 1
) -> Alphabet:
    """The most frequent characters, ties by code point, and printable ASCII.

    Args:
        forms: counts, as `character_forms` has them.
        most: characters in all; None: no limit.
        min_count: of both forms together; ASCII needs none.
    """
    totals: Counter[str] = Counter()
    for form, count in forms.items():
        totals[form[-1]] += count
    always = printable_ascii(lowercase=lowercase)
    others = sorted((c for c in totals if totals[c] >= min_count), key=lambda c: (-totals[c], c))
    others = [c for c in others if c not in always]
    chosen = {*always, *(others if most is None else others[: max(0, most - len(always))])}
    rest = {c for c in always if c.isalnum()} | {c for c in chosen if PREFIX + c in forms}
    return Alphabet(sorted(chosen), sorted(rest))


def extended(characters: Alphabet, forms: Mapping[str, int], *, most: int, room: int) -> Alphabet:
    """`characters` and the most frequent others of `forms`, ties by code point: at most `most` in all, of which the new
    ones take at most `room` entries."""
    totals: Counter[str] = Counter()
    for form, count in forms.items():
        totals[form[-1]] += count
    whole, rest = set(characters.whole), set(characters.rest)
    for char in sorted(totals, key=lambda c: (-totals[c], c)):
        goes_on = PREFIX + char in forms and char not in rest
        entries = (char not in whole) + goes_on
        if entries > room or (char not in whole and len(whole) >= most):
            continue
        whole.add(char)
        if goes_on:
            rest.add(char)
        room -= entries
    return Alphabet(sorted(whole), sorted(rest))


class Trained(NamedTuple):
    entries: list[str]
    """By id: the special tokens, both forms of the characters, then pieces in the order in which they were merged"""
    scale: float
    """What counts were multiplied with; 1 where all could be fed"""


def train(
    words: Mapping[str, int], characters: Alphabet, size: int, min_count: int, most_words: int = MOST_WORDS
) -> Trained:
    """Merge pieces until there are `size` entries, or no pair occurs `min_count` times.

    Args:
        words: pre-tokens and how often each occurs; one with a character that has no entry is passed over, as
            WordPiece makes [UNK] of it.

    All characters are kept, even beyond `size`.
    """
    known, going_on = set(characters.whole), set(characters.rest)
    learnt = {
        word: count for word, count in words.items() if word[0] in known and going_on.issuperset(word[1:])
    }
    fixed = [*SPECIALS, *characters.forms()]
    total = sum(learnt.values())
    scale = min(1.0, most_words / total) if total else 1.0
    if scale < 1:
        learnt = {word: max(1, round(count * scale)) for word, count in learnt.items()}
    trainer = WordPieceTrainer(
        vocab_size=max(size, len(fixed)),
        min_frequency=max(1, round(min_count * scale)),
        special_tokens=fixed,  # numbered first and in this order; only the strings are kept below
        continuing_subword_prefix=PREFIX,
        show_progress=False,
    )
    tokenizer = Tokenizer(WordPiece(unk_token="[UNK]"))  # noqa: S106
    tokenizer.pre_tokenizer = WhitespaceSplit()
    tokenizer.train_from_iterator(_texts(learnt.items()), trainer)
    ids = tokenizer.get_vocab(with_added_tokens=True)
    return Trained(sorted(ids, key=ids.__getitem__), scale)


def _texts(counts: Iterable[tuple[str, int]]) -> Iterator[str]:
    """Each word as often as it is counted, in texts of about `_SLICE` characters."""
    held: list[str] = []
    room = _SLICE
    for word, count in counts:
        each = len(word) + 1
        while count:
            some = min(count, max(1, room // each))
            held.append(f"{word} " * some)
            count -= some
            room -= some * each
            if room <= 0:
                yield "".join(held)
                held, room = [], _SLICE
    yield "".join(held)
