"""What `treegraft kg lookup` looks up with: a config's policy, tokenizer and words, or plain ones."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import yaml

from corpora.layout import InputConfig
from corpora.records import RAW_SCHEMA
from kg.errors import GraphError
from kg.tree import GraftPolicy
from pipelines.config import Config, load_config
from pipelines.lookup import Tokenizes, WordSpans
from pipelines.plain_tokens import PlainTokens
from pipelines.section import ConfigError

_FIXED = ("match", "max_length", "max_positions")
"""Fields of a policy that go with the tokenizer and the words, hence with a config."""
_NAMES = 8
"""Names of a set that are shown; larger ones are told by their size."""


@dataclass(frozen=True)
class LookupTools:
    policy: GraftPolicy
    tokenizer: Tokenizes
    max_length: int
    words: list[WordSpans] | None
    facts: list[tuple[str, str]]
    """What they are, for the reader."""


def plain() -> LookupTools:
    """Defaults, and tokens that need no vocabulary."""
    policy = GraftPolicy()
    facts = [
        ("tokens", "characters of Chinese, words of other scripts; --config takes your tokenizer"),
        ("policy", _policy(policy)),
    ]
    return LookupTools(policy, PlainTokens(), policy.max_length, None, facts)


def of_config(path: Path, texts: Sequence[str]) -> LookupTools:
    """Those of a config. Raises ConfigError where it has no graph section, or names what is not there."""
    from pipelines.encode.tools import Tools

    config = load_config(path)
    if config.graph is None:
        raise ConfigError(f"--config: {path} has no `graph` section to take the policy from")
    tools = Tools(config, str(path))
    words = _words(config, str(path), texts) if config.graph.match == "words" else None
    facts = [("tokens", config.encode.tokenizer), ("policy", _policy(tools.policy))]
    return LookupTools(tools.policy, tools.tokenizer, config.encode.max_length, words, facts)


def changed(tools: LookupTools, settings: Sequence[str]) -> LookupTools:
    """`tools` with other values of the policy, given as `key=value` (the value is YAML). Raises ConfigError."""
    known = [field.name for field in fields(GraftPolicy) if field.name not in _FIXED]
    values = {}
    for setting in settings:
        key, equals, written = setting.partition("=")
        key = key.strip().removeprefix("graph.")
        if key in _FIXED:
            raise ConfigError(
                f"--set {setting}: {key} goes with tokenizer and words; set it in a config and name that with --config"
            )
        if not equals or key not in known:
            near = difflib.get_close_matches(key, known, n=1)
            hint = f"did you mean {near[0]}=...?" if near else f"keys: {', '.join(known)}"
            raise ConfigError(f"--set {setting}: expected KEY=VALUE with a key of the policy; {hint}")
        try:
            value = yaml.safe_load(written)
        except yaml.YAMLError:
            value = written
        if key in ("stop", "include_predicates", "exclude_predicates") and value is not None:
            value = frozenset(map(str, value if isinstance(value, list) else [value]))
        values[key] = value
    try:
        policy = replace(tools.policy, **values)
    except (GraphError, TypeError) as error:
        raise ConfigError(f"--set: {error}") from None
    facts = [(name, _policy(policy) if name == "policy" else said) for name, said in tools.facts]
    return replace(tools, policy=policy, facts=facts)


def _words(config: Config, path: str, texts: Sequence[str]) -> list[WordSpans]:
    """Words of each text, segmented as annotating does it."""
    from pipelines.annotate.stage import Annotate

    count = len(texts)
    rows: dict[str, list[str | None]] = {name: [None] * count for name in RAW_SCHEMA.names}
    rows |= {"doc_id": [str(i) for i in range(count)], "source": ["text@0"] * count, "text": [*texts]}
    rejected: list[str] = []
    plain = InputConfig(format="text", files=config.input.files)  # whatever the corpus, a text is one text
    one = config.model_copy(update={"task": "pretrain", "input": plain})
    if config.annotate.parser == "given" or config.input.format == "conllu":  # TEXT brings no tree
        one = one.model_copy(update={"annotate": config.annotate.model_copy(update={"parser": "none"})})
    table, _ = Annotate(one, path).annotate_table(
        pa.table(rows, schema=RAW_SCHEMA), lambda reject: rejected.append(reject.detail)
    )
    if rejected:
        raise ConfigError(f"TEXT: {rejected[0]}")
    starts, stops = table["word_starts"].to_pylist(), table["word_stops"].to_pylist()
    return [(np.array(a, np.int64), np.array(b, np.int64)) for a, b in zip(starts, stops, strict=True)]


def _policy(policy: GraftPolicy) -> str:
    """`field: value`, for what is not a default; large sets by their size."""
    default = GraftPolicy()
    found = []
    for field in fields(policy):
        value = getattr(policy, field.name)
        if value != getattr(default, field.name):
            if isinstance(value, frozenset):
                value = ", ".join(sorted(value)) if len(value) <= _NAMES else f"{len(value):,} given"
            found.append(f"{field.name}: {value}")
    return ", ".join(found) or "all defaults"
