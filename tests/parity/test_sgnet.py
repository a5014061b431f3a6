"""Syntax masks against the sample that SG-Net's authors published, all of its sentences (Zhang et al. 2020, 3.2).

`squad_span_sample.json` has, for every question of a SQuAD sample, the words of the question and of the
paragraph's sentences (split at white space), their heads as the authors' parser saw them, and a span a word, from
which the released code (`run_squad2.py`, `convert_span.py`) makes its mask: a word is seen by all words of
its span. Where the tree is projective that is the ancestor mask of the paper; here every one is.

Masks are made from our columns, `in[a] <= in[b] < out[a]`, and held against a search along the heads.
"""

from __future__ import annotations

import ast
import json
import random
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpora.records import Reject
from pipelines import forest
from pipelines.annotate.stage import Annotate
from pipelines.encode.tokenizer import load_tokenizer
from tests.pipelines.annotated import SAMPLES, Encoded, config_of, encode
from tests.pipelines.raw import raw
from tests.rows import make_heads

Mask = list[list[bool]]


@dataclass(frozen=True)
class Sentence:
    """Words with their heads (from 1, 0 for the root), spans (from 1, both ends in it) and relations."""

    words: tuple[str, ...]
    heads: tuple[int, ...]
    spans: tuple[tuple[int, int], ...]
    deprels: tuple[str, ...]


@dataclass(frozen=True)
class Question:
    id: str
    asked: Sentence
    paragraph: tuple[Sentence, ...]


def read(path: Path) -> list[Question]:
    questions = []
    for line in path.read_text(encoding="utf-8").split("\n"):
        if not line:
            continue
        record = json.loads(line)
        tags = record["tag_rep"]

        def sentence(words: list[str], heads: list[str], spans: list[str], deprels: list[str]) -> Sentence:
            assert len(words) == len(heads) == len(spans) == len(deprels)
            pairs = tuple(ast.literal_eval(span) for span in spans)
            return Sentence(tuple(words), tuple(map(int, heads)), pairs, tuple(deprels))

        names = ("doc_tokens", "pred_head_doc", "hpsg_list_doc", "pred_type_doc")
        of_paragraph = zip(*(tags[name] for name in names), strict=True)
        asked = [tags[name] for name in ("que_tokens", "pred_head_que", "hpsg_list_que", "pred_type_que")]
        paragraph = tuple(sentence(*parts) for parts in of_paragraph)
        questions.append(Question(record["qas_id"], sentence(*asked), paragraph))
    return questions


@pytest.fixture(scope="module")
def questions() -> list[Question]:
    path = Path(__file__).parents[3] / "shared/data/sgnet/squad_span_sample.json"
    if not path.exists():
        pytest.skip(f"no {path}")
    return read(path)


def sentences_of(questions: list[Question]) -> list[Sentence]:
    return [s for q in questions for s in (q.asked, *q.paragraph)]


# --- loops ------------------------------------------------------------------------------------


def ancestor_mask(heads: tuple[int, ...]) -> Mask:
    """[b][a]: a is b, or a head of a head ... of b."""
    mask = [[False] * len(heads) for _ in heads]
    for b in range(1, len(heads) + 1):
        at = b
        while at != 0:
            mask[b - 1][at - 1] = True
            at = heads[at - 1]
    return mask


def descendant_mask(heads: tuple[int, ...]) -> Mask:
    """[a][b]: b is a, or hangs from a word that does from a."""
    mask = []
    for a in range(1, len(heads) + 1):
        below = {a}
        grown = True
        while grown:
            more = {w for w in range(1, len(heads) + 1) if heads[w - 1] in below}
            grown = not more <= below
            below |= more
        mask.append([b in below for b in range(1, len(heads) + 1)])
    return mask


def span_mask(spans: tuple[tuple[int, int], ...]) -> Mask:
    """`convert_span.py` with a piece a word: [row][column], the column's word is seen by its whole span."""
    mask = [[False] * len(spans) for _ in spans]
    for column, (start, end) in enumerate(spans):
        for row in range(start - 1, end):
            mask[row][column] = True
    return mask


def head_spans(heads: tuple[int, ...]) -> list[tuple[int, int]]:
    """`convert_head_to_span`: from the first to the last word of what hangs from each word."""
    spans = []
    for line in descendant_mask(heads):
        below = [b + 1 for b, there in enumerate(line) if there]
        spans.append((min(below), max(below)))
    return spans


def columns(heads: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Our depth-first numbers of one sentence."""
    own = [i if head == 0 else head - 1 for i, head in enumerate(heads)]
    return forest.depth_first(own, [0, len(own)])


def predicate(enter: np.ndarray, leave: np.ndarray, *, descendants: bool = False) -> np.ndarray:
    """[query][key] of `in[a] <= in[b] < out[a]`: b sees its ancestor a, or a its descendant b."""
    a_of_b = (enter[None, :] <= enter[:, None]) & (enter[:, None] < leave[None, :])
    return a_of_b.T if descendants else a_of_b


# --- words ------------------------------------------------------------------------------------


def test_both_masks_of_every_sentence(questions: list[Question]) -> None:
    sentences = sentences_of(questions)
    assert (len(questions), len(sentences), len(set(sentences))) == (120, 747, 219)
    for sentence in sentences:
        enter, leave = columns(sentence.heads)
        assert predicate(enter, leave).tolist() == ancestor_mask(sentence.heads)
        assert predicate(enter, leave, descendants=True).tolist() == descendant_mask(sentence.heads)


def test_the_authors_spans_say_the_same(questions: list[Question]) -> None:
    """Every tree of the sample is projective: each word's span is exactly its descendants, and the
    released mask is ours. (219 of 219 different sentences, 3,274 words.)"""
    words = 0
    for sentence in set(sentences_of(questions)):
        assert sentence.heads.count(0) == 1
        assert head_spans(sentence.heads) == list(sentence.spans)
        for line, (start, end) in zip(descendant_mask(sentence.heads), sentence.spans, strict=True):
            assert [b + 1 for b, below in enumerate(line) if below] == list(range(start, end + 1))
        enter, leave = columns(sentence.heads)
        assert predicate(enter, leave).tolist() == span_mask(sentence.spans)
        words += len(sentence.words)
    assert words == 3274


@settings(max_examples=200)
@given(st.integers(0, 2**32), st.integers(1, 12))
def test_any_tree(seed: int, words: int) -> None:
    """Spans see more than the tree says where it is not projective; our predicate never does."""
    own = make_heads(random.Random(seed), [0] * words, extra_roots=0.1)
    heads = tuple(0 if head == i else head + 1 for i, head in enumerate(own))
    mask = predicate(*columns(heads))
    assert mask.tolist() == ancestor_mask(heads)
    spans = np.array(span_mask(tuple(head_spans(heads))))
    assert (spans >= mask).all()
    projective = all(
        line.count(True) == end + 1 - start
        for line, (start, end) in zip(descendant_mask(heads), head_spans(heads), strict=True)
    )
    assert projective == bool((spans == mask).all())


# --- from the file's heads to rows ------------------------------------------------------------


@cache
def paragraphs(path: Path) -> dict[str, tuple[str, str, list[tuple[str, int]]]]:
    """Question, paragraph, and gold answers with their offsets, by question id."""
    found = {}
    for article in json.loads(path.read_text(encoding="utf-8"))["data"]:
        for paragraph in article["paragraphs"]:
            for qa in paragraph["qas"]:
                golds = [(a["text"], a["answer_start"]) for a in qa["answers"]]
                found[str(qa["id"])] = (qa["question"], paragraph["context"], golds)
    return found


def given_columns(text: str, sentences: tuple[Sentence, ...]) -> dict[str, list[Any]]:
    """The file's words and trees as annotations of the whole text."""
    spans = [match.span() for match in re.finditer(r"[^ \t\r\n\u202f]+", text)]
    assert [text[a:b] for a, b in spans] == [w for s in sentences for w in s.words]
    made: dict[str, list[Any]] = {
        "sentence_starts": [], "sentence_stops": [], "word_heads": [], "word_deprels": [],
    }  # fmt: skip
    base = 0
    for sentence in sentences:
        made["sentence_starts"].append(spans[base][0])
        made["sentence_stops"].append(spans[base + len(sentence.words) - 1][1])
        for i, head in enumerate(sentence.heads):
            made["word_heads"].append(base + (i if head == 0 else head - 1))
        made["word_deprels"] += sentence.deprels
        base += len(sentence.words)
    return made | {
        "word_starts": [a for a, _ in spans],
        "word_stops": [b for _, b in spans],
        "word_pos": [None] * len(spans),
    }


def rows_of(questions: list[Question], squad: Path, length: int, stride: int, folder: Path) -> Encoded:
    """The questions through both stages, their trees given."""
    known = paragraphs(squad)
    columns: dict[str, list[Any]] = {"text_pair": [], "answers": [], "answer_starts": [], "is_impossible": []}
    texts = []
    for question in questions:
        text, context, golds = known[question.id]
        texts.append(text)
        columns["text_pair"].append(context)
        columns["answers"].append([answer for answer, _ in golds])
        columns["answer_starts"].append([start for _, start in golds])
        columns["is_impossible"].append(not golds)
        for suffix, of, sentences in (
            ("", text, (question.asked,)),
            ("_pair", context, question.paragraph),
        ):
            for name, values in given_columns(of, sentences).items():
                columns.setdefault(name + suffix, []).append(values)
    table = raw(texts, doc_id=[q.id for q in questions], **columns)
    config = config_of(
        "span",
        groups=("syntax",),
        max_length=length,
        language="en",
        input={"format": "parquet", "text": "question", "text_pair": "context", "label": "answers"},
        annotate={"parser": "given"},
        encode={"span": {"max_question": 48, "doc_stride": stride, "misaligned": "widen"}},
    )
    stage = Annotate(config, str(Path(__file__)))
    stage.setup()
    rejects: list[Reject] = []
    annotated, counts = stage.annotate_table(table, rejects.append)
    assert not rejects and not counts["words_repaired"]
    documents = annotated.to_pylist()
    deprels = sorted({r for d in documents for s in ("", "_pair") for r in d[f"word_deprels{s}"]})
    run = encode(folder, config, documents, deprels=deprels)
    assert run.report.ok, "\n".join(run.report.render())
    return run


def word_at(text: str, start: int) -> int:
    """Number of the word of the text that holds a character, counted at white space."""
    return len(re.findall(r"[^ \t\r\n\u202f]+", text[: start + 1])) - 1


def place(sentences: tuple[Sentence, ...], word: int) -> tuple[int, int]:
    """Sentence of a word of the text, and its place in it, both from 0."""
    for number, sentence in enumerate(sentences):
        if word < len(sentence.words):
            return number, word
        word -= len(sentence.words)
    raise IndexError


def check_row(row: dict[str, Any], question: Question) -> None:
    """Each piece sees exactly the pieces of its word and of those above it that the window has."""
    enter, leave = np.array(row["word_dfs_in"]), np.array(row["word_dfs_out"])
    words, count = np.array(row["word_index"]), len(row["input_ids"])
    mask = np.eye(count, dtype=bool)  # a special token sees itself alone
    plain = np.flatnonzero(words >= 0)
    mask[np.ix_(plain, plain)] = predicate(enter, leave)[np.ix_(words[plain], words[plain])]
    want = np.eye(count, dtype=bool)
    for side, (text, sentences) in enumerate(
        ((row["text"], (question.asked,)), (row["text_pair"], question.paragraph))
    ):
        pieces: dict[tuple[int, int], list[int]] = {}
        for i in range(count):
            if row["token_type_ids"][i] == side and row["char_stops"][i] > 0:
                at = place(sentences, word_at(text, row["char_starts"][i]))
                pieces.setdefault(at, []).append(i)
        for (number, word), own in pieces.items():
            at = word
            while (number, at) in pieces:  # what lies outside the window ends the way up
                for i in own:
                    want[i, pieces[number, at]] = True
                head = sentences[number].heads[at]
                if head == 0:
                    break
                at = head - 1
    assert (mask == want).all(), row["id"]


@pytest.mark.parametrize(("length", "stride"), [(2048, 128), (96, 32)])
def test_every_piece_sees_every_piece_of_the_words_above(
    questions: list[Question], length: int, stride: int, tmp_path: Path
) -> None:
    squad = Path(__file__).parents[3] / "shared/data/sgnet/squad_sample.json"
    chosen = questions if length == 2048 else questions[::6]
    run = rows_of(chosen, squad, length, stride, tmp_path)
    by_id = {q.id: q for q in chosen}
    assert {row["id"].rpartition("#")[0] for row in run.rows} == set(by_id)
    assert (len(run.rows) == len(chosen)) == (length == 2048)
    for row in run.rows:
        check_row(row, by_id[row["id"].rpartition("#")[0]])


def released_piece_mask(spans: tuple[tuple[int, int], ...], pieces: list[int]) -> Mask:
    """The mask of `run_squad2.py` over word pieces: a word's span is its first piece's column, later pieces
    have none of their own, and a column whose span is one piece long stays empty."""
    first = [sum(pieces[:i]) for i in range(len(pieces))]
    count = sum(pieces)
    mask = [[False] * count for _ in range(count)]
    for word, (start, end) in enumerate(spans):
        low, high = first[start - 1], first[end - 1] + pieces[end - 1] - 1
        if low != high:
            for row in range(low, high + 1):
                mask[row][first[word]] = True
    return mask


def test_the_released_mask_of_pieces(questions: list[Question]) -> None:
    """What the released code lets a piece see are first pieces alone, each where our words see each other; and
    it lets a word of one piece without children not see itself."""
    tokenizer = load_tokenizer(str(SAMPLES / "vocab.txt"))
    alone = 0
    for sentence in set(sentences_of(questions)):
        pieces = [max(len(tokenizer.encode_texts([word]).ids), 1) for word in sentence.words]
        word_of = [word for word, n in enumerate(pieces) for _ in range(n)]
        first = [sum(pieces[:i]) for i in range(len(pieces))]
        ours = predicate(*columns(sentence.heads))
        released = released_piece_mask(sentence.spans, pieces)
        for i, word in enumerate(word_of):
            for j, other in enumerate(word_of):
                if j != first[other]:
                    assert not released[i][j]
                elif i == j and not released[i][j]:
                    assert pieces[word] == 1 and sentence.spans[word] == (word + 1, word + 1)
                    alone += 1
                else:
                    assert released[i][j] == ours[word, other]
    assert alone > 500
