"""The labels of nodes: read from all files, one chosen for each IRI, held as columns.

Memory grows with the labels that fit the language, and with nothing else: 3 million labels, 70 bytes each
with their IRI, are 220 MB as columns, 1 GB while they are chosen, and 1.3 GB while triples are read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from urllib.parse import unquote_to_bytes

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kg.read.lines import WHITE_SPACE
from kg.read.options import ReadOptions
from kg.read.quads import Languages, read_quads
from kg.read.records import OpenBinary, ReadCounts, Sink
from kg.read.tables import is_empty, with_control

EXACT, WITHIN, NONE, OTHER = range(4)
"""Classes of a literal's language: the one asked for, a variety of it (`zh-CN` of `zh`), no tag, another."""


@dataclass(frozen=True)
class LabelTable:
    """One text for each of N IRIs, no IRI twice."""

    iris: pa.LargeStringArray  # [N]
    texts: pa.LargeStringArray  # [N], trimmed, not empty, without control characters

    def of(self, iris: pa.LargeStringArray) -> pa.LargeStringArray:
        """The texts of IRIs, null where there is none (or no IRI)."""
        return self.texts.take(pc.index_in(iris, value_set=self.iris))


def classifier(language: str | None) -> Callable[[str | None], int]:
    """Language tag to class; without a language asked for all are the same."""
    asked = None if language is None else language.lower()

    def classify(tag: str | None) -> int:
        if asked is None:
            return EXACT
        if tag is None:
            return NONE
        tag = tag.lower()
        return EXACT if tag == asked else WITHIN if tag.startswith(asked + "-") else OTHER

    return classify


def collect(paths: Sequence[str], options: ReadOptions, open_binary: OpenBinary) -> LabelTable:
    """The labels that the RDF files give.

    Of several for one IRI the first in `options.labels` wins, then the one in the language itself before
    its varieties before those without a tag, then the smallest by code point.
    """
    properties = pa.array(options.labels, pa.large_string())
    # IRIs in N-Triples may be written with escapes; lines with any are looked into as well.
    wanted = re.compile(b"|".join([rb"\\[uU]", *(re.escape(f"<{iri}>".encode()) for iri in options.labels)]))
    languages = Languages(classifier(options.language))
    iris, texts, ranks = [], [], []
    for path in paths:
        sink = Sink(path, lambda _: None, ReadCounts())  # what is wrong is told when triples are read
        with open_binary(path) as stream:
            for quads in read_quads(stream, sink, languages, wanted):
                place = pc.fill_null(pc.index_in(quads.predicates, value_set=properties), -1).to_numpy()
                some = (place >= 0) & (quads.kinds >= EXACT) & (quads.kinds < OTHER)
                some &= quads.subjects.is_valid().to_numpy(zero_copy_only=False)
                rows = pa.array(np.flatnonzero(some))
                text = pc.utf8_trim(quads.objects.take(rows), characters=WHITE_SPACE)
                good = pa.array(~(is_empty(text) | with_control(text)))
                iris.append(quads.subjects.take(rows).filter(good))
                texts.append(text.filter(good))
                rank = place[some] * OTHER + quads.kinds[some]
                ranks.append(rank[good.to_numpy(zero_copy_only=False)].astype(np.int32))
    coded = _joined(iris).dictionary_encode()
    iris.clear()  # the strings are in the dictionary now
    joined = _joined(texts)
    texts.clear()
    return _choose(coded, joined, np.concatenate([np.empty(0, np.int32), *ranks]))


def _choose(coded: pa.DictionaryArray, texts: pa.LargeStringArray, ranks: np.ndarray) -> LabelTable:
    """For each IRI the text of the lowest rank, of those the smallest."""
    code = coded.indices.to_numpy()
    best = np.full(len(coded.dictionary), np.iinfo(np.int32).max, np.int32)
    np.minimum.at(best, code, ranks)
    rows = np.flatnonzero(ranks == best[code])
    several = np.bincount(code[rows], minlength=len(best))[code[rows]] > 1
    tied = rows[several]
    table = pa.table({"code": code[tied], "text": texts.take(pa.array(tied))})
    order = pc.sort_indices(table, [("code", "ascending"), ("text", "ascending")]).to_numpy()
    tied = tied[order]
    first = np.ones(len(tied), np.bool_)
    first[1:] = code[tied[1:]] != code[tied[:-1]]
    chosen = np.concatenate((rows[~several], tied[first]))
    return LabelTable(coded.dictionary.take(pa.array(code[chosen])), texts.take(pa.array(chosen)))


def local_names(iris: pa.LargeStringArray) -> pa.LargeStringArray:
    """What stands behind the last `#` or `/` of each IRI, percent-decoded, `_` as space, trimmed.

    Null where that is nothing, and for nulls. Percent signs that encode no UTF-8 stay as they are.
    """
    coded = iris.dictionary_encode()
    names = pc.replace_substring_regex(coded.dictionary, r"(?s)^.*[/#]", "")
    escaped = np.flatnonzero(pc.match_substring(names, "%").to_numpy(zero_copy_only=False))
    if len(escaped):
        listed = names.to_pylist()
        for i in escaped.tolist():
            listed[i] = _percent_decoded(listed[i])
        names = pa.array(listed, pa.large_string())
    names = pc.utf8_trim(pc.replace_substring(names, "_", " "), characters=WHITE_SPACE)
    names = pc.if_else(pa.array(is_empty(names)), pa.scalar(None, pa.large_string()), names)
    return names.take(coded.indices)


def _percent_decoded(name: str) -> str:
    try:
        return unquote_to_bytes(name).decode()
    except UnicodeDecodeError:
        return name


def _joined(chunks: Sequence[pa.LargeStringArray]) -> pa.LargeStringArray:
    return pa.concat_arrays([pa.array([], pa.large_string()), *chunks])
