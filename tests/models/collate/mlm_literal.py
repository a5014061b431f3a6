"""Masking one sequence at a time, token by token, as BERT's and UniLM's published code goes about it.

What masks are held against, in everything but the source of chance: instead of a shuffle there is the order of
the draws, and a draw is a hash of (seed, number, epoch, choice, place), in Python's own integers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from models.collate.mlm import Masking, Vocabulary

IGNORED = -100
_WORD = 2**64 - 1
Columns = Mapping[str, Sequence[int]]
Masked = tuple[list[int], list[int]]


def splitmix(value: int, key: int) -> int:
    mixed = ((value + 1) * 0x9E3779B97F4A7C15 + key) & _WORD
    mixed = ((mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9) & _WORD
    mixed = ((mixed ^ mixed >> 27) * 0x94D049BB133111EB) & _WORD
    return mixed ^ mixed >> 31


def splitmix32(value: int, key: int) -> int:
    low = 2**32 - 1
    mixed = (value * 0x9E3779B1 + key) & low
    mixed = ((mixed ^ mixed >> 16) * 0x21F0AAAD) & low
    mixed = ((mixed ^ mixed >> 15) * 0xD35A2D97) & low
    return mixed ^ mixed >> 15


def constant(number: int) -> int:
    return splitmix(number, 0)


def key(seed: int, number: int, epoch: int, choice: int) -> int:
    """Of a sequence."""
    return splitmix((number + epoch * constant(0) + choice * constant(1)) & _WORD, splitmix(seed, 0))


def mask_one(
    masking: Masking, fine: Columns, coarse: Columns | None, number: int, epoch: int, choice: int = 0
) -> tuple[Masked, Masked | None]:
    """Ids and labels of a sequence, and of its coarse tokens where they are masked."""
    made = key(masking.seed, number, epoch, choice)
    choose, corrupt = made % 2**32, made ^ constant(2)
    ids = fine["input_ids"]
    special = set(masking.vocabulary.special_ids.values())
    if masking.coarse:
        assert coarse is not None and masking.coarse_vocabulary is not None
        return _both(masking, fine, coarse["input_ids"], choose, corrupt)
    branch = fine.get("branch", [0] * len(ids))
    counted = [
        place
        for place in range(len(ids))
        if (masking.branches or branch[place] == 0)
        and (masking.part == "all" or fine["token_type_ids"][place] == 1)
    ]
    may = [place for place in counted if ids[place] not in special]
    if (
        masking.part == "target"
        and counted
        and counted[-1] == len(ids) - 1
        and ids[-1] == masking.vocabulary.special_ids["sep"]
    ):
        may.append(len(ids) - 1)
    units: list[list[int]] = []
    if masking.units in ("word", "coarse"):
        of: dict[int, list[int]] = {}
        for place in may:
            index = fine[f"{masking.units}_index"][place]
            if index < 0:
                units.append([place])
            elif index in of:
                of[index].append(place)
            else:
                of[index] = [place]
                units.append(of[index])
    else:
        units = [[place] for place in may]
    draws = {place: splitmix32(place, choose) for place in may}
    if masking.budget == "independent":
        chosen = {p: unit[0] for unit in units if draws[unit[0]] < int(masking.rate * 2**32) for p in unit}
    elif masking.units == "ngram":
        chosen = _ngrams(may, draws, ids, branch, masking.branches, _quota(masking, len(counted)))
    else:
        chosen = create_masked_lm_predictions(units, draws, _quota(masking, len(counted)))
    return _corrupted(masking, masking.vocabulary, ids, chosen, corrupt), None


def _quota(masking: Masking, count: int) -> int:
    return min(masking.max_predictions or 10**9, max(1, round(count * masking.rate)))


def _shuffled(places: Sequence[int], draws: Mapping[int, int]) -> list[int]:
    return sorted(places, key=lambda place: (draws[place] >> 4, place))


def create_masked_lm_predictions(
    units: Sequence[Sequence[int]], draws: Mapping[int, int], quota: int
) -> dict[int, int]:
    """The loop of BERT's published code (with whole words): the places chosen, and the first of the unit of each."""
    by_head = {unit[0]: unit for unit in units}
    chosen: dict[int, int] = {}
    for head in _shuffled(list(by_head), draws):
        if len(chosen) >= quota:
            break
        if len(chosen) + len(by_head[head]) > quota:
            continue
        chosen |= dict.fromkeys(by_head[head], head)
    return chosen


def _ngrams(
    may: list[int],
    draws: Mapping[int, int],
    ids: Sequence[int],
    branch: Sequence[int],
    branches: bool,
    quota: int,
) -> dict[int, int]:
    """UniLM's loop, but for what goes over the quota: it is not drawn from all chosen, it is the last n-gram's end."""
    chosen: dict[int, int] = {}
    for start in _shuffled(may, draws):
        if start in chosen:
            continue
        low = splitmix32(draws[start], 0)
        size = 1 if low < int(0.8 * 2**32) else 2 if low < int(0.9 * 2**32) else 3
        place = start
        for _ in range(size):
            if place not in may or branch[place] != branch[start]:
                break
            if len(chosen) < quota:
                chosen.setdefault(place, start)
            place += 1
            while not branches and place < len(ids) and branch[place]:
                place += 1
    return chosen


def _corrupted(
    masking: Masking, vocabulary: Vocabulary, ids: Sequence[int], chosen: Mapping[int, int], corrupt: int
) -> Masked:
    """`chosen` by place the place whose draw says what becomes of it, where that is drawn by unit."""
    made, labels = list(ids), [IGNORED] * len(ids)
    for place, head in chosen.items():
        fate = splitmix(head if masking.corrupted_by == "unit" else place, corrupt)
        made[place] = _instead(masking, vocabulary, ids[place], fate, splitmix(place, corrupt))
        labels[place] = ids[place]
    return made, labels


def _instead(masking: Masking, vocabulary: Vocabulary, token: int, fate: int, draw: int) -> int:
    mask, _, keep = masking.shares
    share = (fate >> 32) / 2**32
    if share < mask:
        return vocabulary.special_ids["mask"]
    if share < 1 - keep:
        others = [i for i in range(vocabulary.size) if i not in vocabulary.special_ids.values()]
        return others[(draw % 2**32) * len(others) >> 32]
    return token


def _both(
    masking: Masking, fine: Columns, coarse: Sequence[int], choose: int, corrupt: int
) -> tuple[Masked, Masked]:
    assert masking.coarse_vocabulary is not None
    above, ids = fine["coarse_index"], fine["input_ids"]
    corrupt_coarse = corrupt ^ constant(4)
    special = set(masking.vocabulary.special_ids.values())
    coarse_special = set(masking.coarse_vocabulary.special_ids.values())
    below: dict[int, list[int]] = {}
    for place, token in enumerate(ids):
        if token not in special and above[place] >= 0:
            below.setdefault(above[place], []).append(place)
    may = [c for c in range(len(coarse)) if coarse[c] not in coarse_special or c in below]
    draws = {c: splitmix32(c, choose) for c in may}
    if masking.budget == "independent":
        taken = [c for c in may if draws[c] < int(masking.rate * 2**32)]
    else:
        units = [[c] for c in may]
        taken = list(create_masked_lm_predictions(units, draws, _quota(masking, len(coarse))))
    made, labels = list(ids), [IGNORED] * len(ids)
    for c in taken:
        for place in below.get(c, []):
            draw = splitmix(place, corrupt)
            fate = splitmix(c, corrupt_coarse) if masking.corrupted_by == "unit" else draw
            made[place] = _instead(masking, masking.vocabulary, ids[place], fate, draw)
            labels[place] = ids[place]
    named = {c: c for c in taken if coarse[c] not in coarse_special}
    return (made, labels), _corrupted(masking, masking.coarse_vocabulary, coarse, named, corrupt_coarse)
