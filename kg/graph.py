"""A compiled knowledge graph, memory-mapped: opening takes milliseconds, processes share its pages.

graph = KnowledgeGraph.open(Path("hownet.kg"))
starts, stops, subjects = graph.longest_mentions("我爱苹果")
[graph.object(t) for t in graph.triples_of(subjects[0])]
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sized
from pathlib import Path
from typing import Any

import numpy as np

from kg import store
from kg.errors import GraphError
from kg.match import Matcher
from kg.match.automaton import Automaton
from kg.match.fold import Folding
from kg.store import GraphInfo
from kg.texts import Texts

__all__ = ["GraphError", "GraphInfo", "KnowledgeGraph"]


class KnowledgeGraph:
    """Subjects, triples and their look-up. Open one with `KnowledgeGraph.open`.

    Triple ids count from 0 to `info.triples`, grouped by subject and in file order within a subject;
    subject ids count from 0 to `info.subjects`, in the order of their keys. Both belong to one compiled
    graph (`info.sha256`).
    """

    def __init__(self, folder: Path, info: GraphInfo, files: Mapping[str, Mapping[str, Any]]) -> None:
        self.folder = folder
        self.info = info
        self.file_bytes: dict[str, int] = {name: facts["bytes"] for name, facts in files.items()}
        columns = {name: store.map_column(folder, name) for name in store.COLUMNS}
        self.triple_offsets: np.ndarray = columns["triple_offsets"]  # int32[S + 1]
        self.predicates: np.ndarray = columns["predicates"]  # int32[T]
        self.objects: np.ndarray = columns["objects"]  # int32[T]
        self.object_lengths: np.ndarray = columns["object_lengths"]  # int32[O], characters
        self.object_counts: np.ndarray = columns["object_counts"]  # int32[O], triples with this object
        self.object_subjects: np.ndarray = columns["object_subjects"]  # int32[O], -1: no such subject
        self.subject_spellings: np.ndarray = columns["subject_spellings"]  # int32[S + 1]
        self.source_files: np.ndarray = columns["source_files"]  # uint16[T], index into `info.sources`
        self.source_lines: np.ndarray = columns["source_lines"]  # uint32[T], from 1
        self._predicates = Texts(columns["predicate_bytes"], columns["predicate_offsets"])
        self._objects = Texts(columns["object_bytes"], columns["object_offsets"], self.object_lengths)
        self._spellings = Texts(columns["spelling_bytes"], columns["spelling_offsets"])
        self._check_shapes()
        self.folding = Folding.from_arrays(info.fold, columns)
        self.automaton = Automaton(columns)

    @classmethod
    def open(cls, folder: Path | str, *, check: bool = False) -> KnowledgeGraph:
        """Map a compiled graph: nothing is read but headers. File sizes are always checked; `check` also
        reads and hashes every file.

        Raises GraphError where the folder is no compiled graph, or a damaged one. A damage that only
        `check` would find gives wrong texts, GraphError or IndexError later on.
        """
        folder = Path(folder)
        info, files = store.read_meta(folder)
        if check:
            for name, facts in files.items():
                if store.file_sha256(folder / name) != facts.get("sha256"):
                    raise GraphError(
                        f"graph {folder}: {name} was changed after it was compiled (its hash differs); "
                        "compile the triples again"
                    )
        return cls(folder, info, files)

    def __reduce__(self) -> tuple[object, tuple[Path]]:
        # A copy in another process maps the same files instead of carrying them along.
        return KnowledgeGraph.open, (self.folder.resolve(),)

    def _check_shapes(self) -> None:
        info = self.info
        lengths: tuple[tuple[Sized, int], ...] = (
            (self.triple_offsets, info.subjects + 1),
            (self.subject_spellings, info.subjects + 1),
            (self._spellings, info.subjects + info.merged_spellings),
            (self._predicates, info.predicates),
            (self._objects, info.objects),
            *((c, info.objects) for c in (self.object_lengths, self.object_counts, self.object_subjects)),
            *((c, info.triples) for c in (self.predicates, self.objects)),
            *((c, info.triples) for c in (self.source_files, self.source_lines)),
        )
        if any(len(column) != length for column, length in lengths):
            raise GraphError(
                f"graph {self.folder}: its files belong to different graphs; compile the triples again"
            )

    def subject_id(self, subject: str) -> int:
        """Id of the subject that a text is, after folding; -1 where it has no triple."""
        return int(self.automaton.find([self.folding.fold_text(subject)])[0])

    def predicate_id(self, predicate: str) -> int:
        """Number of a predicate, as in `predicates`; -1 where no triple has it."""
        return self._predicates.find(predicate)

    def triples_of(self, subject: int) -> range:
        """Triple ids of a subject id, in file order."""
        return range(*self._span(self.triple_offsets, subject, self.info.triples))

    def triple_ranges(self, subjects: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Of subject ids (int[N]) the first triple and the one behind the last, int64[N] each.

        Raises IndexError for an id that there is not, GraphError where the graph is damaged."""
        starts = self.triple_offsets[subjects].astype(np.int64)
        stops = self.triple_offsets[subjects + 1].astype(np.int64)
        if ((starts < 0) | (starts > stops) | (stops > self.info.triples)).any():
            raise self._damaged()
        return starts, stops

    def subject(self, triple: int) -> str:
        """The subject of a triple id, in the spelling of `subject_text`."""
        self._check_triple(triple)
        return self.subject_text(
            int(np.searchsorted(self.triple_offsets, np.int32(triple), side="right")) - 1
        )

    def subject_text(self, subject: int) -> str:
        """A subject id as it is written; of several spellings the one with most triples, of these the first
        by code point."""
        return self._spellings[self._span(self.subject_spellings, subject, len(self._spellings))[0]]

    def spellings(self, subject: int) -> list[str]:
        """All spellings of a subject id that folding made one, those with most triples first."""
        return [
            self._spellings[k]
            for k in range(*self._span(self.subject_spellings, subject, len(self._spellings)))
        ]

    def spelling_bytes(self) -> tuple[np.ndarray, np.ndarray]:
        """All spellings, those of a subject together: UTF-8 as uint8, and int64 offsets into it."""
        return self._spellings.data, self._spellings.offsets

    def predicate(self, triple: int) -> str:
        """The predicate of a triple id, possibly empty."""
        self._check_triple(triple)
        return self._predicates[int(self.predicates[triple])]

    def predicate_text(self, number: int) -> str:
        """The predicate of a predicate number, as in `predicates`."""
        return self._predicates[number]

    def object(self, triple: int) -> str:
        self._check_triple(triple)
        return self._objects[int(self.objects[triple])]

    def object_text(self, number: int) -> str:
        """The object of an object number, as in `objects`."""
        return self._objects[number]

    def source(self, triple: int) -> tuple[str, int]:
        """File (relative to the folder that all triples files share) and line, from 1, of a triple."""
        self._check_triple(triple)
        return self.info.sources[int(self.source_files[triple])], int(self.source_lines[triple])

    def _check_triple(self, triple: int) -> None:
        if not 0 <= triple < self.info.triples:
            raise IndexError(f"triple id {triple} is outside 0..{self.info.triples - 1}")

    def _span(self, offsets: np.ndarray, subject: int, limit: int) -> tuple[int, int]:
        if not 0 <= subject < self.info.subjects:
            raise IndexError(f"subject id {subject} is outside 0..{self.info.subjects - 1}")
        start, stop = int(offsets[subject]), int(offsets[subject + 1])
        if not 0 <= start < stop <= limit:
            raise self._damaged()
        return start, stop

    def _damaged(self) -> GraphError:
        return GraphError(f"graph {self.folder} is damaged; compile the triples again")

    def matcher(
        self, min_length: int = 1, stop: Collection[str] = (), max_length: int | None = None
    ) -> Matcher:
        """Finder of mentions of `min_length` to `max_length` characters; subjects in `stop`, compared after
        folding, never match. Raises GraphError where `stop` is one string."""
        if isinstance(stop, str):
            raise GraphError(f"stop: expected several strings, found one, {stop!r}")
        ids = sorted({self.subject_id(subject) for subject in stop} - {-1})
        return Matcher(
            self.automaton,
            self.folding,
            self.info.subjects,
            self.info.longest_subject,
            min_length=min_length,
            max_length=max_length,
            stop=ids,
        )

    def longest_mentions(
        self, text: str, min_length: int = 1, stop: Collection[str] = ()
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(starts, stops, subjects), int32[M] each: see `kg.match` for the rule; offsets in characters."""
        found = self.matcher(min_length, stop).longest([text])
        return found.starts, found.stops, found.subjects

    def word_mentions(
        self,
        text: str,
        word_starts: np.ndarray,
        word_stops: np.ndarray,
        min_length: int = 1,
        stop: Collection[str] = (),
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(starts, stops, subjects), int32[M] each: the words that are subjects (K-BERT, Knowledge layer: K_Query)."""
        starts, stops = np.asarray(word_starts, np.int64), np.asarray(word_stops, np.int64)
        found = self.matcher(min_length, stop).words([text], starts, stops, np.array([0, len(starts)]))
        return found.starts, found.stops, found.subjects

    def hits(self, subjects: np.ndarray) -> list[tuple[str, int]]:
        """How often each subject occurs among subject ids: (subject, count), most frequent first.

        With `Trees.mention_subjects` this is the report that tells which common words make noise and
        belong on the stop list.
        """
        ids, counts = np.unique(subjects, return_counts=True)
        report = [(self.subject_text(int(i)), int(n)) for i, n in zip(ids, counts, strict=True)]
        return sorted(report, key=lambda item: (-item[1], item[0]))
