"""Numbers with units and dates: what {{convert}}, {{as of}} and {{val}} show of the values they are given."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence


class Values:
    """What a template is given: `Values["2"]` is its second value as text, stripped; "" where there is none."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = values

    def __getitem__(self, name: str) -> str:
        return self._values.get(name, "").strip()

    def first(self, names: Sequence[str]) -> str:
        """The first of the values that is not empty."""
        return next((value for name in names if (value := self[name])), "")

    def positional(self) -> list[str]:
        """Values without a name, in order, as far as they are not empty."""
        numbers = sorted(int(name) for name in self._values if name.isdecimal() and len(name) < 6)
        return [value for n in numbers if (value := self[str(n)])]


_MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
_NUMBER = re.compile(r"[+\-−]?[\d,.⁄/]*\d")
_UNITS = {
    "C": "°C",
    "F": "°F",
    "K": "K",
    "sqmi": "sq mi",
    "sqft": "sq ft",
    "cuft": "cu ft",
    "km2": "km²",
    "m2": "m²",
    "cm2": "cm²",
    "sqkm": "km²",
    "m3": "m³",
    "cm3": "cm³",
    "km3": "km³",
    "kg/m3": "kg/m³",
    "/sqkm": "/km²",
    "/km2": "/km²",
    "/sqmi": "/sq mi",
}
"""Units whose sign is not what {{convert}} calls them."""
_SECOND_UNIT = {"ft": "in", "lb": "oz", "st": "lb", "mi": "yd", "yd": "ft"}
_RANGE = {
    "-": "–",
    "–": "–",
    "to(-)": "to",
    "x": "×",
    "*": "×",
    "by": "by",
    "and": "and",
    "and(-)": "and",
    "to": "to",
    "or": "or",
    "+/-": "±",
    "±": "±",
}


def convert(values: Values) -> str:
    """`{{convert|5|ft|6|in|m}}`: the number and unit that were written, not the converted ones."""
    args = values.positional()
    shown: list[str] = []
    at = 0
    while at < len(args):
        if not _NUMBER.fullmatch(args[at]):
            break
        shown.append(args[at])
        if at + 1 < len(args) and (word := _RANGE.get(args[at + 1])):
            shown.append(word)
            at += 2
            continue
        if at + 1 < len(args):
            unit = args[at + 1]
            shown.append(_UNITS.get(unit, unit))
            if len(args) > at + 3 and _SECOND_UNIT.get(unit) == args[at + 3]:
                at += 2
                continue
        break
    return " ".join(shown).replace(" – ", "–")


def _date(values: Values, *, day_first: bool) -> str:
    year, month, day = values["1"], values["2"], values["3"]
    if month.isdecimal() and 1 <= int(month) <= 12:
        month = _MONTHS[int(month) - 1]
    day = day.lstrip("0")
    if not month:
        return year
    if not day:
        return f"{month} {year}"
    return f"{day} {month} {year}" if day_first else f"{month} {day}, {year}"


def as_of(values: Values) -> str:
    if alt := values["alt"]:
        return alt
    begin = "Since" if values["since"] else "As of"
    date = _date(values, day_first=values["df"].lower() != "us")
    return f"{begin.lower() if values['lc'] else begin} {date}"


def start_date(values: Values) -> str:
    return _date(values, day_first=bool(values["df"]))


def measured(values: Values) -> str:
    number = values["1"] + (f" ± {values['2']}" if _NUMBER.fullmatch(values["2"]) else "")
    unit = values.first(("u", "ul"))
    return f"{number} {unit}" if unit else number
