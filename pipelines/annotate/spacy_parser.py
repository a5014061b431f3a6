"""Dependency parses by any spaCy pipeline.

The pipeline gets `Doc`s made of our own words, so it never sees a whitespace token, and with our
sentence boundaries, which it must keep. What it answers is read with `Doc.to_array`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipelines.annotate.parse import Answer, TreeParser, batches
from pipelines.annotate.spacy_models import declared_deprels, load_pipeline
from pipelines.annotate.spacy_words import zone
from pipelines.annotate.tools import EXTRA, ROOT, UPOS, OnWords, relation
from pipelines.annotate.words import Ints, Words
from pipelines.config import ConfigError


class SpacyParser(TreeParser):
    """A loaded pipeline. `gpu`: on a GPU if there is one that spaCy can use.

    Raises ConfigError where the pipeline lacks a parser or a tagger.
    """

    def __init__(self, folder: Path, *, batch_words: int = 4_000, gpu: bool = False) -> None:
        self.nlp, self.name = load_pipeline(folder, gpu=gpu)
        self.deprels = tuple(sorted({ROOT, EXTRA} | declared_deprels(folder)))
        self.batch_words = batch_words
        strings = self.nlp.vocab.strings
        codes = {name: code for code, name in enumerate(self.deprels)}
        known = {strings[""]: codes[EXTRA], strings["ROOT"]: codes[ROOT], strings[ROOT]: codes[ROOT]}
        for labels in self.nlp.pipe_labels.values():
            known.update({strings[x]: codes[relation(x)] for x in labels if relation(x) in codes})
        self._dep_ids = np.array(sorted(known), dtype=np.uint64)
        self._dep_codes = np.array([known[i] for i in sorted(known)], dtype=np.int16)
        self._pos_codes = _pos_table()

    def zone(self) -> AbstractContextManager[Any]:
        """Within it the vocabulary may grow; leaving it frees what was added (C12)."""
        return zone(self.nlp)

    def answer(self, words: Words, units: Ints, *, find_sentences: bool, on_words: OnWords) -> Answer:
        """See `TreeParser`."""
        rows = self._run(words, units, preset=not find_sentences, on_words=on_words)
        offsets = rows[:, 0].astype(np.int64)  # uint64 to int64: negative offsets come back
        return Answer(
            heads=np.arange(len(offsets), dtype=np.int64) + offsets,
            deprels=self._codes_of(rows[:, 1]),
            pos=self._pos_codes[np.minimum(rows[:, 2], len(self._pos_codes) - 1)],
            begins=rows[:, 3] == 1,
        )

    def _run(self, words: Words, units: Ints, preset: bool, on_words: OnWords) -> NDArray[np.uint64]:
        """HEAD (as offset), DEP, POS, SENT_START of every word, uint64[D, 4]."""
        from spacy.attrs import DEP, HEAD, POS, SENT_START

        rows = [np.zeros((0, 4), dtype=np.uint64)]
        for batch in self._docs(words, units, preset):
            for doc in self.nlp.pipe(batch, batch_size=len(batch)):
                rows.append(doc.to_array([HEAD, DEP, POS, SENT_START]))  # noqa: PERF401 - docs are freed at once
            on_words(sum(map(len, batch)))
        answer = np.concatenate(rows)
        if len(answer) != len(words.starts):
            raise ConfigError(
                f"annotate.parser: {self.name} merges or splits words ({len(words.starts)} given, {len(answer)} "
                "returned); use a pipeline without such a component"
            )
        return answer

    def _docs(self, words: Words, units: Ints, preset: bool) -> Iterator[list[Any]]:
        from spacy.attrs import SENT_START
        from spacy.tokens import Doc

        if not words.forms:
            return
        spaced = np.zeros(len(words.starts), dtype=bool)
        spaced[:-1] = words.starts[1:] > words.stops[:-1]
        spaced[words.offsets[1:] - 1] = False  # a text's last word; where a text is empty, the one before
        sent_start = np.full((len(words.starts), 1), -1, dtype=np.int64).astype(np.uint64)
        sent_start[words.of_sentence[:-1]] = 1
        for batch in batches(units, self.batch_words):
            docs = []
            for begin, end in batch:
                doc = Doc(self.nlp.vocab, words=words.forms[begin:end], spaces=spaced[begin:end].tolist())
                if preset:
                    doc.from_array([SENT_START], sent_start[begin:end])
                docs.append(doc)
            yield docs

    def _codes_of(self, dep_ids: NDArray[np.uint64]) -> NDArray[np.int16]:
        at = np.minimum(np.searchsorted(self._dep_ids, dep_ids), len(self._dep_ids) - 1)
        unknown = self._dep_ids[at] != dep_ids
        if unknown.any():
            label = self.nlp.vocab.strings[int(dep_ids[unknown][0])]
            raise ConfigError(
                f"annotate.parser: {self.name} gave the relation {label!r}, which its meta.json does not list"
            )
        return self._dep_codes[at]


def _pos_table() -> NDArray[np.int16]:
    from spacy.parts_of_speech import IDS

    table = np.full(max(IDS.values()) + 2, UPOS.index("X"), dtype=np.int16)
    for code, name in enumerate(UPOS):
        table[IDS[name]] = code
    return table
