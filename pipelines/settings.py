"""The resolved settings of a stage, as its manifest records them: what to write to make the dataset again.

Keys are those of the config, dotted (`graph.rank`), with defaults filled in and stop lists read. Files count by
content, which the manifest's identities and inputs hold; of their paths only the last part is kept, so that no
path of a machine gets into a dataset.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from pipelines.config import Config
from pipelines.language import primary_language


def annotate_settings(config: Config) -> dict[str, Any]:
    """What shapes the annotated documents beside the raw files and the tools."""
    found: dict[str, Any] = {"task": config.task, "language": primary_language(config.language)}
    found |= flat("input", config.input.model_dump(mode="json", exclude={"files"}))
    found |= flat("annotate", config.annotate.model_dump(mode="json"))
    for key in ("annotate.parser", "annotate.segmenter", "annotate.user_dict"):
        found[key] = _last_part(found[key])
    if config.dedup is not None:
        found |= flat("dedup", config.dedup.model_dump(mode="json"))
        if config.dedup.against is not None:
            found["dedup.against.files"] = [_last_part(path) for path in config.dedup.against.files]
    return found


def encode_settings(config: Config, labels: Sequence[str], policy: Mapping[str, Any]) -> dict[str, Any]:
    """What shapes the rows beside the annotated documents and the tools.

    Args:
        labels: the label names in index order.
        policy: every field of the grafting policy in plain values; only used where rows have trees.
    """
    found: dict[str, Any] = {"task": config.task, "seed": config.seed}
    found |= {"input.text_pair": config.input.text_pair, "input.score": config.input.score}
    if config.task == "span":
        found["input.train_splits"] = config.input.train_splits
    found |= flat("encode", encode_section(config))
    found["encode.labels"] = list(labels)
    if config.graph is not None and "tree" in config.encode.columns:
        found |= flat("graph", policy)
        if config.graph.compiled is None:
            build = config.graph.build
            found |= flat("graph.build", build.model_dump(mode="json"))
            found["graph.build.stop"] = (
                _last_part(build.stop) if isinstance(build.stop, str) else sorted(build.stop)
            )
    return found


def encode_section(config: Config) -> dict[str, Any]:
    """The `encode` section as far as its task reads it, without files."""
    others = {"pretrain", "span", "seq2seq"} - {config.task}
    return config.encode.model_dump(mode="json", exclude={"tokenizer", "coarse", *others})


def facts_hash(facts: Any) -> str:
    """SHA-256 in hex of plain values, whatever the order of keys."""
    return hashlib.sha256(json.dumps(facts, ensure_ascii=False, sort_keys=True).encode()).hexdigest()


def flat(prefix: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Nested sections as dotted keys."""
    found: dict[str, Any] = {}
    for key, value in values.items():
        name = f"{prefix}.{key}"
        found |= flat(name, value) if isinstance(value, Mapping) else {name: value}
    return found


def _last_part(path: str | None) -> str | None:
    return path if path is None else path.replace("\\", "/").rstrip("/").rpartition("/")[2]
