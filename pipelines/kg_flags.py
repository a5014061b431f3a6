"""The flags of `treegraft kg build`, from and to the `build` section of a config."""

from __future__ import annotations

import difflib
import re
import shlex
from typing import Any

from pydantic import ValidationError

from pipelines.section import ConfigError

_FLAGS = {"labels": "label"}
_KEYS = "format|columns|delimiter|language|labels|unlabelled|encoding|fold|min_subject|max_subject|max_object|stop"
_TICKED = re.compile(f"`(?P<key>{_KEYS})(?:: (?P<value>[^`]*))?`")
_AHEAD = re.compile(rf"^(?P<field>FILES: )?(?P<key>{_KEYS})(?:\.\w+)?: ")


def flag(key: str) -> str:
    """`min_subject` as `--min-subject`."""
    return "--" + _FLAGS.get(key, key).replace("_", "-")


def as_flags(message: str) -> str:
    """A message about keys of a config, in the words of the command line."""
    message = _AHEAD.sub(lambda found: f"{found['field'] or ''}{flag(found['key'])}: ", message)
    return _TICKED.sub(lambda found: " ".join([flag(found["key"]), *_words(found["value"])]), message)


def _words(value: str | None) -> list[str]:
    """A value of YAML as one word of a command line; that of `columns` as `role=column,role=column`."""
    if value is None:
        return []
    if value.startswith("{"):
        value = re.sub(r"(\w+): ", r"\1=", value.strip("{}")).replace(", ", ",")
        return [value if re.fullmatch(r"[\w=,.\-]+", value) else shlex.quote(value)]
    return [value]


def _near(error: Any) -> str:
    """The allowed word that looks most like the one that was found."""
    if error["type"] != "literal_error":
        return ""
    allowed = re.findall(r"'([^']*)'", error["ctx"]["expected"])
    near = difflib.get_close_matches(str(error["input"]), allowed, n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


def columns(given: str | None) -> dict[str, int | str] | None:
    """`subject=1,object=name` as roles and columns. Raises ConfigError."""
    if given is None:
        return None
    found: dict[str, int | str] = {}
    for part in given.split(","):
        role, equals, column = (word.strip() for word in part.partition("="))
        if not equals or not role or not column or role in found:
            raise ConfigError(
                f"--columns: expected role=column, as in subject=1,predicate=2,object=3; found {part!r}"
            )
        if column.isdecimal() and len(column) > 9:
            raise ConfigError(f"--columns: {role}: no file has that many columns; found {column[:20]}...")
        found[role] = int(column) if column.isdecimal() else column
    return found


def build_config(given: dict[str, Any]) -> Any:
    """Flags as a checked `build` section. Raises ConfigError that names the flag."""
    from pipelines.graph_config import BuildConfig

    try:
        return BuildConfig.model_validate(given)
    except ValidationError as error:
        lines = []
        for item in error.errors():
            message = as_flags(item["msg"].removeprefix("Value error, "))
            found = "" if item["type"] == "value_error" else f", found {item['input']!r}"
            found += _near(item)
            lines.append(f"{flag(str(item['loc'][0]))}: {message}{found}" if item["loc"] else message)
        raise ConfigError("\n".join(lines)) from None
