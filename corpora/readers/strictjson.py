"""JSON to the letter, as every reader of JSON decodes it.

Duplicate keys, NaN and infinities are errors, since whichever value one would take could be the wrong one;
lone surrogates are, where a value is used. Control characters may stand raw in strings, as corpora have them.
"""

from __future__ import annotations

import json
from operator import itemgetter
from typing import Any, NoReturn

from corpora.readers.sink import FieldError


def strict_decoder() -> json.JSONDecoder:
    """A decoder that raises FieldError `duplicate_key` or `bad_json` for what JSON does not have."""
    return json.JSONDecoder(object_pairs_hook=_object, parse_constant=_constant, strict=False)


def not_json(error: ValueError | RecursionError) -> FieldError:
    """FieldError `bad_json` for what a decoder raised."""
    if isinstance(error, json.JSONDecodeError):
        return FieldError("bad_json", f"{what_is_wrong(error)} at character {error.pos + 1}")
    if isinstance(error, RecursionError):
        return FieldError("bad_json", "nested too deep")
    return FieldError("bad_json", str(error))  # an integer of thousands of digits


def what_is_wrong(error: json.JSONDecodeError) -> str:
    """What the decoder found, for a place to be put behind: some of its messages end in `at` for that."""
    return error.msg.removesuffix(" at")


def no_surrogates(value: Any) -> None:
    """FieldError `bad_unicode` if a string, or one in a list or object at any depth, holds a lone surrogate."""
    waiting = [value]
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            try:
                value.encode()
            except UnicodeEncodeError as error:
                code = ord(value[error.start])
                raise FieldError("bad_unicode", f"a string holds the lone surrogate \\u{code:04x}") from None
        elif isinstance(value, list):
            waiting.extend(value)
        elif isinstance(value, dict):
            waiting.extend(value.values())


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key in map(itemgetter(0), pairs) if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise duplicate_key(twice)
    return record


def duplicate_key(key: str) -> FieldError:
    """FieldError `duplicate_key`."""
    return FieldError("duplicate_key", f"the key {key!r} stands twice in one object")


def _constant(name: str) -> NoReturn:
    raise FieldError("bad_json", f"{name} is not JSON")
