"""Templates whose text belongs to the running prose, by name; all others vanish.

A template is a program in the wiki, and a dump of pages does not run it. Those below are the ones that stand
inside sentences: text in another language, numbers with units, dates, quotations, non-breaking stretches,
links to other languages' wikis. What they show is put together from their values here. Names are compared
in lower case; `_` is a space.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from corpora.readers.wikitext.marks import BLOCK

MAX_NAME = 200
"""Longest name that is looked up, in characters, a function's value included."""


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


def _words(text: str) -> list[str]:
    return text.split()


_PICK: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(
        _words(
            "abbr angbr big bigger cns code em flag flagcountry flagu hebrew iast large larger lj math mvar nastaliq "
            "nobold nobr nobreak noitalic nowrap nq nts nwr polytonic resize ruby sc script small smallcaps "
            "smaller strong sub sup tooltip typo unicode vanchor var vr"
        ),
        ("1",),
    ),
    **dict.fromkeys(
        (
            "citation needed span",
            "clarify span",
            "no bold",
            "no italic",
            "not a typo",
            "proper name",
            "small caps",
            "visible anchor",
        ),
        ("1",),
    ),
    "lang": ("2", "text"),
    "langx": ("2", "text"),
    "rtl-lang": ("2", "1"),
    "ipa": ("2", "1"),
    "transl": ("3", "2"),
    "transliteration": ("3", "2"),
    "ill": ("lt", "1"),  # links to a page that only another wiki has
    "interlanguage link": ("lt", "1"),
    "le": ("3", "1"),
    "tsl": ("4", "3"),
    "translink": ("4", "3"),
}
"""Name: the value that is shown, the first that is not empty."""

_PICK_PREFIX: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("lang-", ("1", "text")),
    ("link-", ("3", "1")),
    ("internal link helper/", ("3", "1")),
    ("script/", ("1",)),
)
"""The same for families of names: `lang-ru`, `link-en`."""

_QUOTES = (
    "blockquote",
    "bquote",
    "columns-list",
    "cquote",
    "flatlist",
    "plainlist",
    "poemquote",
    "quotation",
    "quote",
)
"""Blocks of their own: their text."""

_JOIN = {
    "chem": "",
    "chem2": "",
    "frac": "/",
    "fraction": "/",
    "gaps": "",
    "hlist": ", ",
    "keypress": "+",
    "linktext": " ",
    "nuclide2": "-",
    "pow": "^",
    "sfrac": "/",
    "simplenuclide2": "-",
}
"""Name: what stands between the values."""

_CONSTANT = {
    "!": "|",
    "=": "=",
    "'": "'",
    "'s": "'s",
    "' \"": "' \"",
    "\" '": "\" '",
    "·": " · ",
    "•": " • ",
    '-"': '"',
    "bullet": " • ",
    "dot": " · ",
    "eqm": "⇌",
    "mdash": "—",
    "mdashb": "—",
    "nbsp": " ",
    "ndash": "–",
    "okina": "ʻ",
    "pipe": "|",
    "snd": " – ",
    "snds": " – ",
    "spaced ndash": " – ",
    "spaces": " ",
    "thinsp": " ",
}
_MONEY = {
    "a$": "A$",
    "au$": "A$",
    "aud": "A$",
    "cad": "C$",
    "can$": "C$",
    "eur": "€",
    "euro": "€",
    "gbp": "£",
    "hk$": "HK$",
    "inr": "₹",
    "jpy": "¥",
    "nt$": "NT$",
    "us$": "US$",
    "usd": "US$",
    "£": "£",
    "€": "€",
    "¥": "¥",
    "₹": "₹",
}
_SHIPS = ("hmas", "hmcs", "hms", "rms", "sms", "ss", "uss")

_MONTHS = _words("January February March April May June July August September October November December")
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


def _convert(values: Values) -> str:
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


def _as_of(values: Values) -> str:
    if alt := values["alt"]:
        return alt
    begin = "Since" if values["since"] else "As of"
    date = _date(values, day_first=values["df"].lower() != "us")
    return f"{begin.lower() if values['lc'] else begin} {date}"


def _start_date(values: Values) -> str:
    return _date(values, day_first=bool(values["df"]))


def _nihongo(values: Values) -> str:
    names = [value for n in ("1", "2", "3", "4") if (value := values[n])]
    return names[0] + (f" ({', '.join(names[1:])})" if len(names) > 1 else "") if names else ""


def _chinese(values: Values) -> str:
    shown = dict.fromkeys(
        values[name] for name in ("c", "s", "t", "p", "hp", "tp", "w", "j", "y", "poj", "1")
    )
    return ", ".join(name for name in shown if name)


def _born_died(values: Values) -> str:
    """`{{bd|1893年|12月26日|1976年|9月9日}}`."""
    born, died = values["1"] + values["2"], values["3"] + values["4"]
    return f"（{born}－{died}）" if died else f"（{born}－）" if born else ""


def _authors(values: Values) -> str:
    """`{{harvtxt|Boolos|Jeffrey|1974}}`: the subject of many a sentence."""
    *names, year = values.positional() or [""]
    return f"{', '.join(names[:-1])}{' & ' if len(names) > 1 else ''}{names[-1]} ({year})" if names else year


def _old_style(values: Values) -> str:
    return f"{values['1']} [O.S. {values['3']}] {values['2']}"


def _measured(values: Values) -> str:
    number = values["1"] + (f" ± {values['2']}" if _NUMBER.fullmatch(values["2"]) else "")
    unit = values.first(("u", "ul"))
    return f"{number} {unit}" if unit else number


def _circa(values: Values) -> str:
    return " – ".join(f"c. {value}" for value in values.positional()[:2])


def _reign(values: Values) -> str:
    return f"r. {'–'.join(values.positional()[:2])}"


_RULES: dict[str, Callable[[Values], str]] = {
    "as of": _as_of,
    "asof": _as_of,
    "bibleref": lambda v: f"{v['1']} {v['2']}",
    "bd": _born_died,
    "c.": _circa,
    "circa": _circa,
    "convert": _convert,
    "cvt": _convert,
    "citet": _authors,
    "harvtxt": _authors,
    "ipablink": lambda v: f"[{v['1']}]",
    "ipalink": lambda v: v["1"],
    "ipaslink": lambda v: f"/{v['1']}/",
    "music": lambda v: {"flat": "♭", "natural": "♮", "sharp": "♯"}.get(v["1"], v["1"]),
    "nihongo": _nihongo,
    "oldstyledate": _old_style,
    "reign": _reign,
    "sic": lambda v: v["1"] or "[sic]",
    "ship": lambda v: f"{v['1']} {v['2']}",
    "val": _measured,
    "zh": _chinese,
    **dict.fromkeys(
        ("birth date", "birth date and age", "death date", "death date and age", "end date", "start date"),
        _start_date,
    ),
}

_FUNCTIONS: dict[str, Callable[[str], str]] = {
    "formatnum": str,
    "lc": str.lower,
    "lcfirst": lambda s: s[:1].lower() + s[1:],
    "uc": str.upper,
    "ucfirst": lambda s: s[:1].upper() + s[1:],
}


def known(name: str) -> Callable[[Values], str] | None:
    """What shows the template of this name (or `function:value`); None for one that vanishes."""
    if len(name) > MAX_NAME:
        return None
    name = " ".join(name.replace("_", " ").split()).lower()
    for prefix in ("template:", "模板:"):
        name = name.removeprefix(prefix)
    if name in _PICK:
        return lambda values: values.first(_PICK[name])
    if name in _CONSTANT:
        return lambda values: _CONSTANT[name]
    if name in _RULES:
        return _RULES[name]
    if name in _JOIN:
        return lambda values: _JOIN[name].join(values.positional())
    if name in _MONEY:
        return lambda values: _MONEY[name] + values["1"]
    if name in _QUOTES:
        return lambda values: f"{BLOCK}\n{values.first(('1', 'text', 'quote'))}\n{BLOCK}"
    if name in _SHIPS:
        return lambda values: f"{name.upper()} {values['1']}"
    function, colon, _ = name.partition(":")
    if colon and function in _FUNCTIONS:
        return lambda values: _FUNCTIONS[function](values["0"])
    if name.startswith("ipa-"):
        return lambda values: f"[{values['1']}]"
    for prefix, keys in _PICK_PREFIX:
        if name.startswith(prefix):
            return lambda values: values.first(keys)
    return None
