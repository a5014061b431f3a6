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

NONE, OTHER = 62, 63
"""Classes of a literal's language: no tag, another one. Those asked for come before, two classes each: the
language itself, and varieties of it (`zh-CN` of `zh`)."""


@dataclass(frozen=True)
class LabelTable:
    """One text for each of N IRIs, no IRI twice."""

    iris: pa.LargeStringArray  # [N]
    texts: pa.LargeStringArray  # [N], trimmed, not empty, without control characters

    def of(self, iris: pa.LargeStringArray) -> pa.LargeStringArray:
        """The texts of IRIs, null where there is none (or no IRI)."""
        return self.texts.take(pc.index_in(iris, value_set=self.iris))


def classifier(asked: Sequence[str]) -> Callable[[str | None], int]:
    """Language tag to class; where none is asked for, each language without its varieties has a number of
    its own (one of 62 where there are more)."""
    asked = [language.lower() for language in asked]
    met: dict[str, int] = {}

    def classify(tag: str | None) -> int:
        if tag is None:
            return NONE
        tag = tag.lower()
        if not asked:
            return met.setdefault(tag.split("-")[0], len(met)) % NONE
        ranks = [2 * i + (tag != a) for i, a in enumerate(asked) if tag == a or tag.startswith(a + "-")]
        return min(ranks, default=OTHER)

    return classify


def collect(
    paths: Sequence[str], options: ReadOptions, open_binary: OpenBinary, counts: ReadCounts
) -> LabelTable:
    """The labels that the RDF files give.

    Of several for one IRI the first in `options.labels` wins, then the first language asked for, itself
    before its varieties, before those without a tag, then the smallest by code point. Without a language
    asked for, how many nodes lost labels in others is a remark in `counts`.
    """
    properties = pa.array(options.labels, pa.large_string())
    # IRIs in N-Triples may be written with escapes; lines with any are looked into as well.
    wanted = re.compile(b"|".join([rb"\\[uU]", *(re.escape(f"<{iri}>".encode()) for iri in options.labels)]))
    languages = Languages(classifier(options.languages))
    iris, texts, ranks, kinds = [], [], [], []
    for path in paths:
        sink = Sink(path, lambda _: None, ReadCounts())  # what is wrong is told when triples are read
        with open_binary(path) as stream:
            for quads in read_quads(stream, sink, languages, wanted):
                place = pc.fill_null(pc.index_in(quads.predicates, value_set=properties), -1).to_numpy()
                some = (place >= 0) & (quads.kinds >= 0) & (quads.kinds < OTHER)
                some &= quads.subjects.is_valid().to_numpy(zero_copy_only=False)
                rows = pa.array(np.flatnonzero(some))
                text = pc.utf8_trim(quads.objects.take(rows), characters=WHITE_SPACE)
                good = pa.array(~(is_empty(text) | with_control(text)))
                iris.append(quads.subjects.take(rows).filter(good))
                texts.append(text.filter(good))
                well = good.to_numpy(zero_copy_only=False)
                kind = quads.kinds[some][well]
                rank = place[some][well] * OTHER
                ranks.append((rank + kind if options.languages else rank).astype(np.int32))
                if not options.languages:
                    kinds.append(kind)
    coded = _joined(iris).dictionary_encode()
    iris.clear()  # the strings are in the dictionary now
    if several := _of_several_languages(coded, np.concatenate([np.empty(0, np.int8), *kinds])):
        counts.remarks.append(
            f"{several:,} node{'s have' if several > 1 else ' has'} labels in several languages; one label of "
            "each was taken, whatever its language: give `language: en`, say"
        )
    joined = _joined(texts)
    texts.clear()
    return _choose(coded, joined, np.concatenate([np.empty(0, np.int32), *ranks]))


def _of_several_languages(coded: pa.DictionaryArray, kinds: np.ndarray) -> int:
    """How many IRIs have labels of more than one language; labels without one do not count."""
    if not len(kinds):
        return 0
    tagged = kinds < NONE
    code, kind = coded.indices.to_numpy()[tagged], kinds[tagged]
    low = np.full(len(coded.dictionary), NONE, np.int8)
    high = np.full(len(coded.dictionary), -1, np.int8)
    np.minimum.at(low, code, kind)
    np.maximum.at(high, code, kind)
    return int((low < high).sum())


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
