"""Stage 1: raw records to annotated documents: sentences, words and parses as offsets into the text.

A block's records arrive as Arrow tables and leave as Arrow tables with `annotated_schema`, in the
same order; in between they are grouped by language (`pipelines.annotate.annotator`). Nothing but these
tables and the block's descriptor crosses a step: models live in the process that uses them.
"""

from __future__ import annotations

from collections import Counter
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from corpora.blocks import Block
from corpora.readers import read_block
from corpora.records import Reject
from corpora.schema import annotated_schema
from pipelines.annotate.table import OnReject, annotate_table
from pipelines.annotate.toolbox import Toolbox
from pipelines.config import Config, ConfigError
from pipelines.dedup.result import Drops
from pipelines.engine import BlockWriter, Stage
from pipelines.language import primary_language
from pipelines.settings import annotate_settings, facts_hash

CODE_VERSION = 5
"""Raised whenever this stage gives another output for the same input and config."""

_TABLE_BYTES = 2**20
"""Text annotated at a time: enough for full parser batches, and progress shows within a block."""


class Annotate(Stage):
    """The stage. Before `setup` it holds the config alone, so it is small to pickle.

    Raises ConfigError, before any work, as `Toolbox` says.
    """

    name = "annotate"

    def __init__(self, config: Config, config_path: str, drops: Drops | None = None) -> None:
        """`drops`: which documents are left out, being duplicates of others."""
        self._config, self._path = config, str(Path(config_path).resolve())
        self._drops = drops
        self._tools: Toolbox | None = Toolbox(config, self._path)
        self._identity = self._tools.identity()

    def __getstate__(self) -> dict[str, Any]:
        # Models are found again where the stage is set up: another machine, other folders.
        return {**self.__dict__, "_tools": None}

    @property
    def _toolbox(self) -> Toolbox:
        if self._tools is None:
            self._tools = Toolbox(self._config, self._path)
        return self._tools

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
            "language": primary_language(config.language),
            "input": config.input.model_dump(mode="json", exclude={"files"}),
            "annotate": {
                **config.annotate.model_dump(mode="json", exclude={"user_dict", "parser"}),
                "segmenter": config.annotate.segmenter.partition(":")[0],
            },
            **self._identity,
        }
        if self._drops is not None:
            facts["dropped"] = [self._drops.result.fingerprint, self._drops.result.dropped.sha256]
        return facts_hash(facts)

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
            "language": primary_language(self._config.language),
            "fingerprint": self.fingerprint,
            **self._identity,
        }
        return annotated_schema(parsed=self._parsed, pair=self._pair, metadata=metadata)

    def setup(self) -> None:
        """Load the models of the corpus' own language; others are loaded when a record needs them."""
        tools = self._toolbox
        if (found := tools.identity()) != self._identity:
            raise ConfigError(
                f"this worker has other models than the run was planned with: expected {self._identity}, found "
                f"{found}; install the same packages everywhere"
            )
        tools.annotator(tools.language)

    def try_out(self) -> None:
        """Load what a run loads, its segmenter too: weights that cannot be read end here. Raises ConfigError."""
        self.setup()
        tools = self._toolbox
        annotator = tools.annotator(tools.language)
        if annotator is not None and annotator.make_segmenter is not None and not tools.words_given:
            annotator.make_segmenter()

    def process(self, block: Block, out: BlockWriter) -> None:
        def reject(item: Reject) -> None:
            out.reject(item)
            out.count(records=1)

        config = self._config
        self._toolbox.on_words = lambda words: out.working(words=words)
        deprels: set[str] = set()
        tables = read_block(
            block,
            config.input,
            config.task,
            primary_language(config.language),
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
        if self._parsed:
            out.see("deprels", sorted(deprels))

    def annotate_table(self, table: pa.Table, on_reject: OnReject) -> tuple[pa.Table, Counter[str]]:
        """Annotate a table of RAW_SCHEMA: rows in the same order less the rejected ones, and counts."""
        return annotate_table(table, self._toolbox, on_reject, pair=self._pair)


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
