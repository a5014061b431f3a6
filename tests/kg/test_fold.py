"""Folding: one table look-up a character, equal to the steps that it declares."""

from __future__ import annotations

import itertools
import sys
import unicodedata
from unittest import mock

import numpy as np
import opencc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kg.errors import GraphError
from kg.match.fold import COLUMNS, NAMES, Folding

RULES = [rule for size in range(4) for rule in itertools.combinations(NAMES, size)]
SIMPLIFY = opencc.OpenCC("t2s").convert
rules = st.sampled_from(RULES)
characters = st.one_of(
    st.characters(exclude_categories=["Cs"]),
    st.sampled_from("éＡａﬁß가각ᄀ각㍿ﷺᾴ̈̇̈́ͅİſΣς愛爱後乾薴Ω\u212bÅ１⑴"),
)
texts = st.text(characters, max_size=12)


def slowly(text: str, names: tuple[str, ...]) -> str:
    """The rule, written as a loop over characters."""
    steps = {"nfkc": lambda c: unicodedata.normalize("NFKD", c), "case": str.casefold, "simplified": SIMPLIFY}
    while True:
        before = text
        for name in names:
            text = "".join(steps[name](char) for char in text)
        if text == before:
            return text


def codes(text: str) -> np.ndarray:
    return np.frombuffer(text.encode("utf-32-le"), np.uint32)


@settings(deadline=None)  # the first to ask for a rule makes its table
@given(text=texts, names=rules)
def test_the_table_equals_the_loop(text: str, names: tuple[str, ...]) -> None:
    folding = Folding.build(names)
    assert folding.fold_text(text) == slowly(text, names)
    assert folding.fold_codes(codes(text))[0].tobytes() == slowly(text, names).encode("utf-32-le")


def test_the_table_knows_every_character() -> None:
    text = "".join(map(chr, [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]))
    for names in (("nfkc",), ("case",), ("nfkc", "case")):
        assert Folding.build(names).fold_text(text) == slowly(text, names)


@settings(deadline=None)
@given(text=texts, names=rules)
def test_folding_again_changes_nothing_and_nothing_gets_shorter(text: str, names: tuple[str, ...]) -> None:
    folded = Folding.build(names).fold_text(text)
    assert Folding.build(names).fold_text(folded) == folded
    assert len(folded) >= len(text)


@settings(deadline=None)
@given(text=texts, form=st.sampled_from(["NFC", "NFD", "NFKC", "NFKD"]), names=rules)
def test_what_is_nfkc_equal_folds_to_the_same(text: str, form: str, names: tuple[str, ...]) -> None:
    fold = Folding.build(("nfkc", *names)).fold_text
    one, other = fold(text), fold(unicodedata.normalize(form, text))
    assert sorted(one) == sorted(other)
    apart = "".join(unicodedata.normalize("NFKD", char) for char in text)
    if not any(unicodedata.combining(a) and unicodedata.combining(b) for a, b in itertools.pairwise(apart)):
        assert one == other  # several marks keep the order in which they are written


@settings(deadline=None)
@given(text=texts, names=rules)
def test_folded_codes_know_their_characters(text: str, names: tuple[str, ...]) -> None:
    folding = Folding.build(names)
    folded, origin = folding.fold_codes(codes(text))
    expected = [i for i, char in enumerate(text) for _ in folding.fold_text(char)] + [len(text)]
    if origin is None:
        assert len(folded) == len(text) and expected == list(range(len(text) + 1))
    else:
        assert origin.dtype == np.int64 and origin.tolist() == expected
        assert len(folded) > len(text)


@settings(deadline=None)
@given(text=texts, names=rules)
def test_a_stored_rule_is_the_same_rule(text: str, names: tuple[str, ...]) -> None:
    built = Folding.build(names)
    stored = Folding.from_arrays(names, {name: array.copy() for name, array in built.to_arrays().items()})
    with mock.patch.dict(sys.modules, {"opencc": None}):  # not needed to match
        assert stored.fold_text(text) == built.fold_text(text)
    assert stored.names == names


def test_examples_of_each_step() -> None:
    fold = {names: Folding.build(names).fold_text for names in RULES}
    assert fold[("nfkc",)]("ＡＢＣ１２ﬁ é") == "ABC12fi e\u0301"
    assert fold[("case",)]("Straße ΑΣ") == "strasse ασ"
    assert fold[("simplified",)]("蘋果 ＡＢ 頭髮") == "苹果 ＡＢ 头发"
    assert fold[NAMES]("蘋果ＡＢ") == "苹果ab"
    assert fold[()]("蘋果ＡＢ") == "蘋果ＡＢ"
    assert fold[NAMES]("a\ud800Ａ") == "a\ud800a"
    assert Folding.build(["simplified", "nfkc"]).names == ("nfkc", "simplified")


def test_wrong_rules_and_tables_are_refused() -> None:
    with pytest.raises(GraphError, match=r"unknown rule 'lower'; expected some of nfkc, case, simplified"):
        Folding.build(["lower"])
    arrays = Folding.build(["case"]).to_arrays()
    for name, value in zip(
        COLUMNS, (np.zeros(3), np.zeros(3, np.uint8), np.zeros(1, np.uint32)), strict=True
    ):
        with pytest.raises(GraphError, match="damaged"):
            Folding.from_arrays(("case",), {**arrays, name: value})
    with pytest.raises(GraphError, match="in this order"):
        Folding.from_arrays(("case", "nfkc"), arrays)
    wild = Folding.from_arrays(("case",), {**arrays, "fold_table": np.full(100, 0x110000, np.uint32)})
    assert wild.fold_text("A")  # wrong, but not a crash
    with pytest.raises(IndexError):
        Folding.from_arrays(("case",), {**arrays, "fold_table": np.full(100, 1 << 31, np.uint32)}).fold_text(
            "A"
        )


def test_a_missing_opencc_names_the_pip_line() -> None:
    from kg.match import fold

    with mock.patch.dict(sys.modules, {"opencc": None}), pytest.raises(GraphError, match="pip install"):
        fold._build.__wrapped__(("simplified",))
