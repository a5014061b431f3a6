"""The plan: which byte ranges of which files make up each block.

Blocks follow from the config, the files' names and their sizes alone, so every machine and every
runner plans the same. Files of lines or of pages larger than a block are cut into even ranges; smaller
files are packed together; a file that cannot be entered in its middle (compressed, CSV with its
quoted newlines, a document per file) stays whole. A record belongs to the range that holds its
first byte, see `corpora.readers.lines` and `corpora.readers.wikidump`; the rows of a table come in groups, which
do (`corpora.readers.tablefiles`), and tables are cut where these begin. Of parallel files the line ends count, too
(`corpora.parallel`).
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator

from corpora import files
from corpora.blocks import Block, Part
from corpora.layout import InputConfig
from corpora.parallel import cut_pair, find_targets
from corpora.readers.columns import find_columns
from corpora.readers.jsonarray import is_array
from corpora.tableplan import TABLES, cut_table, expand_dataset, find_cuts

MIN_BLOCK_BYTES, MAX_BLOCK_BYTES = 2**20, 8 * 2**20
_SPLITTABLE = ("text", "jsonl", "tsv", "conll", "conllu", "wikipedia")
Targets = dict[str, tuple[str, files.FileInfo]]
"""Path of a source file to path and facts of its target file."""
COMPRESSED_WEIGHT = 4
"""Text compresses about four times: a packed compressed file counts for that much of a block."""


def plan_blocks(layout: InputConfig, config_dir: str, block_bytes: int | None = None) -> list[Block]:
    """Cut the files of `layout` into blocks of about `block_bytes` stored bytes.

    By default a block is a 64th of the corpus, but within 1 and 8 MiB: a small corpus still keeps
    several workers busy, and a large one is not cut into crumbs.

    Splits come in the config's order, files in the order of their patterns and then of their paths.
    A split whose files are all empty is one block without records. Relative patterns count
    from `config_dir`.

    Raises:
        FileNotFoundError, IsADirectoryError, ValueError: from `files.expand`, or a file that two
            patterns of one split name.
        ColumnError: a TSV or CSV file or a table lacks a column; every header is read here, before any work.
        CorruptFileError: a table is damaged.
        PairError: source and target files do not belong together.
    """
    if block_bytes is not None and block_bytes < 1:
        raise ValueError(f"block_bytes must be at least 1, found {block_bytes}")
    listings = {
        split: _list(layout, split, patterns, config_dir) for split, patterns in layout.sources.items()
    }
    if layout.format in ("tsv", "csv"):
        for split, listed in listings.items():
            for path, info in listed:
                find_columns(path, info.path, layout, may_lack_label=layout.may_lack_label(split))
    cuts: dict[str, list[int]] = {}
    if layout.format in TABLES:
        for split, listed in listings.items():
            for path, info in listed:
                may = layout.may_lack_label(split)
                cuts[path] = find_cuts(path, info.path, layout, may_lack_label=may)
    targets: Targets = {}
    if layout.format == "parallel":
        for listed in listings.values():
            targets |= find_targets(listed, layout.suffixes, config_dir)
    if block_bytes is None:
        total = sum(info.size for listed in listings.values() for _, info in listed)
        total += sum(info.size for _, info in targets.values())
        block_bytes = min(max(total // 64, MIN_BLOCK_BYTES), MAX_BLOCK_BYTES)
    blocks = []
    for split, listed in listings.items():
        groups = list(_pack(listed, layout, block_bytes, targets, cuts))
        for index, (parts, size) in enumerate(groups):
            blocks.append(Block(split, index, len(groups), parts, size))
    return blocks


def is_splittable(layout: InputConfig, path: str) -> bool:
    """Whether records of the file can be found from any byte of it."""
    if files.is_compressed(path) or layout.format not in _SPLITTABLE:
        return False
    return layout.format not in ("text", "conllu") or layout.document not in ("file", "newdoc")


def _list(
    layout: InputConfig, split: str, patterns: list[str], config_dir: str
) -> list[tuple[str, files.FileInfo]]:
    listed: list[tuple[str, files.FileInfo]] = []
    seen: dict[str, str] = {}
    for pattern in patterns:
        if layout.format == "dataset":
            found = expand_dataset(pattern, split, config_dir)
        else:
            found = files.expand(pattern, config_dir)
        for info in found:
            path = files.join(config_dir, info.path)
            key = path if files.is_uri(path) else os.path.abspath(path)  # noqa: PTH100
            if key in seen:
                raise ValueError(
                    f"input.files.{split}: {info.path!r} is named by {seen[key]!r} and by {pattern!r}; "
                    "its records would stand in the split twice"
                )
            seen[key] = pattern
            listed.append((path, info))
    return listed


def _pack(
    listed: list[tuple[str, files.FileInfo]],
    layout: InputConfig,
    block_bytes: int,
    targets: Targets,
    cuts: dict[str, list[int]],
) -> Iterator[tuple[tuple[Part, ...], int]]:
    parts: list[Part] = []
    size = weight = 0
    any_yet = False
    for path, info in listed:
        if path in targets:
            pieces = cut_pair(path, info, targets[path], block_bytes)
        elif path in cuts:
            pieces = cut_table(path, info, cuts[path], block_bytes)
        else:
            pieces = _cut(path, info, layout, block_bytes)
        own_size = sum(size for _, size in pieces)
        if not own_size:
            continue
        own_weight = own_size * (COMPRESSED_WEIGHT if files.is_compressed(path) else 1)
        if parts and weight + own_weight > block_bytes:
            yield tuple(parts), size
            parts, size, weight = [], 0, 0
        any_yet = True
        if len(pieces) > 1:
            yield from (((part,), stored) for part, stored in pieces)
            continue
        parts.append(pieces[0][0])
        size, weight = size + own_size, weight + own_weight
    if parts or not any_yet:
        yield tuple(parts), size


def _cut(path: str, info: files.FileInfo, layout: InputConfig, block_bytes: int) -> list[tuple[Part, int]]:
    """Parts of a file with the bytes of each: several where it can be entered in its middle and is large."""
    if not is_splittable(layout, path):
        return [(Part(path, info.path, 0, None), info.size)]
    count = max(1, -(-info.size // block_bytes))
    if count > 1 and layout.format == "jsonl" and is_array(path):
        count = 1
    edges = [info.size * i // count for i in range(count + 1)]
    return [(Part(path, info.path, a, b), b - a) for a, b in itertools.pairwise(edges)]
