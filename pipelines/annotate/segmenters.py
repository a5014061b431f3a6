"""Which segmenter `annotate.segmenter` names: finding it, telling what it is, loading it."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

from pipelines.annotate import pkuseg_words, spacy_models
from pipelines.annotate.jieba_words import JiebaWords, RjiebaWords, jieba_identity, rjieba_identity
from pipelines.annotate.parsers import Found
from pipelines.annotate.spacy_words import SpacyWords, blank
from pipelines.annotate.tools import Parser, Segmenter
from pipelines.config import ConfigError

CHINESE = "zh"


@dataclass(frozen=True)
class FoundWords:
    """A segmenter that is there, not loaded."""

    kind: Literal["jieba", "rjieba", "pkuseg", "spacy", "parser", "none"]
    """`spacy`: rules of the language, or of the spaCy pipeline that parses. `parser`: the parser's own tokenizer, where
    that is none of the others. `none`: texts have sentences and no words."""
    language: str
    user_dict: str | None = None
    model: Any = None
    """pkuseg: folder of its model. `parser`: the `Found` parser."""


def find_segmenter(
    setting: str, language: str, user_dict: str | None, parser: Found | None, config_path: str
) -> FoundWords:
    """What segments `language` by `annotate.segmenter`: one of Chinese only segments that, spaCy's rules others.

    Raises ConfigError for what is not there, or cannot heed a user dictionary.
    """
    name = setting.partition(":")[0]
    if name == "none":
        return FoundWords("none", language)
    if name == "parser":
        return _own_words(language, user_dict, parser)
    if language != CHINESE:
        if parser is None or parser.toolkit != "spacy":
            blank(language)
        return FoundWords("spacy", language)
    if name == "pkuseg":
        return FoundWords("pkuseg", language, user_dict, pkuseg_words.find_model(setting, config_path))
    if name == "rjieba":
        rjieba_identity(None)
        return FoundWords("rjieba", language, user_dict)
    return FoundWords("jieba", language, user_dict)


def _own_words(language: str, user_dict: str | None, parser: Found | None) -> FoundWords:
    """The tokenizer that comes with the parser; of a Chinese spaCy pipeline: jieba, pkuseg or single characters."""
    if parser is None:
        raise ConfigError(
            "annotate.segmenter is 'parser', but no parser is named that has a tokenizer (annotate.parser); "
            "use 'default'"
        )
    if parser.toolkit == "spacy" and language == CHINESE:
        folder = Path(parser.model)
        kind = spacy_models.chinese_tokenizer(folder)
        if kind == "jieba":
            return FoundWords("jieba", language, user_dict)
        if kind == "pkuseg":
            model = pkuseg_words.check_model(folder / "tokenizer" / "pkuseg_model")
            return FoundWords("pkuseg", language, user_dict, model)
    if user_dict is not None and language == CHINESE:
        raise ConfigError(
            "annotate.user_dict: the parser's own tokenizer takes no further words; leave the dictionary out, or use "
            "another annotate.segmenter (jieba, rjieba, pkuseg)"
        )
    if parser.toolkit == "spacy":
        return FoundWords("spacy", language)
    return FoundWords("parser", language, None, parser)


def load_segmenter(
    found: FoundWords, parser: Parser | None = None, *, gpu: bool = False, find_sentences: bool = False
) -> Segmenter:
    """The segmenter, ready. `parser`: the one that parses the language, loaded. `find_sentences`: Stanza's tokenizer,
    which finds words and sentences at once, finds both. Raises ConfigError for `none`."""
    if found.kind == "none":
        raise ConfigError("annotate.segmenter is 'none', but words are asked for: use 'default'")
    if found.kind == "jieba":
        return JiebaWords(found.user_dict)
    if found.kind == "rjieba":
        return RjiebaWords(found.user_dict)
    if found.kind == "pkuseg":
        return pkuseg_words.PkusegWords(found.model, found.user_dict)
    if found.kind == "parser":
        from pipelines.annotate.stanza import StanzaWords

        words: Segmenter = StanzaWords(found.model.model, gpu=gpu, find_sentences=find_sentences)
        return words
    nlp = getattr(parser, "nlp", None)
    return SpacyWords(blank(found.language) if nlp is None else nlp)


def segmenter_identity(found: FoundWords) -> dict[str, Any]:
    """Name, version and content hash of what a segmentation depends on, without loading it."""
    if found.kind == "none":
        return {"name": "none", "version": ""}
    if found.kind == "jieba":
        return jieba_identity(found.user_dict)
    if found.kind == "rjieba":
        return rjieba_identity(found.user_dict)
    if found.kind == "pkuseg":
        return pkuseg_words.pkuseg_identity(found.model, found.user_dict)
    if found.kind == "parser":
        from pipelines.annotate.parsers import parser_identity

        return parser_identity(found.model)
    return {"name": "spacy", "version": version("spacy")}
