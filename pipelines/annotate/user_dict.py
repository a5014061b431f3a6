"""Words that a user adds to the dictionary of a Chinese segmenter."""

from __future__ import annotations

import re

from corpora import files
from pipelines.config import ConfigError

# jieba's own part-of-speech tags: the only letters taken for a tag where no count stands before them.
_TAG = re.compile(
    "a[dgn]?|b|c|d[fg]?|e|eng|f|g|h|i|j|k|l|m[gq]?|n[grstz]?|nrfg|nrt|o|p|q|r[grz]?|s|tg?|u[dgjlvz]?|v[dginq]?|[xyz]|zg"
)
_PARTS = re.compile(r"[ \t]")
_COUNTED = re.compile(r"(?P<word>.*\S)[ \t]+(?P<count>[0-9]+)(?:[ \t]+[A-Za-z]+)?")
_TAGGED = re.compile(r"(?P<word>.*\S)[ \t]+(?P<tag>[a-z]+)")


def read_user_dict(path: str) -> list[tuple[str, int | None]]:
    """Words of a jieba user dictionary with their counts (None: not given).

    A line is `word`, `word count`, `word tag` or `word count tag`, separated by spaces or TABs; the
    word itself may hold spaces. UTF-8 with or without a byte order mark, LF or CRLF, blank lines
    skipped. Raises ConfigError that names the line for another encoding or a count of 0.
    """
    entries: list[tuple[str, int | None]] = []
    for number, raw in enumerate(user_dict_bytes(path).split(b"\n"), 1):
        where = f"annotate.user_dict {path}, line {number}"
        try:
            line = raw.decode("utf-8-sig" if number == 1 else "utf-8").strip()
        except UnicodeDecodeError as error:
            raise ConfigError(
                f"{where}: expected UTF-8, found the byte 0x{raw[error.start]:02x}; "
                "convert the file (iconv -f GBK -t UTF-8)"
            ) from None
        if not line:
            continue
        if not _PARTS.search(line):
            entries.append((line, None))
        elif match := _COUNTED.fullmatch(line):
            count = int(match["count"])
            if count == 0:
                raise ConfigError(f"{where}: expected a count of 1 or more, found 0; leave the word out")
            entries.append((match["word"], count))
        elif (match := _TAGGED.fullmatch(line)) and _TAG.fullmatch(match["tag"]):
            entries.append((match["word"], None))
        else:
            entries.append((line, None))
    return entries


def user_dict_bytes(path: str) -> bytes:
    try:
        return files.read_bytes(path)
    except OSError as error:
        raise ConfigError(f"annotate.user_dict: {path} cannot be read: {error.strerror or error}") from None
