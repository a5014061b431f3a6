"""Stage 1: raw records to annotated documents: sentences, words and parses as offsets into the text.

A block's records arrive as Arrow tables and leave as Arrow tables with `annotated_schema`, in the
same order; in between they are grouped by language (`pipelines.annotate.annotator`). Nothing but these
tables and the block's descriptor crosses a step: models live in the process that uses them.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from corpora.blocks import Block
from corpora.readers import read_block
from corpora.records import EXCERPT_CHARS, Reject
from corpora.schema import Column, annotated_columns, annotated_schema
from pipelines.annotate.annotator import Annotator, load_models
from pipelines.annotate.parsers import Found, find_parser, parser_identity
from pipelines.annotate.segmenters import CHINESE, segmenter_identity
from pipelines.annotate.sentences import CHINESE_RULES
from pipelines.annotate.spacy_models import EMBEDDED
from pipelines.annotate.spacy_words import blank
from pipelines.annotate.user_dict import read_user_dict
from pipelines.config import Config, ConfigError, resolve
from pipelines.dedup.result import Drops
from pipelines.engine import BlockWriter, Stage
from pipelines.language import primary_language
from pipelines.settings import annotate_settings

CODE_VERSION = 2
"""Raised whenever this stage gives another output for the same input and config."""

_TABLE_BYTES = 2**20
"""Text annotated at a time: enough for full parser batches, and progress shows within a block."""

_LANGUAGE = re.compile("[a-z]{2,3}")

OnReject = Callable[[Reject], None]


class Annotate(Stage):
    """The stage. Before `setup` it holds the config alone, so it is small to pickle.

    Raises ConfigError for a parser that is not installed, a language nothing can segment or a user
    dictionary that cannot be read, before any work.
    """

    name = "annotate"

    def __init__(self, config: Config, config_path: str, drops: Drops | None = None) -> None:
        """`drops`: which documents are left out, being duplicates of others."""
        self._config, self._path = config, str(Path(config_path).resolve())
        self._drops = drops
        user_dict = config.annotate.user_dict
        self._user_dict = None if user_dict is None else resolve(config_path, user_dict)
        self._language = primary_language(config.language)
        if not _LANGUAGE.fullmatch(self._language):
            raise ConfigError(f"language: expected a code such as 'zh' or 'en', found {config.language!r}")
        if self._user_dict is not None:
            if self._language != CHINESE and config.input.language is None:
                raise ConfigError(
                    f"annotate.user_dict: words for Chinese segmentation, but `language` is {self._language!r}; "
                    "leave it out"
                )
            read_user_dict(self._user_dict)
        self._parsers = self._find_parsers()
        if not self._parsers and self._language != CHINESE:
            blank(self._language)
        self._identity = self._identify()
        self._annotators: dict[str, Annotator | None] = {}

    def __getstate__(self) -> dict[str, Any]:
        # Folders of models are found again where the stage is set up: another machine, other folders.
        return {**self.__dict__, "_annotators": {}, "_parsers": {}}

    def _find_parsers(self) -> dict[str, Found]:
        """Parser of each language that can be parsed."""
        name = self._config.annotate.parser
        if name == "none":
            return {}
        if name == "default":
            mixed = sorted(EMBEDDED) if self._config.input.language is not None else []
            return {
                lang: find_parser(name, lang, self._path)
                for lang in {self._language: 0, **dict.fromkeys(mixed)}
            }
        found = find_parser(name, self._language, self._path)
        return {found.language: found}

    def _identify(self) -> dict[str, Any]:
        languages = sorted({self._language, *(set(self._parsers) - {"xx"})})
        parsers = [parser_identity(self._parsers[lang]) for lang in sorted(self._parsers)]
        segmenters = [segmenter_identity(lang, self._user_dict) for lang in languages]
        return {"parser": _joined(parsers), "segmenter": _joined(segmenters)}

    def identities(self) -> dict[str, Any]:
        """Parser and segmenter: name, version, hash of their files."""
        return dict(self._identity)

    def settings(self) -> dict[str, Any]:
        return annotate_settings(self._config)

    @property
    def fingerprint(self) -> str:
        """Hash of the code version, the models and every setting that this stage reads."""
        config = self._config
        reader = ["mwparserfromhell"] if config.input.format == "wikipedia" else []
        facts = {
            "code": CODE_VERSION,
            "versions": {name: version(name) for name in ("treegraft", "spacy", *reader)},
            "task": config.task,
            "language": self._language,
            "input": config.input.model_dump(mode="json", exclude={"files"}),
            "annotate": config.annotate.model_dump(mode="json", exclude={"user_dict", "parser"}),
            **self._identity,
        }
        if self._drops is not None:
            facts["dropped"] = [self._drops.result.fingerprint, self._drops.result.dropped.sha256]
        return hashlib.sha256(json.dumps(facts, sort_keys=True, ensure_ascii=False).encode()).hexdigest()

    @property
    def _parsed(self) -> bool:
        return self._config.annotate.parser != "none"

    @property
    def _pair(self) -> bool:
        return self._config.input.has_pair

    def schema(self) -> pa.Schema:
        metadata = {
            "stage": self.name,
            "task": self._config.task,
            "language": self._language,
            "fingerprint": self.fingerprint,
            **self._identity,
        }
        return annotated_schema(parsed=self._parsed, pair=self._pair, metadata=metadata)

    def setup(self) -> None:
        """Load the models of the corpus' own language; others are loaded when a record needs them."""
        self._parsers = self._find_parsers()
        if self._identify() != self._identity:
            raise ConfigError(
                f"this worker has other models than the run was planned with: expected {self._identity}, found "
                f"{self._identify()}; install the same packages everywhere"
            )
        self._annotator(self._language)

    def process(self, block: Block, out: BlockWriter) -> None:
        def reject(item: Reject) -> None:
            out.reject(item)
            out.count(records=1)

        config = self._config
        deprels: set[str] = set()
        tables = read_block(
            block,
            config.input,
            config.task,
            self._language,
            reject,
            batch_bytes=_TABLE_BYTES,
            on_count=lambda name, number: out.count(**{name: number}),
        )
        drops = None if self._drops is None else self._drops.of(block)
        for table in tables:
            if drops is not None:
                keep, dropped = drops.keep(table["doc_id"])
                out.count(records=len(keep) - int(keep.sum()), **dropped)
                table = table.filter(pa.array(keep))
            rejected: list[Reject] = []
            annotated, counts = self.annotate_table(table, rejected.append)
            for item in rejected:
                out.reject(item)
            out.write(annotated)
            out.count(records=table.num_rows, **counts, **_missing(table, config))
            for column in annotated.column_names:
                if column.startswith("word_deprels"):
                    deprels.update(_used(annotated[column]))
            if labels := _labels(annotated, config):
                out.see("labels", labels)
        if self._parsers:
            out.see("deprels", sorted(deprels))

    def annotate_table(self, table: pa.Table, on_reject: OnReject) -> tuple[pa.Table, Counter[str]]:
        """Annotate a table of RAW_SCHEMA: rows in the same order less the rejected ones, and counts."""
        languages = [primary_language(x) if x else self._language for x in table["language"].to_pylist()]
        keep = self._usable(table, languages, on_reject)
        if not keep.all():
            table = table.filter(pa.array(keep))
            languages = [lang for lang, kept in zip(languages, keep.tolist(), strict=True) if kept]
        counts = Counter(documents=table.num_rows)
        columns: dict[str, pa.Array | pa.ChunkedArray] = {
            name: table[name] for name in table.column_names if name != "language"
        }
        columns["language"] = pa.array(languages, pa.string())
        for suffix in ("", "_pair") if self._pair else ("",):
            annotations, counted = self._annotate_column(table[f"text{suffix}"], languages)
            columns.update({f"{name}{suffix}": array for name, array in annotations.items()})
            counts.update(counted)
        arrays = [
            _as_column(columns[c.name], c) for c in annotated_columns(parsed=self._parsed, pair=self._pair)
        ]
        schema = annotated_schema(parsed=self._parsed, pair=self._pair)
        return pa.Table.from_arrays(arrays, schema=schema), counts

    def _usable(self, table: pa.Table, languages: list[str], on_reject: OnReject) -> np.ndarray:
        """bool per row: its language is known and its text is more than whitespace."""
        good = {lang: self._annotator(lang) is not None for lang in sorted(set(languages))}
        keep = np.ones(table.num_rows, dtype=bool)
        for row, (text, language) in enumerate(zip(table["text"].to_pylist(), languages, strict=True)):
            if good[language] and not text.isspace() and text:
                continue
            keep[row] = False
            known = ", ".join(sorted(lang for lang in {*self._parsers, self._language} if lang != "xx"))
            reason, detail = (
                ("empty_text", "expected text, found whitespace alone")
                if good[language]
                else ("unknown_language", f"expected one of {known}, found {language!r}")
            )
            path, _, byte = table["source"][row].as_py().rpartition("@")
            on_reject(
                Reject(path, int(byte) if byte.isdigit() else 0, None, reason, detail, text[:EXCERPT_CHARS])
            )
        return keep

    def _annotate_column(
        self, column: pa.ChunkedArray, languages: list[str]
    ) -> tuple[dict[str, pa.Array], Counter[str]]:
        """Annotations of one text column; a null text has null annotations."""
        texts = [text or "" for text in column.to_pylist()]
        null = column.is_null().combine_chunks()
        counts: Counter[str] = Counter()
        rows_of: dict[str, list[int]] = {}
        for row, language in enumerate(languages):
            rows_of.setdefault(language, []).append(row)
        groups = []
        for language in sorted(rows_of) or [self._language]:
            annotator = self._annotator(language)
            assert annotator is not None  # others were rejected
            group, counted = annotator.annotate([texts[row] for row in rows_of.get(language, ())])
            groups.append(group)
            counts.update(counted)
        columns = {name: pa.concat_arrays([g[name] for g in groups]) for name in groups[0]}
        if len(groups) > 1:
            order = np.argsort(np.concatenate([rows_of[lang] for lang in sorted(rows_of)]), kind="stable")
            columns = {name: array.take(pa.array(order)) for name, array in columns.items()}
        if null.true_count:
            columns = {
                name: pa.ListArray.from_arrays(array.offsets, array.values, type=array.type, mask=null)
                for name, array in columns.items()
            }
        return columns, counts

    def _annotator(self, language: str) -> Annotator | None:
        """What annotates a language, loaded on first use; None if nothing does."""
        if language not in self._annotators:
            self._annotators[language] = self._load(language)
        return self._annotators[language]

    def _load(self, language: str) -> Annotator | None:
        settings = self._config.annotate
        found = self._parsers.get(language) or self._parsers.get("xx")
        if not _LANGUAGE.fullmatch(language) or (self._parsers and found is None):
            return None
        try:
            parser, segmenter = load_models(
                language, found, self._user_dict, batch_words=settings.batch_words, gpu=settings.gpu
            )
        except ConfigError:
            if language == self._language:
                raise
            return None
        find = settings.sentences == "parser" and language not in CHINESE_RULES
        lines = settings.sentences == "lines"
        return Annotator(language, segmenter, parser, settings.max_sentence_words, find, lines)


def _joined(identities: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """One identity of several tools: names and versions side by side, one hash over the hashes."""
    if len(identities) < 2:
        return dict(identities[0]) if identities else {"name": "none", "version": ""}
    hashes = " ".join(i.get("sha256", "") for i in identities)
    return {
        "name": "+".join(i["name"] for i in identities),
        "version": "+".join(i["version"] for i in identities),
        "sha256": hashlib.sha256(hashes.encode()).hexdigest(),
    }


# --- Arrow ------------------------------------------------------------------------------------


def _used(column: pa.ChunkedArray) -> set[str]:
    """Distinct strings of a column of lists of dictionary strings."""
    found: set[str] = set()
    for chunk in column.chunks:
        items = chunk.flatten()
        found.update(items.dictionary.take(pc.unique(items.indices)).to_pylist())
    return found


def _missing(table: pa.Table, config: Config) -> dict[str, int]:
    """Records that lack what the config has a field for: unlabelled test sets are fine, a mistyped field is not."""
    found = {}
    if config.task == "classify":
        found["records_without_label"] = table["label_score" if config.input.score else "label"].null_count
    if config.input.language is not None:
        found["records_without_language"] = table["language"].null_count
    return found


def _labels(table: pa.Table, config: Config) -> list[str]:
    """Distinct label strings of a labelled task."""
    if config.task == "classify" and not config.input.score:
        return list(pc.unique(table["label"]).drop_null().to_pylist())
    if config.task == "tag":
        return list(pc.unique(pc.list_flatten(table["tag_labels"])).drop_null().to_pylist())
    return []


def _as_column(array: pa.Array | pa.ChunkedArray, column: Column) -> pa.Array:
    """`array` with exactly the column's type: lists whose items cannot be null."""
    whole = array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
    return whole if whole.type == column.type else whole.cast(column.type)
