"""What the syntax columns of a row must say, by climbing the trees of its document one word at a time.

Nothing here is vectorised or shared with the product but the tokenizer, which is handed in. A row names its
tokens by their characters; everything else is looked up in the annotated document.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

Row = dict[str, Any]
Spans = list[tuple[int, int]]
Tokenize = Callable[[str], Spans]

SHAPES = {
    "choice_lengths": ("input_ids", "token_type_ids", "char_starts", "char_stops", "word_index"),
    "choice_words": ("word_heads", "word_deprels", "word_dfs_in", "word_dfs_out", "sentence_index"),
}


@dataclass
class Side:
    """One text of a document with its words: a choice is a text of its own, `base` characters into the second."""

    text: str
    base: int
    starts: list[int]
    stops: list[int]
    sentences: list[int]
    heads: list[int]
    deprels: list[str]


def sides_of(document: Row) -> tuple[Side, list[Side]]:
    """The text, and the second text: itself, or each of its choices."""
    first = _side(document, "", 0, len(document["text"]))
    if document.get("text_pair") is None:
        return first, []
    lines = [(0, len(document["text_pair"]))]
    if document.get("choice_starts") is not None:
        lines = list(zip(document["choice_starts"], document["choice_stops"], strict=True))
    return first, [_side(document, "_pair", start, stop) for start, stop in lines]


def _side(document: Row, suffix: str, start: int, stop: int) -> Side:
    starts, stops = document[f"word_starts{suffix}"], document[f"word_stops{suffix}"]
    heads, deprels = document[f"word_heads{suffix}"], document[f"word_deprels{suffix}"]
    own = [w for w in range(len(starts)) if start <= starts[w] < stop]
    place = {w: i for i, w in enumerate(own)}
    return Side(
        text=document[f"text{suffix}"][start:stop],
        base=start,
        starts=[starts[w] - start for w in own],
        stops=[stops[w] - start for w in own],
        sentences=[
            max(i for i, s in enumerate(document[f"sentence_starts{suffix}"]) if s <= starts[w]) for w in own
        ],
        heads=[place.get(heads[w], place[w]) for w in own],
        deprels=[deprels[w] for w in own],
    )


def owners(side: Side, tokens: Sequence[tuple[int, int]]) -> list[int]:
    """The word of each token of the whole text; -1 where the text has none.

    It is the word that holds the token's first character; where none does, the next token's that has one,
    or else the one's before.
    """
    found: list[int | None] = []
    for start, _ in tokens:
        inside = [w for w in range(len(side.starts)) if side.starts[w] <= start < side.stops[w]]
        found.append(inside[0] if inside else None)
    result = []
    for i, word in enumerate(found):
        if word is None:
            after = [w for w in found[i:] if w is not None]
            before = [w for w in found[:i] if w is not None]
            word = after[0] if after else before[-1] if before else -1
        result.append(word)
    return result


def climb(side: Side, word: int, kept: set[int]) -> int:
    """The nearest ancestor of `word` that has tokens; itself where there is none."""
    at = word
    while True:
        head = side.heads[at]
        if head == at:
            return word  # a root, or only words without tokens above
        if head in kept:
            return head
        at = head


def check_sequence(row: Row, sides: Sequence[Side], tokenize: Tokenize, deprels: Sequence[str]) -> None:
    """One [CLS] A [SEP] or [CLS] A [SEP] B with everything its `syntax` columns say."""
    count = len(row["input_ids"])
    words: list[tuple[int, int]] = []  # (side, word of it) of each word of the row, in order
    expected = [-1] * count
    ties: list[dict[int, int]] = []
    kept: list[set[int]] = []
    for number, side in enumerate(sides):
        tokens = tokenize(side.text)
        word_of = owners(side, tokens)
        kept.append(set(word_of))
        mine = [
            i
            for i in range(count)
            if row["token_type_ids"][i] == number and row["char_stops"][i] > row["char_starts"][i]
        ]
        shift = side.base if number else 0
        spans = [(row["char_starts"][i] - shift, row["char_stops"][i] - shift) for i in mine]
        begin = next(
            k for k in range(len(tokens) - len(spans) + 1) if list(tokens[k : k + len(spans)]) == spans
        )
        rank: dict[int, int] = {}
        for offset, i in enumerate(mine):
            word = word_of[begin + offset]
            if word == -1:
                continue
            if word not in rank:
                rank[word] = len(words)
                words.append((number, word))
            expected[i] = rank[word]
        ties.append(rank)
    assert row["word_index"] == expected

    heads, relations, sentences = [], [], []
    for place, (number, word) in enumerate(words):
        side = sides[number]
        head = climb(side, word, kept[number])
        heads.append(ties[number].get(head, place))  # a head outside the segment makes a root
        relations.append(deprels.index(side.deprels[word]))
        here = (number, side.sentences[word])
        if not sentences:
            sentences.append(0)
        else:
            before = words[place - 1]
            same = here == (before[0], sides[before[0]].sentences[before[1]])
            sentences.append(sentences[-1] + (not same))
    assert row["word_heads"] == heads
    assert row["word_deprels"] == relations
    assert row["sentence_index"] == sentences
    check_intervals(row)


def check_intervals(row: Row) -> None:
    """The depth-first predicate says of all pairs of words what climbing says."""
    heads, enter, leave = row["word_heads"], row["word_dfs_in"], row["word_dfs_out"]
    assert len(heads) == len(enter) == len(leave)
    for b in range(len(heads)):
        above = {b}
        at = b
        while heads[at] != at:
            at = heads[at]
            above.add(at)
        for a in range(len(heads)):
            assert (enter[a] <= enter[b] < leave[a]) == (a in above)


def choices_of(row: Row) -> list[Row]:
    """The sequences of a row, one a choice."""
    made = []
    starts = dict.fromkeys(SHAPES, 0)
    for number in range(len(row["choice_lengths"])):
        part: Row = {}
        for counts, names in SHAPES.items():
            size = row[counts][number]
            for name in names:
                part[name] = row[name][starts[counts] : starts[counts] + size]
            starts[counts] += size
        made.append(part)
    for counts, names in SHAPES.items():
        assert all(starts[counts] == len(row[name]) for name in names)
    return made


def check_row(row: Row, document: Row, tokenize: Tokenize, deprels: Sequence[str]) -> None:
    """A row of any task but pretraining, against the document that it was made of."""
    first, second = sides_of(document)
    if "choice_lengths" in row:
        choices = choices_of(row)
        assert len(choices) == len(second)
        for part, side in zip(choices, second, strict=True):
            check_sequence(part, (first, side), tokenize, deprels)
    else:
        check_sequence(row, (first, *second), tokenize, deprels)
