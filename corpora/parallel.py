"""Parallel corpora: a source and a target file, line n of the one belonging to line n of the other.

A range of the source says nothing about where its lines stand in the target, so the plan reads both files once,
counting line ends: it learns where each range begins in both, and that both have as many lines, before any
work. That costs a read of the files (1.5 to 2 GB/s where they are in the page cache, else what the disk gives; 50
million lines of 100 bytes a side are some 10 GB) and a number a range of memory. In return such a corpus is cut
into blocks like any other. Compressed files cannot be entered in their middle: each pair of them is one block, read
as a stream, and that its lines are as many on both sides is known when it has been read; cut large ones.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath

import numpy as np

from corpora import files
from corpora.blocks import Part

CHUNK = 1 << 20


class PairError(ValueError):
    """Source and target do not belong together."""


def target_of(name: str, suffixes: tuple[str, str]) -> str:
    """Name of the target file of the source file `name`; both may end in `.gz`, `.bz2` or `.zst` besides.

    Raises PairError for a name that does not end as sources do.
    """
    packed = PurePosixPath(name).suffix if files.is_compressed(name) else ""
    plain = name.removesuffix(packed)
    if plain.endswith(suffixes[0]):
        return plain.removesuffix(suffixes[0]) + suffixes[1] + packed
    what = "is a target file" if plain.endswith(suffixes[1]) else "does not end so"
    raise PairError(
        f"`files` names the source files, which end in {suffixes[0]!r} (input.suffixes), and {name!r} {what}; "
        f"write a pattern such as '*{suffixes[0]}{packed}'"
    )


def find_targets(
    listed: Iterable[tuple[str, files.FileInfo]], suffixes: tuple[str, str], config_dir: str
) -> dict[str, tuple[str, files.FileInfo]]:
    """Path and facts of the target file of every source file, by the source's path.

    Raises PairError, or FileNotFoundError for a target that is not there.
    """
    found = {}
    for path, info in listed:
        name = target_of(info.path, suffixes)
        full = files.join(config_dir, name)
        if not files.exists(full):
            raise FileNotFoundError(
                errno.ENOENT, f"{info.path!r} has no target file: expected {name!r} (input.suffixes)"
            )
        ((target),) = files.expand(name, config_dir)
        found[path] = (full, target)
    return found


def cut_pair(
    path: str, info: files.FileInfo, target: tuple[str, files.FileInfo], block_bytes: int
) -> list[tuple[Part, int]]:
    """Ranges of the source with those of the target, and the stored bytes of both; none for two empty files.

    Raises PairError where the files have different numbers of lines; of compressed files the reader does.
    """
    target_path, target_info = target
    size = info.size + target_info.size
    if files.is_compressed(path):
        pair = Part(target_path, target_info.path, 0, None)
        return [(Part(path, info.path, 0, None, pair=pair), size)] if size else []
    count = max(1, -(-size // block_bytes))
    marks, lines = _starts_of_ranges(path, [info.size * i // count for i in range(1, count)])
    places, target_lines = _starts_of_lines(target_path, [line for _, line in marks])
    if lines != target_lines:
        raise unequal(info.path, lines, target_info.path, target_lines)
    if not lines:
        return []
    edges = [0, *(byte for byte, _ in marks), info.size]
    target_edges = [0, *places, target_info.size]
    cuts = []
    for i in range(len(edges) - 1):
        pair = Part(target_path, target_info.path, target_edges[i], target_edges[i + 1])
        part = Part(path, info.path, edges[i], edges[i + 1], pair=pair)
        cuts.append((part, edges[i + 1] - edges[i] + target_edges[i + 1] - target_edges[i]))
    return cuts


def unequal(name: str, lines: int, target_name: str, target_lines: int) -> PairError:
    """Both files and both counts."""
    return PairError(
        f"{name} has {lines:,} lines but {target_name} has {target_lines:,}; line n of the one must belong to line n "
        "of the other. Only LF and CRLF end a line; find where the files part, and make them equal"
    )


def _starts_of_ranges(path: str, edges: Sequence[int]) -> tuple[list[tuple[int, int]], int]:
    """First line that starts at or past each edge: its byte, and the lines before it; and how many lines there are.

    Edges between which no line starts, and past which none does, have no range of their own.
    """
    marks: list[tuple[int, int]] = []
    waiting = list(reversed(edges))
    lines = at = 0
    data = b"\n"
    with files.open_read(path) as file:
        while chunk := file.read(CHUNK):
            data, counted = chunk, 0
            while waiting and (cut := data.find(b"\n", max(waiting[-1] - 1 - at, 0))) >= 0:
                lines += data.count(b"\n", counted, cut + 1)
                counted = cut + 1
                while waiting and waiting[-1] <= at + cut + 1:
                    waiting.pop()
                marks.append((at + cut + 1, lines))
            lines += data.count(b"\n", counted)
            at += len(data)
    if marks and marks[-1][0] == at:
        marks.pop()
    return marks, lines + (not data.endswith(b"\n"))


def _starts_of_lines(path: str, numbers: Sequence[int]) -> tuple[list[int], int]:
    """Byte of the line that so many lines come before, for rising `numbers`; and how many lines there are."""
    places: list[int] = []
    waiting = list(reversed(numbers))
    lines = at = 0
    data = b"\n"
    with files.open_read(path) as file:
        while chunk := file.read(CHUNK):
            data = chunk
            count = data.count(b"\n")
            if waiting and waiting[-1] <= lines + count:
                ends = np.flatnonzero(np.frombuffer(data, np.uint8) == ord("\n"))
                while waiting and waiting[-1] <= lines + count:
                    places.append(at + int(ends[waiting.pop() - lines - 1]) + 1)
            lines += count
            at += len(data)
    return places, lines + (not data.endswith(b"\n"))
