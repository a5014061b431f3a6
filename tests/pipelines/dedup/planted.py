"""A corpus whose duplicates are known, because they were put there."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

_SYLLABLES = ["ba", "ko", "ri", "ten", "mu", "sal", "ge", "po", "win", "dra", "fi", "lo"]


@dataclass
class Planted:
    """Texts in order; `exact` and `edited` are pairs of (original, copy), the edited with the edits made."""

    texts: list[str] = field(default_factory=list)
    exact: list[tuple[int, int]] = field(default_factory=list)
    edited: list[tuple[int, int]] = field(default_factory=list)


def base_texts(real_data: Path | None, language: str, count: int, dice: random.Random) -> list[str]:
    """Texts that have little in common: abstracts and reviews where there are real ones, made ones otherwise."""
    if language == "zh" and real_data is not None:
        lines = (real_data / "clue/csl.jsonl").read_text(encoding="utf-8").split("\n")
        texts = [json.loads(line)["abst"] for line in lines if line]
        reviews = (real_data / "kbert/chnsenticorp/train.tsv").read_text(encoding="utf-8").split("\n")[1:]
        texts += [review.partition("\t")[2] for review in reviews if len(review) > 60]
        dice.shuffle(texts)
        return texts[:count]
    if language == "zh":
        return [
            "".join(chr(dice.randrange(0x4E00, 0x9000)) for _ in range(dice.randrange(60, 300)))
            for _ in range(count)
        ]
    word = lambda: "".join(dice.choices(_SYLLABLES, k=dice.randrange(1, 5)))  # noqa: E731
    return [" ".join(word() for _ in range(dice.randrange(40, 200))) for _ in range(count)]


def _disguised(text: str, dice: random.Random) -> str:
    """The same but for what folding takes away."""
    wide = {c: c + 0xFEE0 for c in range(0x21, 0x7F)}
    changes: list[Callable[[str], str]] = [
        str.upper,
        lambda t: t.translate(wide),
        lambda t: "".join(c + dice.choice(["", "", " ", "，", "\u200b"]) for c in t),
        lambda t: f"\u3000{t}。\n".replace("\n", " "),
        lambda t: t,
    ]
    return dice.choice(changes)(text)


def _edited(text: str, share: float, dice: random.Random, *, words: bool) -> str:
    """With about this share of its characters, or words, replaced, dropped or doubled."""
    units = text.split(" ") if words else list(text)
    for _ in range(max(1, round(len(units) * share))):
        at, what = dice.randrange(len(units)), dice.randrange(3)
        if what == 0:
            units[at] = (
                "".join(dice.choices(_SYLLABLES, k=3)) if words else chr(dice.randrange(0x4E00, 0x9000))
            )
        elif what == 1 and len(units) > 5:
            del units[at]
        else:
            units.insert(at, units[at])
    return (" " if words else "").join(units)


def plant(real_data: Path | None, language: str, count: int, seed: int = 5) -> Planted:
    """A quarter of the texts has an exact copy, another an edited one: from a character to half of the text."""
    dice = random.Random(seed)
    originals = [t for t in dict.fromkeys(base_texts(real_data, language, count, dice)) if "\n" not in t]
    entries: list[tuple[str, int, str]] = []
    for number, text in enumerate(originals):
        entries.append((text, number, ""))
        if number % 4 == 0:
            entries.append((_disguised(text, dice), number, "exact"))
        elif number % 4 == 1:
            share = dice.choice([0.005, 0.01, 0.02, 0.03, 0.05, 0.1, 0.3, 0.5])
            entries.append((_edited(text, share, dice, words=language != "zh"), number, "edited"))
    dice.shuffle(entries)
    places: dict[int, list[int]] = {}
    for place, (_, number, _) in enumerate(entries):
        places.setdefault(number, []).append(place)
    planted = Planted([text for text, _, _ in entries])
    for found in places.values():
        if len(found) == 2:
            kind = next(entries[p][2] for p in found if entries[p][2])
            (planted.exact if kind == "exact" else planted.edited).append((found[0], found[1]))
    return planted
