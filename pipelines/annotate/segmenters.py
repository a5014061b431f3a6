"""Which segmenter `annotate.segmenter` names: telling what it is, loading it."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

from pipelines.annotate.jieba_words import JiebaWords, jieba_identity
from pipelines.annotate.spacy_words import SpacyWords, blank
from pipelines.annotate.tools import Parser, Segmenter

CHINESE = "zh"


def load_segmenter(language: str, user_dict: str | None = None, parser: Parser | None = None) -> Segmenter:
    """jieba for `zh`; for others the tokenizer of the spaCy pipeline that parses, or spaCy's of that language.

    Raises ConfigError where there is none.
    """
    if language == CHINESE:
        return JiebaWords(user_dict)
    nlp = getattr(parser, "nlp", None)
    return SpacyWords(blank(language) if nlp is None else nlp)


def segmenter_identity(language: str, user_dict: str | None = None) -> dict[str, Any]:
    """What a segmentation depends on: part of the fingerprint, found without loading dictionaries."""
    if language != CHINESE:
        return {"name": "spacy", "version": version("spacy")}
    return jieba_identity(user_dict)
