"""Which parser `annotate.parser` names: finding it, telling what it is, loading it.

**How a second toolkit plugs in.** `find_parser` picks the toolkit by the setting and gives a `Found`: small,
picklable, nothing loaded. The other functions here ask the toolkit's module, which is imported only then.
`stanza` and `stanza:PATH` go to `pipelines.annotate.stanza`, which has

    find_stanza(name, language, config_path) -> models   what was found on this machine: any small picklable
                                                         value; ConfigError names what to install; no torch
    stanza_identity(models) -> {"name", "version", "sha256"}            without loading them
    StanzaParser(models, *, batch_words, gpu)            a `tools.Parser`; `parse.TreeParser` is a base that cuts,
                                                         batches and repairs, so that only `answer` is left
    StanzaWords(models, *, gpu)                          a `tools.Segmenter`: its own tokenizer

Whatever they cannot do (find sentences, say) raises ConfigError naming the setting.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pipelines.annotate import spacy_models
from pipelines.annotate.tools import Parser
from pipelines.config import ConfigError


@dataclass(frozen=True)
class Found:
    """A parser that is there, not loaded."""

    toolkit: Literal["spacy", "stanza"]
    language: str
    """`xx`: any."""
    model: Any
    """spaCy: folder of the pipeline. Stanza: what `find_stanza` found."""


def find_parser(name: str, language: str, config_path: str) -> Found:
    """What `annotate.parser` names, for texts in `language`. Raises ConfigError where it is not there."""
    if name == "stanza" or name.startswith("stanza:"):
        from pipelines.annotate.stanza import find_stanza

        return Found("stanza", language, find_stanza(name, language, config_path))
    folder = spacy_models.find_pipeline(name, language, config_path)
    found = Found("spacy", spacy_models.pipeline_language(folder), folder)
    if found.language not in ("xx", language):
        raise ConfigError(
            f"annotate.parser: {name} is a pipeline for {found.language!r}, but `language` is {language!r}; "
            "change one of the two"
        )
    return found


def parser_identity(found: Found) -> dict[str, Any]:
    """Name, version and content hash of a parser, without loading it."""
    if found.toolkit == "stanza":
        from pipelines.annotate.stanza import stanza_identity

        return dict(stanza_identity(found.model))
    return spacy_models.pipeline_identity(Path(found.model))


def learnt_from(found: Found) -> set[str]:
    """Contents (SHA-256) of the treebanks that a parser was trained on, as far as it says so."""
    return spacy_models.trained_on(Path(found.model)) if found.toolkit == "spacy" else set()


def load_parser(found: Found, *, batch_words: int, gpu: bool) -> Parser:
    """The parser, ready to parse. Raises ConfigError where it cannot do what is asked of a parser."""
    if found.toolkit == "stanza":
        from pipelines.annotate.stanza import StanzaParser

        parser: Parser = StanzaParser(found.model, batch_words=batch_words, gpu=gpu)
        return parser
    from pipelines.annotate.spacy_parser import SpacyParser

    return SpacyParser(Path(found.model), batch_words=batch_words, gpu=gpu)
