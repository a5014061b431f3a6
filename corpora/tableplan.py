"""What the plan needs to know of tables: the files of a saved dataset, their columns, and where they can be cut.

`datasets.save_to_disk` writes a folder for each split, `state.json` beside its `data-*.arrow` files, and
`dataset_dict.json` around several. A pattern may name a split's folder or the one around them, of which the
split of the config's own name is then taken; which ones no split takes is told (`splits_left_out`).
"""

from __future__ import annotations

import errno
import glob
import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from corpora import files
from corpora.blocks import Part
from corpora.layout import InputConfig
from corpora.readers.tablecolumns import find_table_columns
from corpora.readers.tablefiles import TableFile

TABLES = ("parquet", "arrow", "dataset")
_STATE, _DICT = "state.json", "dataset_dict.json"


def expand_dataset(pattern: str, split: str, root: str) -> list[files.FileInfo]:
    """The Arrow files that a pattern names, in the order in which the dataset has them.

    Paths come back as `files.expand` gives them: relative to `root` where the pattern is. A pattern of such Arrow
    files is taken as it is.

    Raises:
        FileNotFoundError: nothing matches, or a file of the dataset is missing.
        ValueError: what matches is no saved dataset, lacks the split, or was saved in a way that cannot be read.
    """
    folders = _folders(pattern, root)
    if not folders:
        found = files.expand(pattern, root)
        if others := [info.path for info in found if not info.path.endswith(".arrow")]:
            raise ValueError(
                f"input.files.{split}: {others[0]!r} is a file; `format: dataset` is for folders that "
                "`save_to_disk` wrote. Name such a folder, or the format that the file has"
            )
        return found
    return [info for folder in folders for info in _data_files(_split_folder(folder, split, root), root)]


def splits_left_out(layout: InputConfig, root: str) -> dict[str, list[str]]:
    """Of each folder around several splits that the config names: those that none of the config's splits takes.

    Raises:
        ValueError: a folder lacks a split, or is damaged.
    """
    taken: set[str] = set()
    around: dict[str, list[str]] = {}
    for split, patterns in layout.files.items():
        for folder in itertools.chain.from_iterable(_folders(pattern, root) for pattern in patterns):
            own = _split_folder(folder, split, root)
            taken.add(own)
            if own != folder:
                around[folder] = _splits(folder, root) or []
    left = {f: [s for s in splits if files.join(f, s) not in taken] for f, splits in around.items()}
    return {folder: splits for folder, splits in left.items() if splits}


def _folders(pattern: str, root: str) -> list[str]:
    if files.is_uri(pattern):
        return [pattern] if any(files.exists(files.join(pattern, n)) for n in (_STATE, _DICT)) else []
    if Path(files.join(root, pattern)).exists():
        names = [pattern]
    else:
        names = sorted(glob.glob(pattern, root_dir=root or None, recursive=True))  # noqa: PTH207
    return [name.rstrip("/") or name for name in names if Path(files.join(root, name)).is_dir()]


def _splits(folder: str, root: str) -> list[str] | None:
    """Names of the splits in a folder around several; None for another folder."""
    if not files.exists(files.join(root, files.join(folder, _DICT))):
        return None
    splits = _read(files.join(folder, _DICT), root).get("splits")
    if not isinstance(splits, list) or not all(isinstance(s, str) for s in splits):
        raise ValueError(
            f"{files.join(folder, _DICT)}: expected a list of names in `splits`, found {splits!r}"
        )
    return splits


def _split_folder(folder: str, split: str, root: str) -> str:
    splits = _splits(folder, root)
    if splits is None:
        return folder
    if split not in splits:
        raise ValueError(
            f"input.files.{split}: the dataset {folder!r} has the splits {', '.join(map(repr, splits))}, not "
            f"{split!r}; name a split's own folder, such as {files.join(folder, splits[0]) if splits else folder!r}"
        )
    return files.join(folder, split)


def _data_files(folder: str, root: str) -> Iterator[files.FileInfo]:
    """The files of one split's folder, found by their very names."""
    where = files.join(folder, _STATE)
    if not files.exists(files.join(root, where)):
        raise ValueError(
            f"{folder!r} is not a dataset that `save_to_disk` wrote: it has no {_STATE}. Folders of Parquet, Arrow "
            "or JSON files are named by their files, such as "
            f"{folder + '/*.parquet'!r}, with `format: parquet`, `arrow` or `jsonl`"
        )
    state = _read(where, root)
    if state.get("_indices_data_files"):
        raise ValueError(
            f"{where}: the dataset was saved with a selection of its rows beside them, as old releases did; "
            "load and save it again with a current one"
        )
    listed = state.get("_data_files")
    names: list[Any] = (
        [f.get("filename") for f in listed if isinstance(f, dict)] if isinstance(listed, list) else [None]
    )
    for name in names:
        if (
            not isinstance(name, str)
            or name in ("", ".", "..")
            or "/" in name
            or "\\" in name
            or "\0" in name
        ):
            raise ValueError(f"{where}: expected names of files in `_data_files`, found {name!r}")
        try:
            yield from files.expand(glob.escape(files.join(folder, name)), root)
        except FileNotFoundError:
            raise FileNotFoundError(
                errno.ENOENT, f"{where} lists {name!r}, but there is no such file beside it"
            ) from None


def _read(name: str, root: str) -> dict[str, Any]:
    try:
        body = json.loads(files.read_bytes(files.join(root, name)))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{name} is not JSON: {error}") from None
    if not isinstance(body, dict):
        raise ValueError(f"{name} must hold an object")
    return body


def find_cuts(path: str, name: str, layout: InputConfig, *, may_lack_label: bool) -> list[int]:
    """Bytes at which a table can be cut: where its groups of rows begin, which are checked for their columns.

    Arrow files elsewhere than on this machine's disks are not cut: finding their batches would take many reads.

    Raises:
        ColumnError, CorruptTableError, ValueError, OSError: as `tablefiles` and `tablecolumns` say.
    """
    with TableFile(path, name, parquet=layout.format == "parquet") as file:
        with file.damage(0):
            find_table_columns(file.schema, name, layout, may_lack_label=may_lack_label)
        if files.is_uri(path) and layout.format != "parquet":
            return []
        return [group.start for group in file.groups]


def cut_table(path: str, info: files.FileInfo, cuts: list[int], block_bytes: int) -> list[tuple[Part, int]]:
    """Parts of a table with the bytes of each: even ranges, but none without rows unless the file has none."""
    return list(_parts(path, info, cuts, max(1, -(-info.size // block_bytes))))


def _parts(path: str, info: files.FileInfo, cuts: list[int], count: int) -> Iterator[tuple[Part, int]]:
    edges, at = [0], 0
    for i in range(1, count):
        while at < len(cuts) and cuts[at] < info.size * i // count:
            at += 1
        if at and at < len(cuts) and cuts[at] > edges[-1]:
            edges.append(cuts[at])
    for start, stop in itertools.pairwise([*edges, info.size]):
        yield Part(path, info.path, start, stop), stop - start
