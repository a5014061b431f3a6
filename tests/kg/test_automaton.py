"""The automaton of subjects: exactly the keys it was built from, however they collide."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kg.errors import GraphError
from kg.match import automaton
from kg.match.automaton import Automaton

words = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=6)
few = st.text("甲乙a", min_size=1, max_size=6)


def columns_of(keys: list[str]) -> dict[str, np.ndarray]:
    assert keys == sorted(set(keys))
    codes = np.frombuffer("".join(keys).encode("utf-32-le"), np.uint32)
    return automaton.build(codes, np.array([len(key) for key in keys], np.int64))


def step_all(trie: Automaton, text: str) -> list[tuple[int, int, int]]:
    """(start, stop, key) of every key in a text, by single steps."""
    found = []
    codes = np.frombuffer(text.encode("utf-32-le"), np.uint32).astype(np.uint64)
    for start in range(len(text)):
        state = trie.first(codes[start : start + 1])
        stop = start + 1
        while state.any():
            key = int(trie.key(state)[0])
            if key >= 0:
                found.append((start, stop, key))
            if stop == len(text):
                break
            which, state, entries = trie.step(state, codes[stop : stop + 1])
            if len(which):
                # What an entry tells of its state must agree with the state itself.
                assert bool(len(trie.at_key(entries))) == (trie.key(state)[0] >= 0)
                if not len(trie.goes_on(entries)):
                    assert stop + 1 == len(text) or not len(trie.step(state, codes[stop + 1 : stop + 2])[0])
            stop += 1
    return found


@settings(max_examples=150, deadline=None)
@given(st.lists(words | few, max_size=30, unique=True).map(sorted), st.lists(words | few, max_size=10))
def test_finds_its_keys_and_no_others(keys: list[str], others: list[str]) -> None:
    trie = Automaton(columns_of(keys))
    assert trie.find(keys).tolist() == list(range(len(keys)))
    asked = [*others, "", *(key[:-1] for key in keys), *(key + "甲" for key in keys)]
    assert trie.find(asked).tolist() == [keys.index(key) if key in keys else -1 for key in asked]


@settings(max_examples=100, deadline=None)
@given(st.lists(few, min_size=1, max_size=12, unique=True).map(sorted), st.text("甲乙a丙", max_size=15))
def test_walks_to_every_key_in_a_text(keys: list[str], text: str) -> None:
    expected = [
        (start, stop, keys.index(text[start:stop]))
        for start in range(len(text))
        for stop in range(start + 1, len(text) + 1)
        if text[start:stop] in keys
    ]
    assert step_all(Automaton(columns_of(keys)), text) == expected


@pytest.mark.parametrize("load", [0.8, 0.5])
def test_edges_far_from_home_are_found(load: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(automaton, "_LOADS", (load,))
    rng = np.random.default_rng(0)
    keys = sorted({"".join(map(chr, rng.integers(0x4E00, 0x4E40, n))) for n in rng.integers(1, 5, 3000)})
    columns = columns_of(keys)
    reach = columns["automaton_edges"] >> np.uint64(51)
    assert reach.max() > 5
    trie = Automaton(columns)
    assert trie.find(keys).tolist() == list(range(len(keys)))
    absent = sorted({key + "\u4e41" for key in keys} | {key[::-1] for key in keys} - set(keys))
    assert (trie.find(absent) == -1).all()


def test_a_table_that_is_too_full_is_made_larger(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = [f"甲{i:05d}" for i in range(5000)]
    monkeypatch.setattr(automaton, "_LOADS", (1.2, 0.4))  # the first cannot hold them
    assert Automaton(columns_of(keys)).find(keys).tolist() == list(range(len(keys)))
    monkeypatch.setattr(automaton, "_LOADS", (1.2,))
    with pytest.raises(GraphError, match="collide"):
        columns_of(keys)


def test_more_prefixes_than_states(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(automaton, "MAX_STATES", 0x110000 + 1000)
    with pytest.raises(GraphError, match="10,001 different prefixes"):
        columns_of(["长" * 10_001])


def test_extremes() -> None:
    empty = Automaton(columns_of([]))
    assert empty.find(["a", ""]).tolist() == [-1, -1]
    assert empty.find([]).tolist() == []
    keys = sorted(["\0", "\0\0", "\U0010ffff", "\U0010ffff\U0010ffff", "甲" * 3000])
    trie = Automaton(columns_of(keys))
    assert trie.find(keys).tolist() == list(range(5))
    assert trie.find(["\ud800", "甲\ud800", "甲" * 2999]).tolist() == [-1, -1, -1]


def test_what_stands_between_texts_is_on_no_edge() -> None:
    trie = Automaton(columns_of(["甲", "甲乙"]))
    codes = np.array([0x1FFFFF, ord("甲")], np.uint64)
    assert trie.first(codes)[0] == 0
    which, _, _ = trie.step(np.array([0, 0], np.uint64), codes)  # 0 is no state
    assert not len(which)


def test_the_same_keys_give_the_same_arrays() -> None:
    keys = sorted({f"{i * 7919 % 1000}甲{i % 13}" for i in range(2000)})
    first, second = columns_of(keys), columns_of(keys)
    assert all((first[name] == second[name]).all() for name in automaton.COLUMNS)


@pytest.mark.parametrize("name", automaton.COLUMNS)
def test_damaged_arrays_are_refused_or_give_wrong_answers_in_bounded_time(name: str) -> None:
    keys = [f"甲{i:03d}" for i in range(300)]
    columns = columns_of(keys)
    with pytest.raises(GraphError, match="damaged"):
        Automaton({**columns, name: columns[name][:1]})
    with pytest.raises(GraphError, match="damaged"):
        Automaton({**columns, name: columns[name].astype(np.float64)})
    rng = np.random.default_rng(1)
    for _ in range(50):
        raw = bytearray(columns[name].tobytes())
        for at in rng.integers(0, len(raw), 40):
            raw[at] ^= int(rng.integers(1, 256))
        broken = np.frombuffer(bytes(raw), columns[name].dtype)
        assert len(Automaton({**columns, name: broken}).find(keys)) == len(keys)
