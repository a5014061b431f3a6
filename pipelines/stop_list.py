"""Stop lists: subjects or words that a config lists, or a file that holds one a line."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from corpora import files
from pipelines.config import resolve
from pipelines.section import ConfigError

MAX_BYTES = 64 * 2**20
"""Size of a stop list."""


def stop_list(
    value: Sequence[str] | str, config_path: str, field: str, what: str = "subject"
) -> frozenset[str]:
    """What `value` lists, trimmed, without empty ones; `field` and `what` an entry is stand in errors.

    A string names a file, against the config's folder: UTF-8, an entry a line, blank lines mean nothing.
    Raises ConfigError where it cannot be read, is no regular file, or has more than MAX_BYTES.
    """
    if isinstance(value, str):
        path = resolve(config_path, value) if config_path else value
        try:
            text = _read(path, field, what).decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line = error.object.count(b"\n", 0, error.start) + 1
            raise ConfigError(f"{field}: line {line} of {path} is not UTF-8") from None
        except OSError as error:
            raise ConfigError(
                f"{field}: {path} cannot be read ({error.strerror or error}); name a file with a {what} a line, "
                f"or list {what}s as [one, another]"
            ) from None
        value = text.split("\n")
    return frozenset(entry for line in value if (entry := line.strip()))


def _read(path: str, field: str, what: str) -> bytes:
    if files.is_uri(path) or Path(path).exists():  # a name is no pattern, though it may look like one
        try:
            (info,) = files.expand(path)
        except ValueError as error:
            raise ConfigError(f"{field}: {error}; name a file with a {what} a line") from None
        if info.size > MAX_BYTES:
            raise ConfigError(
                f"{field}: {path} has {info.size:,} bytes, at most {MAX_BYTES:,}; a stop list names the {what}s "
                "to pass over, one a line"
            )
    return files.read_bytes(path)
