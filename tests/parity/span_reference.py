"""Windows of questions by plain loops: BERT's `run_squad.py`, and the same with offsets in characters.

The first half follows the released code (google-research/bert, `read_squad_examples`, `convert_examples_to_features`,
`_improve_answer_span`, `_check_is_max_context`) line by line. The second half is the contract of this project's
rows: cuts that part no grapheme cluster, answers by characters. Nothing is shared with the product but the
tokenizer, which is handed in, and the definition of a cluster.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from corpora.graphemes import inside_cluster


class Piece(NamedTuple):
    """A token: its id, and the characters of its text that it stands for."""

    id: int
    start: int
    stop: int


Tokenize = Callable[[str], list[Piece]]

# --- the released code ------------------------------------------------------------------------


def doc_spans(count: int, budget: int, stride: int) -> list[tuple[int, int]]:
    """`convert_examples_to_features`: (start, length) of every window over `count` tokens."""
    spans = []
    start_offset = 0
    while start_offset < count:
        length = count - start_offset
        if length > budget:
            length = budget
        spans.append((start_offset, length))
        if start_offset + length == count:
            break
        start_offset += min(length, stride)
    return spans


def check_is_max_context(spans: Sequence[tuple[int, int]], current: int, position: int) -> bool:
    """`_check_is_max_context`: whether window `current` is the one in which the token has most context."""
    best_score = None
    best_span_index = None
    for span_index, (start, length) in enumerate(spans):
        end = start + length - 1
        if position < start:
            continue
        if position > end:
            continue
        num_left_context = position - start
        num_right_context = end - position
        score = min(num_left_context, num_right_context) + 0.01 * length
        if best_score is None or score > best_score:
            best_score = score
            best_span_index = span_index
    return current == best_span_index


def white_space_words(text: str) -> tuple[list[tuple[int, int]], list[int]]:
    """`read_squad_examples`: words of the text as character ranges, and the word of each character."""

    def is_whitespace(c: str) -> bool:
        return c in (" ", "\t", "\r", "\n") or ord(c) == 0x202F

    words: list[list[int]] = []
    char_to_word: list[int] = []
    prev_is_whitespace = True
    for i, c in enumerate(text):
        if is_whitespace(c):
            prev_is_whitespace = True
        else:
            if prev_is_whitespace:
                words.append([i, i + 1])
            else:
                words[-1][1] = i + 1
            prev_is_whitespace = False
        char_to_word.append(len(words) - 1)
    return [(a, b) for a, b in words], char_to_word


def released_answer(
    context: str, answer: str, answer_start: int, tokenize: Tokenize
) -> tuple[int, int, list[Piece]]:
    """First and last token of an answer, as the released code trains on it, and all tokens of the text."""
    words, char_to_word = white_space_words(context)
    start_position = char_to_word[answer_start]
    end_position = char_to_word[answer_start + len(answer) - 1]
    orig_to_tok_index = []
    all_doc_tokens: list[Piece] = []
    for a, b in words:
        orig_to_tok_index.append(len(all_doc_tokens))
        all_doc_tokens += [Piece(p.id, p.start + a, p.stop + a) for p in tokenize(context[a:b])]
    tok_start_position = orig_to_tok_index[start_position]
    if end_position < len(words) - 1:
        tok_end_position = orig_to_tok_index[end_position + 1] - 1
    else:
        tok_end_position = len(all_doc_tokens) - 1
    tok_answer_text = [p.id for p in tokenize(answer)]
    for new_start in range(tok_start_position, tok_end_position + 1):  # _improve_answer_span
        for new_end in range(tok_end_position, new_start - 1, -1):
            if new_end + 1 - new_start != len(tok_answer_text):
                continue  # the code compares them in full; this only saves time
            if [p.id for p in all_doc_tokens[new_start : new_end + 1]] == tok_answer_text:
                return new_start, new_end, all_doc_tokens
    return tok_start_position, tok_end_position, all_doc_tokens


# --- this project's rows ----------------------------------------------------------------------


def is_clean(text: str, pieces: Sequence[Piece], at: int) -> bool:
    """Whether the text may be cut right before token `at`."""
    return pieces[at].start != pieces[at - 1].start and not inside_cluster(text, pieces[at].start)


def windows(text: str, pieces: Sequence[Piece], budget: int, stride: int) -> list[tuple[int, int]]:
    """[first token, one past the last) of every window.

    A cut that parts a cluster is moved back, but not so far that a window would begin or end where the one
    before does; where none is clean it stays.
    """
    spans: list[tuple[int, int]] = []
    start, reached = 0, 0
    while True:
        stop = min(start + budget, len(pieces))
        if stop < len(pieces):
            stop = moved_back(text, pieces, stop, max(start, reached))
        spans.append((start, stop))
        if stop == len(pieces):
            return spans
        reached = stop
        start = moved_back(text, pieces, min(start + stride, stop), start)


def moved_back(text: str, pieces: Sequence[Piece], at: int, above: int) -> int:
    for place in range(at, above, -1):
        if is_clean(text, pieces, place):
            return place
    return at


def answer_tokens(
    text: str, pieces: Sequence[Piece], answer: str, start: int, misaligned: str
) -> tuple[tuple[int, int] | None, bool]:
    """[first token, one past the last) of an answer, or None; and whether they stand for more than it."""
    stop = start + len(answer)
    touching = [i for i, p in enumerate(pieces) if p.start < stop and p.stop > start]
    if not touching:
        return None, False
    said = range(pieces[touching[0]].start, pieces[touching[-1]].stop)
    wider = any(
        not start <= c < stop and not text[c].isspace() and unicodedata.category(text[c]) != "Mn"
        for c in said
    )
    if wider and misaligned == "drop":
        return None, False
    return (touching[0], touching[-1] + 1), wider


class Outcome(NamedTuple):
    """What becomes of a question."""

    rows: list[dict[str, Any]]
    reject: str | None = None
    widened: bool = False
    cut: bool = False


def encode_question(
    document: dict[str, Any],
    tokenize: Tokenize,
    *,
    special: dict[str, int],
    max_length: int,
    max_question: int,
    doc_stride: int,
    misaligned: str,
    trains: bool,
) -> Outcome:
    """Rows of an annotated question, base columns and answers, or why there are none."""
    text, context = document["text"], document["text_pair"]
    asked, pieces = tokenize(text), tokenize(context)
    if not asked or not pieces:
        return Outcome([], "no_tokens")
    golds = list(zip(document["answers"] or [], document["answer_starts"] or [], strict=True))
    impossible = bool(document["is_impossible"])
    target, widened, located = None, False, False
    for answer, start in [] if impossible else golds:
        if start < 0:
            continue
        located = True
        target, widened = answer_tokens(context, pieces, answer, start, misaligned)
        if target is not None:
            break
    if trains and not impossible and target is None:
        reason = "answer_not_on_tokens" if located else "answer_not_in_context" if golds else "no_answers"
        return Outcome([], reason)
    cut = len(asked) > max_question
    if cut:
        asked = asked[: moved_back(text, asked, max_question, 0)]
    spans = windows(context, pieces, max_length - 3 - len(asked), doc_stride)
    rows = []
    for number, (first, last) in enumerate(spans):
        held = pieces[first:last]
        before = len(asked) + 2
        row: dict[str, Any] = {"id": f"{document['doc_id']}#{number}", "text": text, "text_pair": context}
        row["input_ids"] = [special["cls"], *(p.id for p in asked), special["sep"], *(p.id for p in held)]
        row["input_ids"].append(special["sep"])
        row["token_type_ids"] = [0] * before + [1] * (len(held) + 1)
        row["char_starts"] = [0, *(p.start for p in asked), 0, *(p.start for p in held), 0]
        row["char_stops"] = [0, *(p.stop for p in asked), 0, *(p.stop for p in held), 0]
        row["answer_start"], row["answer_stop"] = 0, 1
        if target is not None and first <= target[0] and target[1] <= last:
            row["answer_start"] = target[0] - first + before
            row["answer_stop"] = target[1] - first + before
        row |= {"is_impossible": impossible, "answers": [answer for answer, _ in golds]}
        lengths = [(a, b - a) for a, b in spans]
        best = [check_is_max_context(lengths, number, at) for at in range(first, last)]
        row["is_max_context"] = [False] * before + best + [False]
        rows.append(row)
    return Outcome(rows, None, widened, cut)
