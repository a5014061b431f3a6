"""A row by its id, which need not be typed whole: the row's, its document's, or how that one begins."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.view.folder import Folder, FolderError, Place
from pipelines.view.legible import legible

_SHOWN = 3
"""Ids that a message lists."""
_COMPARED = 5_000
"""Ids, from the start, that one which is not there is compared with."""


def row_of(folder: Folder, id: str, split: str | None = None) -> tuple[Place, dict[str, Any]]:
    """The first row (or annotated document) of this id, else of the document of this id, else of the one document
    whose id begins so.

    Without `split` all are looked through. Raises FolderError, with ids that are near.
    """
    column = "doc_id" if folder.stage == "annotate" else "id"
    splits = [folder.split_of(split)] if split is not None else list(folder.shards)
    own: tuple[Place, pa.RecordBatch] | None = None
    begins: dict[str, tuple[Place, pa.RecordBatch]] = {}
    known: dict[str, None] = {}
    for name in splits:
        for place, batch in folder.placed(name):
            ids = batch.column(column)
            if (at := pc.index(ids, id).as_py()) >= 0:
                return place.later(at), batch.slice(at, 1).to_pylist()[0]
            if own is None and (at := pc.index(pc.starts_with(ids, f"{id}#"), True).as_py()) >= 0:
                own = place.later(at), batch.slice(at, 1)
            for at in np.flatnonzero(pc.starts_with(ids, id).to_numpy(zero_copy_only=False)).tolist():
                if len(begins) > _SHOWN:
                    break
                begins.setdefault(_document(ids[at].as_py()), (place.later(at), batch.slice(at, 1)))
            if len(known) < _COMPARED:
                known.update(dict.fromkeys(map(_document, ids.to_pylist())))
    if own is None and len(begins) == 1:
        (own,) = begins.values()
    if own is not None:
        return own[0], own[1].to_pylist()[0]
    if begins:
        raise FolderError(
            f"several ids of {folder.path} begin with '{legible(id)}': {_listed(list(begins)[:_SHOWN], ', ')}"
            f"{', ...' if len(begins) > _SHOWN else ''}; give more of one"
        )
    near = difflib.get_close_matches(_document(id), list(known)[:_COMPARED], n=_SHOWN, cutoff=0.75)
    _, first = folder.row(0, splits[0])
    hint = f"did you mean {_listed(near, ' or ')}?" if near else f"ids look like '{legible(first[column])}'"
    raise FolderError(
        f"no row of {folder.path} has the id '{legible(id)}' (looked in {', '.join(splits)}); {hint}"
    )


def _document(id: str) -> str:
    """The document that an id is of: rows are `<document>#<n>`."""
    name, _, number = id.rpartition("#")
    return name if name and number.isdecimal() else id


def _listed(ids: Sequence[str], between: str) -> str:
    return between.join(f"'{legible(id)}'" for id in ids)
