"""Entities: strict, whole, of the right type; what is no legal sequence is no entity."""

from __future__ import annotations

import contextlib
import itertools
import random

import numpy as np
import pytest

from corpora.trunk import decode_tags
from models.bert_batch import BatchError
from models.evaluate.tags import (
    SCHEMES,
    check_scheme,
    entities,
    first_pieces,
    scheme_of,
    tag_scores,
)
from models.stream.rows import Rows
from tests.rows import make_rows


def tags(line: str) -> list[str]:
    return line.split()


@pytest.mark.parametrize(
    ("labels", "scheme", "found"),
    [
        ("B-LOC I-LOC O", "BIO", [("LOC", 0, 2)]),
        ("B-LOC B-LOC", "BIO", [("LOC", 0, 1), ("LOC", 1, 2)]),
        ("O I-LOC I-LOC", "BIO", []),
        ("B-LOC I-PER", "BIO", [("LOC", 0, 1)]),
        ("B-LOC I-PER I-LOC", "BIO", [("LOC", 0, 1)]),
        ("I-LOC I-LOC B-LOC", "IOB1", [("LOC", 0, 2), ("LOC", 2, 3)]),
        ("B-LOC I-LOC E-LOC S-PER", "BIOES", [("LOC", 0, 3), ("PER", 3, 4)]),
        ("B-LOC M-LOC E-LOC", "BIOES", [("LOC", 0, 3)]),
        ("B-LOC I-LOC O", "BIOES", []),
        ("B-LOC E-PER S-LOC", "BIOES", [("LOC", 2, 3)]),
        ("B-LOC I-LOC L-LOC U-PER", "BILOU", [("LOC", 0, 3), ("PER", 3, 4)]),
        ("B I O B", "BIO", [("_", 0, 2), ("_", 3, 4)]),
        ("", "BIO", []),
    ],
)
def test_entities_of_a_sequence(labels: str, scheme: str, found: list[tuple[str, int, int]]) -> None:
    assert entities(tags(labels), scheme) == found


@pytest.mark.parametrize(
    ("labels", "scheme"),
    [
        ("O B-Symptom I-Symptom B-BodyPart", "BIO"),
        ("O B-LOC", "BIO"),
        ("O B-LOC I-LOC E-LOC S-LOC", "BIOES"),
        ("O B-LOC M-LOC E-LOC S-LOC", "BIOES"),
        ("O B-LOC I-LOC L-LOC U-LOC", "BILOU"),
        ("O I-LOC", "IOB1"),
        ("O", None),
        ("NOUN VERB", None),
        ("O OTHER B-LOC", None),
        ("B-LOC [ENT]", None),
    ],
)
def test_scheme_of_labels(labels: str, scheme: str | None) -> None:
    assert scheme_of(tags(labels)) == scheme


@pytest.mark.parametrize(
    ("labels", "scheme", "says"),
    [
        (
            "O B-LOC I-LOC",
            "BILOU",
            r"O, B-LOC, I-LOC: an entity of it needs U, or B and L; they are of BIO: write that",
        ),
        ("O B-LOC I-LOC", "BIOES", "an entity of it needs S, or B and E"),
        ("O B-LOC M-LOC E-LOC", "BIO", "'E-LOC' is none of it; they are of BIOES"),
        ("O I-LOC", "BIO", "an entity of it needs B; they are of IOB1"),
        ("NOUN VERB", "BIO", "NOUN, VERB: 'NOUN' is none of it; drop scores.scheme"),
        ("O", "BIO", "an entity of it needs B; drop"),
    ],
)
def test_a_scheme_that_labels_are_not_of(labels: str, scheme: str, says: str) -> None:
    with pytest.raises(BatchError, match=rf"scores\.scheme is {scheme}, .*{says}"):
        check_scheme(tags(labels), scheme)


@pytest.mark.parametrize(
    ("labels", "scheme"),
    [
        ("NOUN VERB", None),
        ("O B-LOC I-LOC", "BIO"),
        ("O B-LOC I-LOC", "IOB1"),
        ("O I-LOC", "IOB1"),
        ("O B-LOC M-LOC E-LOC", "BIOES"),
        ("O B-LOC I-LOC S-PER", "BIOES"),
        ("O U-LOC", "BILOU"),
    ],
)
def test_a_scheme_that_labels_are_of(labels: str, scheme: str | None) -> None:
    check_scheme(tags(labels), scheme)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_labels_of_a_scheme_make_entities(scheme: str) -> None:
    """Of every few of its letters: just where some sequence of these has one."""
    letters = {"BIO": "BIO", "IOB1": "BIO", "BIOES": "BIOES", "BILOU": "BILOU"}[scheme]
    for size in range(1, len(letters) + 1):
        for some in itertools.combinations(letters, size):
            made = any(
                entities(list(row), scheme)
                for length in (1, 2, 3)
                for row in itertools.product(some, repeat=length)
            )
            told = contextlib.nullcontext() if made else pytest.raises(BatchError)
            with told:
                check_scheme(some, scheme)


def test_scores_and_types_by_hand() -> None:
    gold = [tags("B-LOC I-LOC O B-PER"), tags("B-PER O")]
    found = [tags("B-LOC I-LOC O B-LOC"), tags("B-PER I-PER")]
    # Right: LOC [0, 2). Wrong: a type, and an end. Predicted 3, gold 3.
    scores, types = tag_scores(gold, found)
    third = pytest.approx(1 / 3)
    assert scores == {"entity_precision": third, "entity_recall": third, "entity_f1": third}
    assert types == [
        {"type": "LOC", "precision": 0.5, "recall": 1, "f1": pytest.approx(2 / 3), "gold": 1},
        {"type": "PER", "precision": 0, "recall": 0, "f1": 0, "gold": 2},
    ]
    assert tag_scores(gold, gold)[0] == {"entity_precision": 1, "entity_recall": 1, "entity_f1": 1}


def test_rows_are_apart() -> None:
    """An entity neither goes on into the next row nor is the same in another one."""
    gold, found = [tags("O B-LOC"), tags("I-LOC O")], [tags("O B-LOC"), tags("O O")]
    assert tag_scores(gold, found)[0]["entity_f1"] == 1
    assert tag_scores([tags("B-LOC"), tags("O")], [tags("O"), tags("B-LOC")])[0]["entity_f1"] == 0


def test_no_entity_no_score() -> None:
    assert tag_scores([tags("O O")], [tags("O I-LOC")]) == ({}, [])
    assert tag_scores([], []) == ({}, [])
    assert tag_scores([tags("O")], [tags("B-LOC")])[0]["entity_f1"] == 0


def test_what_is_wrong_is_said() -> None:
    with pytest.raises(ValueError, match="'S-LOC' is none of scheme BIO"):
        tag_scores([tags("S-LOC")], [tags("O")])
    with pytest.raises(ValueError, match="unknown scheme 'BMES'; known: BIO, BIOES"):
        tag_scores([tags("O")], [tags("O")], "BMES")
    with pytest.raises(ValueError, match="inconsistent numbers"):
        tag_scores([tags("B-LOC O")], [tags("B-LOC")])


def test_against_a_plain_loop() -> None:
    """Entities of BIO read off label by label, and counted as sets."""

    def read(rows: list[list[str]]) -> set[tuple[int, int, int, str]]:
        made = set()
        for number, row in enumerate(rows):
            i = 0
            while i < len(row):
                j = i + 1
                if row[i][0] == "B":
                    while j < len(row) and row[j] == "I" + row[i][1:]:
                        j += 1
                    made.add((number, i, j, row[i]))
                i = j
        return made

    rng = random.Random(5)
    choices = ["O", "B-x", "I-x", "B-y", "I-y"]
    for _ in range(50):
        lengths = [rng.randint(0, 8) for _ in range(5)]
        gold, found = ([[rng.choice(choices) for _ in range(n)] for n in lengths] for _ in range(2))
        a, b = read(gold), read(found)
        if a | b:
            scores, _ = tag_scores(gold, found)
            assert scores["entity_f1"] == pytest.approx(2 * len(a & b) / (len(a) + len(b)))


def test_first_pieces_are_those_of_rows_read_one_by_one() -> None:
    made = make_rows(3, "tag", ("base",), 30)

    def column(name: str) -> tuple[np.ndarray, np.ndarray]:
        lists = [row[name] for row in made]
        return np.concatenate(lists).astype(np.int64), np.cumsum([0, *map(len, lists)])

    names = ("char_starts", "char_stops", "tag_starts", "token_labels")
    count = np.arange(len(made))
    rows = Rows(count, count, np.ones(len(made), np.float32), {name: column(name) for name in names})
    first, units = first_pieces(rows)
    ends = rows.lists["char_starts"][1]
    wanted = [
        end + tag.label
        for row, end in zip(made, ends, strict=False)
        for tag in decode_tags(row, range(len(row["input_ids"])))
    ]
    assert first.tolist() == wanted and units.tolist() == rows.lists["tag_starts"][1].tolist()
    assert set(np.flatnonzero(rows.lists["token_labels"][0] != -100)) <= set(wanted)
    rows.lists["tag_starts"][0][0] = 10**6
    with pytest.raises(ValueError, match="source token without a token"):
        first_pieces(rows)
