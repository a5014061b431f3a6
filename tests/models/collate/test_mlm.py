"""Masks against loops written from the published code; never a special token; the same whatever the company."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import Tensor

from corpora.ragged import bounds
from corpora.schema import GROUPS
from models.bert_batch import BatchError
from models.collate.collator import Collator
from models.collate.mlm import Masking, Vocabulary
from models.collate.pack import Packing
from models.collate.sequences import Lists, Sequences
from models.collate.views import view
from models.stream.loader import Loader
from models.stream.open import open_split
from models.stream.rows import Rows
from tests.models.collate.literal import as_rows
from tests.models.collate.mlm_literal import IGNORED, mask_one
from tests.models.datasets import Datasets
from tests.rows import COARSE_VOCAB, MASK, SEP, UNK, VOCAB, make_rows, metadata, rows_schema, write_folder

SPECIAL = {"pad": 0, "unk": UNK, "cls": 2, "sep": SEP, "mask": MASK}
FINE, COARSE = Vocabulary(SPECIAL, VOCAB), Vocabulary(SPECIAL, COARSE_VOCAB)


def having_targets(rows: Rows) -> Rows:
    """The rows that have a second segment: others cannot be masked by part `target`."""
    types, offsets = rows.lists["token_type_ids"]
    second = np.diff(bounds(types == 1)[offsets]) > 0
    assume(second.any())
    return rows.take(np.flatnonzero(second))


def sequences_of(
    task: str, group: str | None, seed: int, count: int, epoch: int = 0, part: str = "all"
) -> Sequences:
    groups = [g for g in ("syntax", "coarse", group) if g not in (None, "base")]
    groups = list(dict.fromkeys(groups))
    rows = as_rows(make_rows(seed, task, groups, count), task, groups)
    if part == "target":
        rows = having_targets(rows)
    rows.epoch[:] = epoch
    return view(rows, group)


def plain(*lengths: int, seed: int = 0, **columns: Any) -> Sequences:
    """Rows [CLS] ... [SEP] of these lengths, without structure."""
    offsets = bounds(lengths)
    ids = np.random.default_rng(seed).integers(5, VOCAB, offsets[-1]).astype(np.int32)
    some = np.flatnonzero(np.diff(offsets))
    ids[offsets[:-1][some]], ids[offsets[1:][some] - 1] = 2, SEP
    n = len(lengths)
    rows = Rows(np.arange(n) + 7, np.zeros(n, np.int64), np.ones(n, np.float32))
    return Sequences(rows, np.arange(n), Lists(offsets, {"input_ids": ids, **columns}))


def parts(lists: Lists) -> list[dict[str, list[int]]]:
    """Columns of each sequence."""
    cuts = zip(lists.offsets[:-1].tolist(), lists.offsets[1:].tolist(), strict=True)
    return [{name: values[a:b].tolist() for name, values in lists.columns.items()} for a, b in cuts]


def masked(lists: Lists) -> list[tuple[list[int], list[int]]]:
    return [(part["input_ids"], part["mlm_labels"]) for part in parts(lists)]


def maskings(**fixed: Any) -> st.SearchStrategy[Masking]:
    drawn = {
        "seed": st.integers(0, 2**63 - 1),
        "rate": st.sampled_from([0.01, 0.15, 0.5, 0.7, 1.0]),
        "budget": st.sampled_from(["exact", "independent"]),
        "max_predictions": st.none() | st.integers(1, 9),
        "units": st.sampled_from(["token", "word", "coarse", "ngram"]),
        "part": st.sampled_from(["all", "target"]),
        "branches": st.booleans(),
        "shares": st.sampled_from([(0.8, 0.1, 0.1), (1, 0, 0), (0, 1, 0), (0.0, 0.0, 1.0), (0.3, 0.4, 0.3)]),
        "corrupted_by": st.sampled_from(["token", "unit"]),
    }
    made = {name: st.just(fixed[name]) if name in fixed else how for name, how in drawn.items()}

    def fitting(options: dict[str, Any]) -> Masking:
        if options["budget"] == "independent":
            options["max_predictions"] = None
            options["units"] = "token" if options["units"] == "ngram" else options["units"]
        return Masking(FINE, **options, **{k: v for k, v in fixed.items() if k not in drawn})

    return st.fixed_dictionaries(made).map(fitting)


both = maskings(units="coarse", part="all", branches=False, coarse=True, coarse_vocabulary=COARSE)


# --- against the loops ------------------------------------------------------------------------


@settings(max_examples=250, deadline=None)
@given(
    maskings(),
    st.sampled_from(
        [("pretrain", None), ("pretrain", "tree"), ("seq2seq", None), ("choice", None), ("tag", "tree")]
    ),
    st.integers(0, 10**6),
    st.integers(1, 6),
    st.integers(0, 3),
)
def test_as_the_published_loops(
    masking: Masking, what: tuple[str, str | None], seed: int, count: int, epoch: int
) -> None:
    before = sequences_of(*what, seed, count, epoch, masking.part)
    after = masking(before)
    number_in_row: Counter[int] = Counter()
    for row, part, found in zip(before.row.tolist(), parts(before.fine), masked(after.fine), strict=True):
        expected, _ = mask_one(masking, part, None, int(before.rows.number[row]), epoch, number_in_row[row])
        number_in_row[row] += 1
        assert found == expected


@settings(max_examples=100, deadline=None)
@given(both, st.integers(0, 10**6), st.integers(1, 6), st.floats(0, 0.5))
def test_coarse_tokens_with_their_fine_ones(masking: Masking, seed: int, count: int, unknown: float) -> None:
    before = sequences_of("pretrain", "coarse", seed, count, 2)
    assert before.coarse is not None
    before = replace(
        before,
        fine=with_unknown(before.fine, unknown, seed),
        coarse=with_unknown(before.coarse, unknown, seed + 1),
    )
    after = masking(before)
    assert before.coarse is not None and after.coarse is not None
    for row, (fine, coarse) in enumerate(zip(parts(before.fine), parts(before.coarse), strict=True)):
        expected = mask_one(masking, fine, coarse, int(before.rows.number[row]), 2)
        assert (masked(after.fine)[row], masked(after.coarse)[row]) == expected


def with_unknown(lists: Lists, share: float, seed: int) -> Lists:
    ids = lists.columns["input_ids"].copy()
    ids[(np.random.default_rng(seed).random(len(ids)) < share) & (ids > MASK)] = UNK
    return lists.having(input_ids=ids)


# --- rules ------------------------------------------------------------------------------------


@settings(max_examples=150, deadline=None)
@given(
    maskings(),
    st.sampled_from([("pretrain", None), ("pretrain", "tree"), ("seq2seq", None)]),
    st.integers(0, 999),
)
def test_rules(masking: Masking, what: tuple[str, str | None], seed: int) -> None:
    before = sequences_of(*what, seed, 5, part=masking.part)
    after = masking(before)
    ids, new = before.fine.columns["input_ids"], after.fine.columns["input_ids"]
    labels = after.fine.columns["mlm_labels"]
    chosen = labels != IGNORED
    assert new.dtype == ids.dtype and len(labels) == len(ids)
    assert (labels[chosen] == ids[chosen]).all() and (new[~chosen] == ids[~chosen]).all()
    special = np.isin(ids, list(SPECIAL.values()))
    ends = np.zeros(len(ids), dtype=bool)
    ends[before.fine.offsets[1:] - 1] = True
    allowed = ends & (ids == SEP) if masking.part == "target" else np.zeros_like(ends)
    assert not (chosen & special & ~allowed).any()
    assert (np.isin(new[chosen & (new != ids)], [0, UNK, 2, SEP])).sum() == 0
    if masking.part == "target":
        assert not (chosen & (before.fine.columns["token_type_ids"] == 0)).any()
    if "branch" in before.fine.columns and not masking.branches:
        assert not (chosen & (before.fine.columns["branch"] > 0)).any()


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 40), min_size=1, max_size=8), st.floats(0.01, 1), st.integers(0, 99))
def test_the_budget_is_exact(lengths: list[int], rate: float, seed: int) -> None:
    found = Masking(FINE, rate=rate, seed=seed)(plain(*lengths))
    counts = [sum(x != IGNORED for x in labels) for _, labels in masked(found.fine)]
    assert counts == [min(max(1, round(rate * n)), max(0, n - 2)) for n in lengths]
    grams = Masking(FINE, rate=rate, seed=seed, units="ngram")(plain(*lengths))
    assert counts == [sum(x != IGNORED for x in labels) for _, labels in masked(grams.fine)]


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 999), st.sampled_from(["word", "coarse"]), st.sampled_from(["exact", "independent"]))
def test_whole_units_are_whole(seed: int, units: str, budget: str) -> None:
    before = sequences_of("pretrain", "tree", seed, 6)
    after = Masking(FINE, seed=seed, rate=0.4, units=units, budget=budget)(before)  # type: ignore[arg-type]
    for old, (_, labels) in zip(parts(before.fine), masked(after.fine), strict=True):
        verdicts: dict[int, set[bool]] = {}
        for token, label, unit in zip(old["input_ids"], labels, old[f"{units}_index"], strict=True):
            if token > MASK and unit >= 0:
                verdicts.setdefault(unit, set()).add(label != IGNORED)
        assert all(len(verdict) == 1 for verdict in verdicts.values())


def test_what_becomes_of_a_coarse_token_tells_nothing_of_a_fine_one() -> None:
    """Of tokens in the same place, both to be predicted, 0.8² + 0.1² + 0.1² fare alike; of a unit all do."""
    before = plain(4000, coarse_index=np.arange(4000))
    before = replace(before, coarse=before.fine)
    step = Masking(FINE, rate=1.0, units="coarse", coarse=True, coarse_vocabulary=FINE)
    for by, alike in (("token", 0.66), ("unit", 1.0)):
        after = replace(step, corrupted_by=by)(before)  # type: ignore[arg-type]
        assert after.coarse is not None
        masks = [lists.columns["input_ids"] == MASK for lists in (after.fine, after.coarse)]
        kept = [
            lists.columns["input_ids"] == before.fine.columns["input_ids"]
            for lists in (after.fine, after.coarse)
        ]
        same = (masks[0] == masks[1]) & (kept[0] == kept[1])
        assert same[1:-1].mean() == pytest.approx(alike, abs=0.03)


def test_a_word_longer_than_the_budget_is_passed_over() -> None:
    """Of 12 tokens two are to be chosen: of words of three pieces none is, though the budget is two."""
    words = np.array([-1, *[0] * 3, *[1] * 3, *[2] * 3, 3, -1])
    lists = plain(12, word_index=words)
    for seed in range(20):
        found = Masking(FINE, seed=seed, units="word")(lists)
        assert np.flatnonzero(found.fine.columns["mlm_labels"] != IGNORED).tolist() == [10]


def test_the_target_with_its_end() -> None:
    """All of a target and the [SEP] behind it; a target that was cut has none, and loses nothing to the source's."""
    ids = np.array([2, 11, 12, SEP, 21, 22, 23, SEP, 2, 13, SEP, 24, 25], np.int32)
    types = np.array([0, 0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 1, 1], np.int8)
    rows = Rows(np.arange(2), np.zeros(2, np.int64), np.ones(2, np.float32))
    lists = Lists(np.array([0, 8, 13]), {"input_ids": ids, "token_type_ids": types})
    found = Masking(FINE, rate=1.0, part="target", shares=(1, 0, 0))(Sequences(rows, np.arange(2), lists))
    expected = [IGNORED] * 4 + [21, 22, 23, SEP] + [IGNORED] * 3 + [24, 25]
    assert found.fine.columns["mlm_labels"].tolist() == expected
    some = [
        Masking(FINE, seed=seed, rate=0.7, part="target")(Sequences(rows, np.arange(2), lists))
        for seed in range(400)
    ]
    ends = np.mean([made.fine.columns["mlm_labels"][7] == SEP for made in some])
    assert abs(ends - 3 / 4) < 5 * np.sqrt(3 / 16 / 400)  # round(0.7 * 4) of the four


@pytest.mark.parametrize("group", [None, "tree"])
def test_a_row_without_a_target_is_named(group: str | None) -> None:
    rows = as_rows(make_rows(3, "pretrain", GROUPS, 20), "pretrain", GROUPS)
    types, offsets = rows.lists["token_type_ids"]
    number = next(100 + row for row in range(20) if not types[offsets[row] : offsets[row + 1]].any())
    with pytest.raises(BatchError, match=f"row {number} has no second segment.*take part 'all'"):
        Masking(FINE, part="target")(view(rows, group))


# --- the same whatever the company --------------------------------------------------------------


@settings(max_examples=80, deadline=None)
@given(maskings(), st.sampled_from([None, "tree"]), st.integers(0, 99), st.data())
def test_a_row_is_masked_alike_in_any_batch(
    masking: Masking, group: str | None, seed: int, data: st.DataObject
) -> None:
    groups = ["syntax", "coarse", *([group] if group else [])]
    rows = as_rows(make_rows(seed, "pretrain", groups, 8), "pretrain", groups)
    if masking.part == "target":
        rows = having_targets(rows)
    whole = masked(masking(view(rows, group)).fine)
    some = np.array(data.draw(st.lists(st.integers(0, len(rows) - 1), min_size=1, max_size=8)))
    assert masked(masking(view(rows.take(some), group)).fine) == [whole[i] for i in some.tolist()]


def test_packing_changes_no_mask() -> None:
    rows = as_rows(make_rows(3, "pretrain", (), 30), "pretrain", ())
    rows.scalars.clear()  # rows with labels of their own are not packed
    step = (Masking(FINE, seed=4),)
    alone, packed = Collator(steps=step)(rows), Collator(steps=step, pack=Packing(128))(rows)
    assert packed["input_ids"].shape[0] < alone["input_ids"].shape[0]

    def each(batch: Mapping[str, Any]) -> Counter[tuple[tuple[int, ...], tuple[int, ...]]]:
        found: Counter[Any] = Counter()
        for ids, labels, number in zip(
            batch["input_ids"].tolist(),
            batch["mlm_labels"].tolist(),
            batch["sequence_id"].tolist(),
            strict=True,
        ):
            for k in range(1, max(number) + 1):
                here = [t for t, of in enumerate(number) if of == k]
                found[tuple(ids[t] for t in here), tuple(labels[t] for t in here)] += 1
        return found

    assert each(alone) == each(packed)


@pytest.mark.filterwarnings("ignore:This DataLoader will create")
def test_identical_rows_in_many_workers(tmp_path: Path) -> None:
    """64 times one sentence, two epochs: masks differ from row to row and epoch to epoch, not with the workers."""
    row = max(make_rows(5, "pretrain", (), 50), key=lambda row: len(row["input_ids"]))
    row["input_ids"] = [60 + place if token == UNK else token for place, token in enumerate(row["input_ids"])]
    rows = [{**row, "id": f"d#{i}"} for i in range(64)]
    write_folder(tmp_path / "d", rows_schema("pretrain", ()), {"train": [rows]}, task="pretrain")
    step = Masking.of(metadata("pretrain", ()), rate=0.3, seed=1)
    collator = Collator(steps=(step,))
    split = open_split(str(tmp_path / "d"), "train", collator.columns)

    def epochs(workers: int, batch: int) -> list[dict[int, tuple[int, ...]]]:
        loader = Loader(split, batch, collate=collator, workers=workers, block=8, window=2)
        found: list[dict[int, tuple[int, ...]]] = []
        for _ in range(2):
            found.append({})
            for made in loader:
                for number, labels in zip(made["number"].tolist(), made["mlm_labels"].tolist(), strict=True):
                    found[-1][number] = tuple(label != IGNORED for label in labels)
        return found

    alone = epochs(0, 8)
    assert epochs(4, 8) == alone and epochs(2, 16) == alone
    assert len(alone[0]) == len(alone[1]) == 64
    patterns = [set(epoch.values()) for epoch in alone]
    assert len(patterns[0]) > 60 and len(patterns[1]) > 60
    assert sum(alone[0][i] == alone[1][i] for i in range(64)) < 4


def test_the_masks_of_a_seed_stay() -> None:
    """Numbers written down once: a release that changed them would change every run that is resumed."""
    lists = plain(12, 9, 30)
    lists.fine.columns["word_index"] = np.arange(51) // 2
    for units, expected in STAY.items():
        labels = Masking(FINE, seed=2, rate=0.3, units=units)(lists).fine.columns["mlm_labels"]  # type: ignore[arg-type]
        assert np.flatnonzero(labels != IGNORED).tolist() == expected


STAY = {
    "token": [2, 3, 7, 9, 15, 17, 18, 23, 25, 26, 29, 36, 41, 42, 43, 45],
    "word": [2, 3, 4, 5, 13, 18, 19, 26, 27, 34, 35, 36, 37, 42, 43],
    "ngram": [3, 7, 8, 9, 15, 17, 18, 23, 25, 26, 29, 36, 41, 42, 43, 45],
}


# --- real rows --------------------------------------------------------------------------------


def test_real_rows(datasets: Datasets) -> None:
    """Of a dataset of the samples, through stream and collator: words of sentence trees, and both granularities."""
    meta = open_split(str(datasets["pretrain"]), "train", ("input_ids",)).metadata
    words = collated(datasets, "pretrain", "tree", Masking.of(meta, units="word", seed=1))
    chosen = words["mlm_labels"] != IGNORED
    trunk, real = words["branch"] == 0, words["sequence_id"] > 0
    assert not (chosen & ~(trunk & real)).any() and (words["branch"] > 0).any()
    assert 0.1 < chosen.sum() / (trunk & real).sum() < 0.16
    both = collated(datasets, "pretrain", "coarse", Masking.of(meta, coarse=True, seed=1))
    of_fine, of_coarse = both["mlm_labels"] != IGNORED, both["coarse_mlm_labels"] != IGNORED
    above = torch.gather(of_coarse, 1, both["coarse_index"].long())
    unknown = (
        torch.gather(both["coarse_input_ids"], 1, both["coarse_index"].long())
        == meta["coarse_special_ids"]["unk"]
    )
    ids = torch.where(of_fine, both["mlm_labels"], both["input_ids"])
    ordinary = ~torch.isin(ids, torch.tensor(list(meta["special_ids"].values())))
    assert of_coarse.any() and (of_fine == above)[ordinary & ~unknown & (both["sequence_id"] > 0)].all()


def test_real_targets(datasets: Datasets) -> None:
    meta = open_split(str(datasets["seq2seq"]), "train", ("input_ids",)).metadata
    batch = collated(datasets, "seq2seq", None, Masking.of(meta, part="target", rate=1.0))
    assert ((batch["mlm_labels"] != IGNORED) <= (batch["token_type_ids"] == 1)).all()
    assert (batch["mlm_labels"] == meta["special_ids"]["sep"]).any(1).float().mean() > 0.5


def collated(datasets: Datasets, name: str, group: str | None, step: Masking) -> dict[str, Tensor]:
    collator = Collator(group, steps=(step,))
    split = open_split(str(datasets[name]), "train", collator.columns)
    return next(iter(Loader(split, min(64, len(split)), collate=collator)))


# --- shares ----------------------------------------------------------------------------------


def near(found: float, expected: float, of: int) -> bool:
    """Within 5 standard errors of a share `expected` among `of`."""
    return bool(abs(found - expected) < 5 * np.sqrt(expected * (1 - expected) / of))


@pytest.mark.parametrize("corrupted_by", ["token", "unit"])
@pytest.mark.parametrize("budget", ["exact", "independent"])
def test_shares(budget: str, corrupted_by: str) -> None:
    lists = plain(*[102] * 2000, word_index=np.tile([-1, *np.repeat(np.arange(50), 2), -1], 2000))
    before, places = lists.fine.columns["input_ids"], lists.fine.places
    units = "word" if corrupted_by == "unit" else "token"
    step = Masking(FINE, seed=9, budget=budget, units=units, corrupted_by=corrupted_by)  # type: ignore[arg-type]
    after = step(lists).fine.columns
    chosen = after["mlm_labels"] != IGNORED
    n, size = int(chosen.sum()), 2 if units == "word" else 1
    free = len(before) - 4000
    assert near(n / free, 0.15, free // size) if budget == "independent" else abs(n / free - 0.15) < 0.01
    spread = np.bincount(places[chosen], minlength=102)[1:-1]
    assert (abs(spread - n / 100) < 5 * np.sqrt(n / 100)).all()  # every place alike
    new, old = after["input_ids"][chosen], before[chosen]
    assert near((new == MASK).mean(), 0.8, n // size)
    kept = new == old
    assert near(kept.mean(), 0.1 + 0.1 / (VOCAB - 5), n // size)
    random = new[~kept & (new != MASK)]
    counts = np.bincount(random, minlength=VOCAB)
    assert (
        counts[:5].sum() == 0 and (abs(counts[5:] - len(random) / 95) < 5 * np.sqrt(len(random) / 95)).all()
    )
    if units == "word":
        pairs = (new == MASK).reshape(-1, 2)
        assert (pairs[:, 0] == pairs[:, 1]).all()


def test_ngrams_are_of_one_two_and_three_tokens() -> None:
    """At a low rate n-grams are far apart, and their lengths are those of the runs."""
    labels = Masking(FINE, seed=1, rate=0.01, units="ngram")(plain(*[2002] * 300)).fine.columns["mlm_labels"]
    edges = np.flatnonzero(np.diff(np.concatenate([[0], labels != IGNORED, [0]]).astype(int)))
    runs = np.bincount(edges[1::2] - edges[::2], minlength=5) / (len(edges) / 2)
    assert abs(runs[1] - 0.8) < 0.04 and abs(runs[2] - 0.1) < 0.02 and abs(runs[3] - 0.1) < 0.02


def test_neighbours_and_rows_are_drawn_apart() -> None:
    """Whether a token is chosen tells nothing of the next, nor of the same place of the next row, epoch or seed."""
    lists = plain(*[102] * 1000)
    step = Masking(FINE, budget="independent", rate=0.5)
    chosen = step(lists).fine.columns["mlm_labels"].reshape(1000, 102)[:, 1:-1] != IGNORED
    later = replace(lists, rows=replace(lists.rows, epoch=lists.rows.epoch + 1))
    others = [
        (step(later).fine.columns["mlm_labels"].reshape(1000, 102)[:, 1:-1] != IGNORED, chosen),
        (
            replace(step, seed=1)(lists).fine.columns["mlm_labels"].reshape(1000, 102)[:, 1:-1] != IGNORED,
            chosen,
        ),
        (chosen[1:], chosen[:-1]),
        (chosen[:, 1:], chosen[:, :-1]),
    ]
    for a, b in others:
        assert near((a == b).mean(), 0.5, a.size)


# --- settings -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seed": -1}, "seed of masking must be a whole number from 0"),
        ({"seed": True}, "seed of masking .* found True"),
        ({"rate": 0}, "rate of masking must be above 0"),
        ({"rate": 1.5}, "rate of masking must be a number from 0 to 1, found 1.5"),
        ({"rate": float("nan")}, "rate of masking .* found nan"),
        ({"rate": "0.15"}, "rate of masking .* found '0.15'"),
        ({"budget": "about"}, "budget of masking is 'about'; known are exact, independent"),
        ({"units": "phrase"}, "units of masking is 'phrase'; known are token, word, coarse, ngram"),
        ({"units": ["word"]}, "units of masking is"),
        ({"part": "source"}, "part of masking is 'source'"),
        ({"corrupted_by": "row"}, "corrupted_by of masking"),
        ({"branches": "yes"}, "branches of masking must be true or false, found 'yes'"),
        ({"coarse": 1}, "coarse of masking must be true or false"),
        ({"shares": (0.8, 0.2)}, "shares of masking must be three"),
        ({"shares": 0.8}, "shares of masking must be three"),
        ({"shares": (0.8, 0.1, 0.2)}, "shares of masking must add up to 1"),
        ({"shares": (1.2, -0.1, -0.1)}, "shares of masking must be a number from 0 to 1, found 1.2"),
        ({"max_predictions": 0}, "max_predictions of masking must be a whole number from 1"),
        ({"max_predictions": 5, "budget": "independent"}, "with max_predictions it must be 'exact'"),
        ({"units": "ngram", "budget": "independent"}, "with units 'ngram' it must be 'exact'"),
        ({"coarse": True}, "coarse masking .* needs units 'coarse'"),
        ({"coarse": True, "units": "coarse", "coarse_vocabulary": COARSE, "part": "target"}, "part 'all'"),
    ],
)
def test_bad_settings(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Masking(FINE, **change)


@pytest.mark.parametrize(
    ("special", "size", "message"),
    [
        ({"sep": 3}, 9, "special_ids lack 'mask'; they have sep"),
        ({"mask": 4, "sep": 9}, 9, r"special_ids\['sep'\] must be an id from 0 to 8, found 9"),
        ({"mask": 0, "sep": 1}, 2, "all 2 ids of the vocabulary are special"),
        ({"mask": 0, "sep": 1}, 0, "size of a vocabulary"),
    ],
)
def test_bad_vocabularies(special: dict[str, int], size: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Vocabulary(special, size)


def test_of_a_dataset() -> None:
    meta = metadata("pretrain", ("coarse",))
    assert Masking.of(meta, rate=0.2) == Masking(FINE, rate=0.2)
    step = Masking.of(meta, coarse=True)
    assert step.units == "coarse" and step.coarse_vocabulary == COARSE and step.columns == ("coarse_index",)
    assert Masking.of(meta, units="word").columns == ("word_index",) and Masking.of(meta).columns == ()
    with pytest.raises(
        ValueError, match=r"does not say its coarse_special_ids.*add 'coarse' to encode.columns"
    ):
        Masking.of(metadata("pretrain", ()), coarse=True)
    with pytest.raises(ValueError, match="does not say its special_ids"):
        Masking.of({})


def test_lacking_columns() -> None:
    with pytest.raises(
        BatchError, match=r"masking with units 'word' needs column 'word_index'.*add 'syntax'"
    ):
        Masking(FINE, units="word")(plain(9))
    step = Masking(FINE, units="coarse", coarse=True, coarse_vocabulary=COARSE)
    with pytest.raises(BatchError, match="its view must be 'coarse'"):
        step(plain(9))


def test_inputs_are_left_alone_and_steps_can_be_sent() -> None:
    before = sequences_of("pretrain", None, 1, 4)
    ids = before.fine.columns["input_ids"]
    old = ids.copy()
    step = pickle.loads(pickle.dumps(Masking(FINE, seed=3)))
    assert masked(step(before).fine) == masked(Masking(FINE, seed=3)(before).fine)
    assert (ids == old).all() and "mlm_labels" not in before.fine.columns


def test_more_than_it_can_order() -> None:
    lists = plain(2**20)
    with pytest.raises(ValueError, match=r"fewer than 262144 tokens each; found 1 sequences"):
        Masking(FINE)(lists)
