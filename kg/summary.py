"""What is in a compiled graph, for `treegraft kg stats`: sizes, hubs, predicates, files, collisions, cycles.

Arrays only, and no look at more than a few columns at once: ten million triples take about two seconds
and 300 MB, and the graph's own pages.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kg.errors import GraphError
from kg.graph import KnowledgeGraph

_CHUNK_BYTES = 1 << 22
_CHUNK_TRIPLES = 1 << 20


@dataclass(frozen=True)
class Spread:
    """How a number is spread. Median and 99th percentile are values that occur: those of the nearest rank."""

    min: int
    median: int
    mean: float
    p99: int
    max: int

    @classmethod
    def of(cls, values: np.ndarray) -> Spread:
        """Raises ValueError where there are no values."""
        ordered = np.sort(values)
        ranks = (0, (len(ordered) - 1) // 2, -(-99 * len(ordered) // 100) - 1, -1)
        low, median, p99, high = (int(ordered[rank]) for rank in ranks)
        return cls(low, median, float(values.mean(dtype=np.float64)), p99, high)


@dataclass(frozen=True)
class Summary:
    """Lists hold at most `top` items, most frequent first, ties in the order of text; `sources` is whole."""

    degrees: Spread
    """Triples of a subject."""
    top_subjects: list[tuple[str, int]]
    """(subject, triples)"""
    subject_lengths: Spread
    """Characters of each subject, as written most often."""
    object_lengths: Spread
    """Characters of each distinct object."""
    top_objects: list[tuple[str, int]]
    """(object, triples)"""
    top_predicates: list[tuple[str, int]]
    """(predicate, triples)"""
    sources: list[tuple[str, int]]
    """(file, triples), in the order in which they were compiled"""
    merged_subjects: int
    """Subjects of several spellings."""
    merged: list[list[str]]
    """Their spellings, subjects of most spellings first."""
    subjects_in_several_files: int
    objects_that_are_subjects: int
    """Distinct objects, after folding; where branches of depth 2 can grow."""
    triples_to_subjects: int
    """Triples with such an object."""
    two_cycles: int
    """Pairs of subjects each of which is an object of the other."""
    file_bytes: dict[str, int]
    """Bytes of each file of the graph, without `meta.json`."""


def summarize(graph: KnowledgeGraph, top: int = 20) -> Summary:
    """Raises GraphError where the graph is damaged."""
    try:
        return _summarize(graph, top)
    except IndexError:  # a number leads out of its column
        raise _damaged(graph) from None


def _damaged(graph: KnowledgeGraph) -> GraphError:
    return GraphError(f"graph {graph.folder} is damaged; compile the triples again")


def _summarize(graph: KnowledgeGraph, top: int) -> Summary:
    degrees = np.diff(graph.triple_offsets)
    spellings = np.diff(graph.subject_spellings)
    for offsets, counts, end in (
        (graph.triple_offsets, degrees, graph.info.triples),
        (graph.subject_spellings, spellings, graph.info.subjects + graph.info.merged_spellings),
    ):
        if not len(counts) or offsets[0] != 0 or offsets[-1] != end or counts.min() < 1:
            raise _damaged(graph)
    # What is counted by number: one that there is not would take gigabytes.
    for column, size in (
        (graph.predicates, graph.info.predicates),
        (graph.objects, graph.info.objects),
        (graph.source_files, len(graph.info.sources)),
    ):
        if column.min() < 0 or column.max() >= size:
            raise _damaged(graph)
    if graph.object_subjects.min() < -1 or graph.object_subjects.max() >= graph.info.subjects:
        raise _damaged(graph)
    merged = np.flatnonzero(spellings > 1)
    first, last = (
        extreme.reduceat(graph.source_files, graph.triple_offsets[:-1])
        for extreme in (np.minimum, np.maximum)
    )
    linked, edges = _edges(graph)
    return Summary(
        degrees=Spread.of(degrees),
        top_subjects=[(graph.subject_text(i), n) for i, n in _largest(degrees, top)],
        subject_lengths=Spread.of(_characters(*graph.spelling_bytes())[graph.subject_spellings[:-1]]),
        object_lengths=Spread.of(graph.object_lengths),
        top_objects=[(graph.object_text(i), n) for i, n in _largest(graph.object_counts, top)],
        top_predicates=[
            (graph.predicate_text(i), n)
            for i, n in _largest(np.bincount(graph.predicates, minlength=graph.info.predicates), top)
        ],
        sources=list(
            zip(
                graph.info.sources,
                np.bincount(graph.source_files, minlength=len(graph.info.sources)).tolist(),
                strict=True,
            )
        ),
        merged_subjects=len(merged),
        merged=[graph.spellings(int(merged[i])) for i, _ in _largest(spellings[merged], top)],
        subjects_in_several_files=int((first != last).sum()),
        objects_that_are_subjects=int((graph.object_subjects >= 0).sum()),
        triples_to_subjects=linked,
        two_cycles=_both_ways(edges),
        file_bytes=dict(graph.file_bytes),
    )


def _largest(counts: np.ndarray, top: int) -> list[tuple[int, int]]:
    """(index, count), ties by index."""
    order = np.argsort(-counts.astype(np.int64), kind="stable")[:top]
    return [(int(i), int(counts[i])) for i in order]


def _characters(data: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """int32: characters of each of some texts in UTF-8."""
    found: np.ndarray = np.empty(len(offsets) - 1, np.int32)
    start = 0
    while start < len(found):
        stop = int(np.searchsorted(offsets, offsets[start] + _CHUNK_BYTES, side="right")) - 1
        stop = min(max(stop, start + 1), len(found))
        part = offsets[start : stop + 1] - offsets[start]
        # A byte that begins with the bits 10 goes on with a character.
        begins = (data[offsets[start] : offsets[stop]] & 0xC0) != 0x80
        found[start:stop] = np.diff(np.concatenate(([0], np.cumsum(begins, dtype=np.int32)))[part])
        start = stop
    return found


def _edges(graph: KnowledgeGraph) -> tuple[int, np.ndarray]:
    """Triples whose object is a subject, and the distinct pairs (subject << 32 | object's subject)."""
    linked, parts = 0, []
    for start in range(0, graph.info.triples, _CHUNK_TRIPLES):
        target = graph.object_subjects[graph.objects[start : start + _CHUNK_TRIPLES]]
        triple = np.flatnonzero(target >= 0)
        owner = np.searchsorted(graph.triple_offsets, (triple + start).astype(np.int32), side="right") - 1
        linked += len(triple)
        parts.append((owner << 32) | target[triple])
    edges = np.concatenate(parts)
    edges.sort()  # np.unique hashes, and packed pairs collide in it: ten times slower
    return linked, edges[np.diff(edges, prepend=-1) != 0]


def _both_ways(edges: np.ndarray) -> int:
    source, target = edges >> 32, edges & 0xFFFFFFFF
    forward = edges[source < target]
    back = source > target
    backward = (target[back] << 32) | source[back]
    return len(np.intersect1d(forward, backward, assume_unique=True))
