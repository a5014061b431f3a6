"""What every file of settings is: YAML whose every key is known, typed, and told of when it is wrong.

A section is a frozen pydantic model; the docstrings of its attributes are its help. `read_yaml` reads a file,
`explain` says what does not fit a section, in the keys' own words.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, field_validator
from pydantic.fields import FieldInfo

_ALTERNATIVE = re.compile(r"str|int|list\[.*\]|\[key\]")
"""A name of an alternative of a union, as pydantic has it in the place of an error."""


_OF_TUPLES = ("missing", "too_long", "tuple_type")
"""Errors of a value that is not so many values."""
_SHOWN = 20
"""Lines about one file; who has more of them has another kind of file."""
_MOST_VALUES = 100_000
"""Values that aliases may make; without any there may be more."""
_NUMBERS = {"tag:yaml.org,2002:int", "tag:yaml.org,2002:float"}
_ODD = re.compile(r"[+-]?0[0-9_]+|[+-]?[0-9][0-9_]*:[0-9_:.]+")
"""Numbers that YAML 1.1 reads to the base of 8 or 60."""


class SettingsError(ValueError):
    """A file of settings that cannot be read; the message says what is wrong, and where."""


class Section(BaseModel):
    """Typed, frozen, no key but its own."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True, allow_inf_nan=False)

    @field_validator("*", mode="before")
    @classmethod
    def _numbers(cls, value: Any, info: ValidationInfo) -> Any:
        annotation = str(cls.model_fields[str(info.field_name)].annotation)
        kinds = set(re.findall(r"\b(?:int|float|bool|str|dict|Any)\b", annotation))
        return number(value, strict=True) if kinds and kinds <= {"int", "float"} else value


def number(value: Any, strict: bool = False) -> Any:
    """A value of YAML 1.1, or what is in it, as it is meant where a number may stand: 1e-4 (no point) is a word there.

    With `strict` only a number may: raises ValueError for true and yes, which Python counts as 1.
    """
    if isinstance(value, dict):
        return {key: number(one, strict) for key, one in value.items()}
    if isinstance(value, list):
        return [number(one, strict) for one in value]
    if strict and isinstance(value, bool):
        raise ValueError(f"expected a number, found {str(value).lower()}")
    if isinstance(value, str) and re.fullmatch(r"[+-]?\d+(\.\d*)?[eE][+-]?\d+", value):
        return float(value)
    return value


MOST = 10**15
"""More than there is of anything; what is counted in 64 bits can be compared with it."""
Count = Annotated[int, Field(ge=1, le=MOST)]
Fraction = Annotated[float, Field(ge=0.0, le=1.0)]


def read_yaml(path: Path, what: str) -> dict[str, Any]:
    """The mapping that a YAML file holds; `what` the file is, for messages. Raises SettingsError."""
    import yaml

    try:
        raw = parse_yaml(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise SettingsError(f"{what} {path} does not exist") from None
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{what} {path} cannot be read: {error}") from None
    except RecursionError:
        raise SettingsError(f"{what} {path} is nested too deep") from None
    except yaml.YAMLError as error:
        raise SettingsError(f"{what} {path} is not valid YAML: {error}") from None
    if not isinstance(raw, dict):
        raise SettingsError(f"{what} {path} must be a mapping of keys to values, found {type(raw).__name__}")
    return raw


def parse_yaml(text: str) -> Any:
    """YAML without surprises: of two equal keys, plain YAML would silently keep the last; here they are an error.

    So are numbers that it reads otherwise than they look (010 is 8), and aliases of aliases that blow up to any size.

    Raises yaml.YAMLError, also for what is no value of its kind (a month 13), and RecursionError for what is nested
    too deep.
    """
    import yaml  # here, for pydantic is all that reading shards needs

    class Loader(yaml.SafeLoader):
        def get_single_node(self) -> Any:
            node = super().get_single_node()
            sizes: dict[int, int] = {}
            if node is not None and (size := _size(node, sizes)) > max(_MOST_VALUES, len(sizes)):
                raise yaml.YAMLError(f"its aliases make {size:,} values of {len(sizes):,}")
            return node

        def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
            seen: set[Any] = set()
            for key_node, _ in node.value:
                if key_node.tag == "tag:yaml.org,2002:merge" or not isinstance(key_node, yaml.ScalarNode):
                    continue
                if key_node.value in seen:
                    raise yaml.constructor.ConstructorError(
                        None,
                        None,
                        f"the key {key_node.value!r} stands twice in one mapping",
                        key_node.start_mark,
                    )
                seen.add(key_node.value)
            return super().construct_mapping(node, deep)

    try:
        return yaml.load(text, Loader=Loader)  # noqa: S506  (a SafeLoader)
    except (ValueError, LookupError, AttributeError, ArithmeticError) as error:
        raise yaml.YAMLError(f"it has a value that is none of its kind: {error}") from None


def _size(node: Any, sizes: dict[int, int]) -> int:
    """Values that a node holds once its aliases are followed; `sizes` has those of the nodes that were seen (0: of one
    that is being looked at). Raises yaml.YAMLError for one that holds itself, and for a number of `_ODD`."""
    import yaml

    if id(node) in sizes:
        if not sizes[id(node)]:
            raise yaml.YAMLError(f"an alias holds itself{node.start_mark}")
        return sizes[id(node)]
    sizes[id(node)] = 0
    size = 1
    if isinstance(node, yaml.ScalarNode):
        if node.tag in _NUMBERS and _ODD.fullmatch(node.value):
            number = yaml.safe_load(node.value)
            meant = number if ":" in node.value else int(node.value.replace("_", ""))
            raise yaml.YAMLError(
                f"{node.value} is {number} in YAML 1.1: write {meant} for the number, or '{node.value}' in quotes for "
                f"the word{node.start_mark}"
            )
    else:
        pairs = node.value if isinstance(node, yaml.MappingNode) else [(one,) for one in node.value]
        size += sum(_size(one, sizes) for pair in pairs for one in pair)
    sizes[id(node)] = size
    return size


def explain(error: ValidationError, root: type[BaseModel], written: Mapping[str, str]) -> list[str]:
    """A line for each place where settings do not fit `root`, of the first; `written` says what to write for a missing
    key."""
    found: dict[str, list[str]] = {}
    for item in error.errors():
        place = [str(part) for part in item["loc"] if not _ALTERNATIVE.fullmatch(str(part))]
        message = item["msg"].removeprefix("Value error, ")
        field = _field_at(item["loc"], root)
        if field and get_origin(field.annotation) is tuple and item["type"] in _OF_TUPLES:
            place = place[: len(place) - isinstance(item["loc"][-1], int)]
            message = (
                f"expected {len(get_args(field.annotation))} values in brackets, found {item['input']!r}"
            )
        elif item["type"] == "extra_forbidden":
            message = f"unknown key; {_hint(str(item['loc'][-1]), _keys_at(item['loc'][:-1], root), root)}"
        elif item["type"] == "missing":
            message = f"this key must be written{written.get('.'.join(place), '')}"
        elif item["type"] != "value_error":
            if item["type"] in ("model_type", "dict_type"):  # pydantic's words name a class
                needed = field is not None and field.is_required()
                cure = written.get(".".join(place), "") if needed else " (leave it out for the defaults)"
                message = f"expected keys and their values{cure}"
            message = f"{message}, found {item['input']!r}"
            choices = re.findall(r"'([^']*)'", str(item.get("ctx", {}).get("expected", "")))
            if near := difflib.get_close_matches(str(item["input"]), choices, n=1):
                message += f"; did you mean {near[0]!r}?"
        found.setdefault(".".join(place), []).append(message)
    # What concerns several sections has no place, and names its fields itself.
    lines = [
        f"  {where}{': ' * bool(where)}{'; or: '.join(dict.fromkeys(messages))}"
        for where, messages in found.items()
    ]
    more = [f"  ... and {len(lines) - _SHOWN:,} more"] if len(lines) > _SHOWN else []
    return lines[:_SHOWN] + more


def section_of(annotation: Any) -> type[BaseModel] | None:
    """The section that a field of this annotation holds, if it does."""
    options = getattr(annotation, "__args__", (annotation,))
    return next((o for o in options if isinstance(o, type) and issubclass(o, BaseModel)), None)


def reference(section: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, str, str]]:
    """Every key of a section: dotted name, default as YAML (`required` where there is none), meaning."""
    for name, field in section.model_fields.items():
        if (inner := section_of(field.annotation)) and get_origin(field.annotation) is not list:
            yield from reference(inner, f"{prefix}{name}.")
            continue
        default = (
            "required" if field.is_required() else "" if field.default is None else _as_yaml(field.default)
        )
        annotation = str(field.annotation)
        # Not the keys of a mapping.
        choices = (
            re.findall(r"'(\w+)'", annotation) if "Literal" in annotation and "dict" not in annotation else []
        )
        meaning = " ".join((field.description or "").split())
        yield f"{prefix}{name}", default, meaning + (f" One of {', '.join(choices)}." if choices else "")


def as_markdown(section: type[BaseModel]) -> str:
    """The same as a table in Markdown."""
    lines = ["| key | default | meaning |", "|---|---|---|"]
    for key, default, meaning in reference(section):
        shown = default if default == "required" else f"`{default}`" if default else ""
        lines.append(f"| `{key}` | {shown} | {meaning.replace('|', chr(92) + '|')} |")
    return "\n".join(lines)


def as_table(section: type[BaseModel]) -> Any:
    """The same as a `rich.table.Table`."""
    from rich.table import Table
    from rich.text import Text

    table = Table("key", "default", "meaning", show_lines=False)
    for key, default, meaning in reference(section):
        table.add_row(Text(key, "bold"), Text(default), Text(meaning))
    return table


def _as_yaml(value: Any) -> str:
    import yaml

    return yaml.safe_dump(value, default_flow_style=True).removesuffix("\n").removesuffix("\n...")


def _hint(key: str, known: list[str], root: type[BaseModel]) -> str:
    """Where a key of another section belongs (the outermost that has it), and which of this section was meant."""
    elsewhere = [name for name in _all_keys(root) if name.rpartition(".")[2] == key]
    outermost = min((name.count(".") for name in elsewhere), default=0)
    meant = [name for name in elsewhere if name.count(".") == outermost]
    meant += difflib.get_close_matches(key, known, n=1)
    return (
        f"did you mean {' or '.join(map(repr, meant))}?"
        if meant
        else f"known keys: {', '.join(sorted(known))}"
    )


def _all_keys(section: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """Dotted names of all keys, those of sections too, but not of lists of sections."""
    for name, field in section.model_fields.items():
        yield prefix + name
        if (inner := section_of(field.annotation)) and get_origin(field.annotation) is not list:
            yield from _all_keys(inner, f"{prefix}{name}.")


def _field_at(location: tuple[int | str, ...], root: type[BaseModel]) -> FieldInfo | None:
    """The field that an error's place is in; None: it is in none, or has parts that are no fields."""
    section: type[BaseModel] | None = root
    field = None
    for part in (p for p in location if not isinstance(p, int)):
        if section is None or part not in section.model_fields:
            return None
        field = section.model_fields[part]
        section = section_of(field.annotation)
    return field


def _keys_at(location: tuple[int | str, ...], root: type[BaseModel]) -> list[str]:
    section = root
    for part in (p for p in location if not isinstance(p, int)):
        section = section_of(section.model_fields[str(part)].annotation) or root
    return list(section.model_fields)
