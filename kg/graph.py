"""A compiled knowledge graph, memory-mapped: opening takes milliseconds, processes share its pages.

info = compile_graph(["HowNet.spo"], Path("hownet.kg"))
graph = KnowledgeGraph.open(Path("hownet.kg"))
starts, stops, subjects = graph.longest_mentions("我爱苹果")
[graph.object(t) for t in graph.triples_of(subjects[0])]
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import marisa_trie
import numpy as np

from kg import store
from kg.compile import compile_graph
from kg.errors import GraphError
from kg.match import Matcher
from kg.store import GraphInfo
from kg.trie import key_finder

__all__ = ["GraphError", "GraphInfo", "KnowledgeGraph", "compile_graph"]


class KnowledgeGraph:
    """Subjects, triples and their look-up. Open one with `KnowledgeGraph.open`.

    Triple ids count from 0 to `info.triples`, grouped by subject and in file order within a subject;
    subject ids count from 0 to `info.subjects`. Both belong to one compiled graph (`info.sha256`).
    """

    def __init__(self, folder: Path, info: GraphInfo, trie: marisa_trie.Trie) -> None:
        self.folder = folder
        self.info = info
        self.trie = trie
        self._find = key_finder(trie)
        columns = {name: store.load_column(folder, name) for name in store.COLUMNS}
        self.triple_offsets: np.ndarray = columns["triple_offsets"]  # int64[S + 1]
        self.predicates: np.ndarray = columns["predicates"]  # int32[T]
        self.objects: np.ndarray = columns["objects"]  # int32[T]
        self.repeats: np.ndarray = columns["repeats"]  # bool[T]
        self.object_lengths: np.ndarray = columns["object_lengths"]  # int32[O], characters
        self.object_counts: np.ndarray = columns["object_counts"]  # int32[O], triples with this object
        self.object_subjects: np.ndarray = columns[
            "object_subjects"
        ]  # int32[O], subject of the same text or -1
        self._source_files = columns["source_files"]
        self._source_lines = columns["source_lines"]
        self._predicate_text = (columns["predicate_bytes"], columns["predicate_offsets"])
        self._object_text = (columns["object_bytes"], columns["object_offsets"])
        self._filters = (columns["filter_ones"], columns["filter_twos"], columns["filter_threes"])
        self._check_shapes()

    @classmethod
    def open(cls, folder: Path | str, *, check: bool = False) -> KnowledgeGraph:
        """Map a compiled graph. File sizes are always checked; `check` also reads and hashes every file.

        Raises GraphError where the folder is no compiled graph, or a damaged one.
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
        try:
            trie = marisa_trie.Trie().mmap(str(folder / store.TRIE))
        except (RuntimeError, OSError) as error:
            raise GraphError(f"graph {folder}: {store.TRIE} is damaged: {error}") from None
        return cls(folder, info, trie)

    def __reduce__(self) -> tuple[object, tuple[Path]]:
        # A copy in another process maps the same files instead of carrying them along.
        return KnowledgeGraph.open, (self.folder.resolve(),)

    def _check_shapes(self) -> None:
        info = self.info
        wrong = (
            len(self.trie) != info.subjects
            or self.triple_offsets.shape != (info.subjects + 1,)
            or any(
                column.shape != (info.triples,)
                for column in (
                    self.predicates,
                    self.objects,
                    self.repeats,
                    self._source_files,
                    self._source_lines,
                )
            )
            or any(
                column.shape != (info.objects,)
                for column in (self.object_lengths, self.object_counts, self.object_subjects)
            )
            or self._object_text[1].shape != (info.objects + 1,)
            or self._predicate_text[1].shape != (info.predicates + 1,)
        )
        if wrong:
            raise GraphError(
                f"graph {self.folder}: its files belong to different graphs; compile the triples again"
            )

    def subject_id(self, subject: str) -> int:
        """Id of a subject, -1 where it has no triple."""
        try:
            return self._find(subject)
        except UnicodeEncodeError:  # a lone surrogate cannot be in a UTF-8 file
            return -1

    def triples_of(self, subject: int) -> range:
        """Triple ids of a subject id, in file order."""
        if not 0 <= subject < self.info.subjects:
            raise IndexError(f"subject id {subject} is outside 0..{self.info.subjects - 1}")
        return range(int(self.triple_offsets[subject]), int(self.triple_offsets[subject + 1]))

    def subject(self, triple: int) -> str:
        self._check_triple(triple)
        return self.subject_text(int(np.searchsorted(self.triple_offsets, triple, side="right")) - 1)

    def subject_text(self, subject: int) -> str:
        """The subject of an id. Raises IndexError for an id that there is not."""
        if not 0 <= subject < self.info.subjects:
            raise IndexError(f"subject id {subject} is outside 0..{self.info.subjects - 1}")
        return self.trie.restore_key(int(subject))

    def predicate(self, triple: int) -> str:
        """The predicate of a triple id, possibly empty."""
        self._check_triple(triple)
        return _text(self._predicate_text, int(self.predicates[triple]))

    def object(self, triple: int) -> str:
        self._check_triple(triple)
        return _text(self._object_text, int(self.objects[triple]))

    def object_text(self, number: int) -> str:
        """The object of an object number, as in `objects`."""
        return _text(self._object_text, number)

    def source(self, triple: int) -> tuple[str, int]:
        """File (relative to the folder that all triples files share) and line, from 1, of a triple."""
        self._check_triple(triple)
        return self.info.sources[int(self._source_files[triple])], int(self._source_lines[triple])

    def _check_triple(self, triple: int) -> None:
        if not 0 <= triple < self.info.triples:
            raise IndexError(f"triple id {triple} is outside 0..{self.info.triples - 1}")

    def matcher(self, min_length: int = 1, stop: Collection[str] = ()) -> Matcher:
        """Finder of mentions; subjects shorter than `min_length` characters or in `stop` never match."""
        ids = {self.subject_id(subject) for subject in stop} - {-1}
        return Matcher(self.trie, self._filters, self.info.longest_subject, min_length, ids)

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
        """(starts, stops, subjects), int32[M] each: the words that are subjects (K-BERT, 3.2: K_Query)."""
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


def _text(strings: tuple[np.ndarray, np.ndarray], index: int) -> str:
    data, offsets = strings
    return data[offsets[index] : offsets[index + 1]].tobytes().decode()
