"""Templates whose text belongs to the running prose, by name; all others vanish.

A template is a program in the wiki, and a dump of pages does not run it. Those below are the ones that stand
inside sentences: text in another language, numbers with units, dates, quotations, non-breaking stretches,
links to other languages' wikis. What they show is put together from their values here. Names are compared
in lower case; `_` is a space.
"""

from __future__ import annotations

from collections.abc import Callable

from corpora.readers.wikitext import measures
from corpora.readers.wikitext.marks import BLOCK
from corpora.readers.wikitext.measures import Values

MAX_NAME = 200
"""Longest name that is looked up, in characters, a function's value included."""


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


def _circa(values: Values) -> str:
    return " – ".join(f"c. {value}" for value in values.positional()[:2])


def _reign(values: Values) -> str:
    return f"r. {'–'.join(values.positional()[:2])}"


_RULES: dict[str, Callable[[Values], str]] = {
    "as of": measures.as_of,
    "asof": measures.as_of,
    "bibleref": lambda v: f"{v['1']} {v['2']}",
    "bd": _born_died,
    "c.": _circa,
    "circa": _circa,
    "convert": measures.convert,
    "cvt": measures.convert,
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
    "val": measures.measured,
    "zh": _chinese,
    **dict.fromkeys(
        ("birth date", "birth date and age", "death date", "death date and age", "end date", "start date"),
        measures.start_date,
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
