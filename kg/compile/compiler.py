"""Compile files of triples into a graph folder (`kg.store`): read, clean, fold, number, write.

Cleaning, in this order; a triple that is left out is counted under the first reason that it meets:

| reason | what is left out |
|---|---|
| `subject_too_short`, `subject_too_long`, `object_too_long` | by characters, as written |
| `subject_stopped` | the subject is on the stop list, compared after folding |
| `self_triple` | subject and object are the same after folding |
| `duplicate` | an earlier triple has the same predicate, object and, after folding, subject |

Subjects that are the same after folding become one subject; predicates and objects stay as written.

Strings become numbers as blocks of lines come in (`kg.compile.gather`), everything after that is sorting of
integers. Ten million triples of three million subjects take 40 to 60 seconds of one core and
1.7 GB of memory.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kg import store, strings
from kg.compile.clean import Kept, clean
from kg.compile.gather import Limits, Rows, gather
from kg.compile.nothing import nothing_left
from kg.compile.number import number
from kg.errors import GraphError
from kg.match import automaton, fold
from kg.match.fold import Folding
from kg.read import OnReject, OpenBinary, ReadCounts, ReadOptions, open_local

_HASH_ROWS = 1 << 16
MAX_SUBJECT = 4096


@dataclass(frozen=True)
class BuildOptions:
    """How a graph is built. Raises GraphError naming the field, what it expects and what it found."""

    read: ReadOptions = field(default_factory=ReadOptions)
    fold: tuple[str, ...] = ()
    """Some of `nfkc`, `case`, `simplified`: `kg.match.fold`."""
    min_subject: int = 1
    max_subject: int = 256
    max_object: int = 4096
    """In characters, as written."""
    stop: frozenset[str] = frozenset()
    """Subjects to leave out, whatever their form after folding is."""

    def __post_init__(self) -> None:
        for name in ("fold", "stop"):
            if isinstance(value := getattr(self, name), str):
                raise GraphError(f"{name}: expected several strings, found one, {value!r}")
        if unknown := [name for name in self.fold if name not in fold.NAMES]:
            raise GraphError(f"fold: expected some of {', '.join(fold.NAMES)}, found {unknown[0]!r}")
        for name in ("min_subject", "max_subject", "max_object"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value < 2**31:
                raise GraphError(f"{name}: expected a number of characters from 1, found {value!r}")
        if self.max_subject > MAX_SUBJECT:
            raise GraphError(
                f"max_subject: expected at most {MAX_SUBJECT:,} characters, found {self.max_subject:,}; no text "
                "mentions a longer subject, and each character of one is a step of every search"
            )
        if self.min_subject > self.max_subject:
            raise GraphError(
                f"min_subject: expected at most max_subject ({self.max_subject}), found {self.min_subject}"
            )


_DEFAULT = BuildOptions()


def compile_graph(
    paths: Sequence[str],
    out: Path,
    *,
    options: BuildOptions = _DEFAULT,
    on_reject: OnReject | None = None,
    open_binary: OpenBinary = open_local,
    on_remark: Callable[[str], None] | None = None,
) -> store.GraphInfo:
    """Compile the triples of `paths`, in that order, into the folder `out`; returns its facts.

    Lines that are malformed go to `on_reject` and are counted (`kg.read` has the rules); what cleaning
    leaves out is counted. `on_remark` is told what may not be what was meant (`ReadCounts.remarks`).
    The same files give the same bytes, whatever their folder is called. An older graph at `out` is replaced
    in one step.

    Raises GraphError where a file is missing, no triple is left, `out` is something else or holds one of
    the files, or there are more than 2^31 - 1 triples, or strings of a kind.
    """
    if not paths:
        raise GraphError("no triples files were named; expected at least one")
    out = Path(out)
    folding = Folding.build(options.fold)  # before the reading, as it may lack a library
    with store.new_folder(out, paths) as folder:
        counts = ReadCounts()
        rows = gather(
            paths,
            on_reject or (lambda _: None),
            options=options.read,
            limits=Limits(options.min_subject, options.max_subject, options.max_object),
            counts=counts,
            open_binary=open_binary,
        )
        for remark in counts.remarks:
            if on_remark is not None:
                on_remark(remark)
        kept = clean(rows, folding, options.stop, counts.left_out)
        if not len(kept.rows):
            raise GraphError(nothing_left(paths, counts, options.read))
        info = _write(folder, rows, kept, folding, counts, _relative(paths))
        store.write(folder, info)
    return info


# --- writing ------------------------------------------------------------------------------------


def _write(
    folder: Path,
    rows: Rows,
    kept: Kept,
    folding: Folding,
    counts: ReadCounts,
    sources: tuple[str, ...],
) -> store.GraphInfo:
    digest = _content_sha256(rows, kept.rows, folding)
    written = store.ColumnWriter(folder)
    keys, empty = number(rows, kept, written.add)
    written.add(folding.to_arrays())
    lengths = strings.lengths(keys)
    written.add(automaton.build(strings.code_points(keys), lengths))
    size = written.sizes
    return store.GraphInfo(
        sha256=digest,
        triples=size["objects"],
        subjects=len(keys),
        predicates=size["predicate_offsets"] - 1,
        objects=size["object_offsets"] - 1,
        longest_subject=int(lengths.max()),
        fold=folding.names,
        read=counts.read,
        left_out=dict(sorted(counts.left_out.items())),
        rejects=dict(sorted(counts.rejected.items())),
        empty_predicates=empty,
        merged_spellings=size["spelling_offsets"] - 1 - len(keys),
        sources=sources,
    )


def _content_sha256(rows: Rows, kept: np.ndarray, folding: Folding) -> str:
    """Of the folding rule and of the kept triples in file order: U+0000 between fields and U+0001 behind
    each, which no field can hold, as readers refuse control characters; TAB and line feed may be in one."""
    digest = hashlib.sha256(json.dumps(["treegraft-graph", *folding.names]).encode() + b"\n")
    for column in folding.to_arrays().values():
        digest.update(column.tobytes())
    nothing, between, end = (pa.scalar(text, pa.large_string()) for text in ("", "\0", "\1"))
    for start in range(0, len(kept), _HASH_ROWS):
        part = kept[start : start + _HASH_ROWS]
        subjects = strings.take(rows.subjects, rows.subject[part])
        predicates = strings.take(rows.predicates, rows.predicate[part])
        objects = strings.take(rows.objects, rows.object[part])
        triples = pc.binary_join_element_wise(subjects, predicates, objects, between)
        digest.update(strings.utf8(pc.binary_join_element_wise(triples, nothing, end)).data)
    return digest.hexdigest()


def _relative(paths: Sequence[str]) -> tuple[str, ...]:
    """Paths from the folder that they share on, `/` between parts."""
    absolute = [os.path.normpath(str(path)) for path in paths]
    if len(set(absolute)) == 1:
        return tuple(os.path.basename(path) for path in absolute)  # noqa: PTH119  (may be a URI)
    try:
        shared = os.path.commonpath(absolute)
    except ValueError:  # absolute and relative ones, or several drives
        return tuple(str(path) for path in paths)
    return tuple(os.path.relpath(path, shared).replace(os.sep, "/") for path in absolute)
