"""What tells one run from another, in lines that somebody can act on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from corpora import sections
from pipelines.config import reference

_SHOWN = 12
_NAMED = 3
_LONGEST = 60
_SAID_BY = {"parser": "annotate.parser", "segmenter": "annotate.user_dict"}
"""Tools that differ because a setting does: the setting alone is shown."""


@dataclass(frozen=True)
class Facts:
    """What shapes a stage's output, as a manifest records it. What was not recorded is empty."""

    settings: Mapping[str, Any] = field(default_factory=dict)
    identities: Mapping[str, Any] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    inputs: Sequence[Mapping[str, Any]] = ()


def differences(old: Facts, new: Facts, *, every_tool: bool = False) -> list[str]:
    """A line for everything that differs, as `graph.rank: 'shortest' -> 'file'`; what either side lacks is
    passed over, because another release may not have recorded it. A section that is wholly new or gone is one line;
    settings that now are the default come last, where a long list is cut.

    `every_tool`: both sides name all their tools, so that what only one has is a line: `model: none -> a.arpa`.
    """
    lines, defaults = _settings(old, new) if old.settings and new.settings else ([], [])
    named = {line.partition(":")[0] for line in [*lines, *defaults]}
    lines += [
        f"{tool}: {_tool(old.identities[tool], new.identities[tool])}"
        for tool in sorted(old.identities.keys() & new.identities.keys())
        if old.identities[tool] != new.identities[tool] and _SAID_BY.get(tool) not in named
    ]
    if every_tool:
        lone = sorted(old.identities.keys() ^ new.identities.keys())
        lines = [line for line in lines if line.partition(":")[0] not in lone]  # a section of the same name
        lines += [
            f"{tool}: {_name(old.identities.get(tool))} -> {_name(new.identities.get(tool))}" for tool in lone
        ]
    lines += _inputs(old.inputs, new.inputs)
    lines += defaults
    if not lines:  # packages change without changing a byte: they explain only what nothing else does
        lines += [
            f"version of {package}: {old.versions[package]} -> {new.versions[package]}"
            for package in sorted(old.versions.keys() & new.versions.keys())
            if old.versions[package] != new.versions[package]
        ]
    return lines


def listed(lines: Sequence[str]) -> str:
    """The lines indented, each behind a line end; of many the first ones and a count, of none what that means."""
    lines = lines or ["nothing that a config says: another release of treegraft made it"]
    more = [f"and {len(lines) - _SHOWN} more"] if len(lines) > _SHOWN else []
    return "".join(f"\n  {line}" for line in [*lines[:_SHOWN], *more])


def _settings(old: Facts, new: Facts) -> tuple[list[str], list[str]]:
    """Lines of the settings that differ: sections and values of the user's own, and values that are the default."""
    own: dict[str, None] = {}  # a line once, in order
    defaults = []
    for key in sorted(old.settings.keys() | new.settings.keys()):
        before, after = old.settings.get(key), new.settings.get(key)
        if before == after:
            continue
        line = f"{key}: {_change(before, after)}"
        if section := _lone_section(key, old.settings, new.settings):
            own[f"{section}: {_whole(section, old)} -> {_whole(section, new)}"] = None
        elif key in _defaults() and after == _defaults()[key]:
            defaults.append(line)
        else:
            own[line] = None
    return list(own), defaults


def _lone_section(key: str, *sides: Iterable[str]) -> str | None:
    """The outermost section of `key` of which one side has no key at all."""
    parts = key.split(".")
    for depth in range(1, len(parts)):
        section = ".".join(parts[:depth])
        if not all(any(other.startswith(f"{section}.") for other in side) for side in sides):
            return section
    return None


def _whole(section: str, facts: Facts) -> str:
    """A section in a few words: of what is behind it the name or the size, where that is recorded."""
    if not any(key.startswith(f"{section}.") for key in facts.settings):
        return "not set"
    tool = facts.identities.get(section)
    if isinstance(tool, Mapping) and "triples" in tool:  # a graph, which has no name
        return f"{tool['triples']:,} triples"
    return "set"


@cache
def _defaults() -> dict[str, Any]:
    """By dotted key of a config."""
    return {key: sections.parse_yaml(default) for key, default, _ in reference() if default != "required"}


def _change(before: Any, after: Any) -> str:
    if isinstance(before, list) and isinstance(after, list):
        gone = [item for item in before if item not in set(after)]
        come = [item for item in after if item not in set(before)]
        said = [f"{word} {_some(items)}" for word, items in (("without", gone), ("with", come)) if items]
        if said:
            return ", ".join(said)
    return f"{_value(before)} -> {_value(after)}"


def _some(items: Sequence[Any]) -> str:
    more = f" and {len(items) - _NAMED} more" if len(items) > _NAMED else ""
    return ", ".join(map(_value, items[:_NAMED])) + more


def _value(value: Any) -> str:
    if value is None:
        return "not set"
    shown = str(value).lower() if isinstance(value, bool) else repr(value)
    return shown if len(shown) <= _LONGEST else shown[:_LONGEST] + "..."


def _tool(before: Any, after: Any) -> str:
    if not (isinstance(before, Mapping) and isinstance(after, Mapping)):
        return f"{_value(before)} -> {_value(after)}"
    named = before.get("name") != after.get("name")
    keys = ["name", "version"] if named else ["version", "sha256"]
    keys = [key for key in keys if named or before.get(key) != after.get(key)]
    return " -> ".join(" ".join(_short(key, facts.get(key)) for key in keys) for facts in (before, after))


def _name(tool: Any) -> str:
    """`tool`: None where there is none."""
    return "none" if tool is None else str(tool.get("name")) if isinstance(tool, Mapping) else _value(tool)


def _short(key: str, value: Any) -> str:
    return f"{str(value)[:8]}.." if key == "sha256" else str(value or "").strip()


def _inputs(old: Sequence[Mapping[str, Any]], new: Sequence[Mapping[str, Any]]) -> list[str]:
    if not old or not new:
        return []
    before, after = ({str(item.get("path")): item for item in side} for side in (old, new))
    lines = [f"input {path}: no longer there" for path in before if path not in after]
    lines += [f"input {path}: new" for path in after if path not in before]
    for path, item in before.items():
        now = after.get(path, item)
        if item.get("size") != now.get("size"):
            lines.append(f"input {path}: {item.get('size'):,} bytes -> {now.get('size'):,} bytes")
        elif item != now:
            lines.append(f"input {path}: other content")
    if not lines and list(before) != list(after):
        lines.append("the inputs stand in another order")
    return lines
