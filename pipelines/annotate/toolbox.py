"""What annotates each language, by the config: found here, told what it is, and loaded when it is needed."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeVar

from pipelines.annotate.annotator import Annotator
from pipelines.annotate.parsers import Found, find_parser, load_parser, parser_identity
from pipelines.annotate.segmenters import (
    CHINESE,
    FoundWords,
    find_segmenter,
    load_segmenter,
    segmenter_identity,
)
from pipelines.annotate.sentences import CHINESE_RULES
from pipelines.annotate.spacy_models import EMBEDDED
from pipelines.annotate.tools import OnWords, Parser, Segmenter, untold
from pipelines.annotate.user_dict import read_user_dict
from pipelines.config import Config, ConfigError, resolve
from pipelines.language import primary_language

T = TypeVar("T")

_LANGUAGE = re.compile("[a-z]{2,3}")
_TREES = ("conllu", "parquet", "arrow", "dataset")
"""Formats whose records may bring trees."""
_GIVEN = {"name": "given", "version": ""}
_LOADED: dict[Hashable, Any] = {}


def once(key: Hashable, make: Callable[[], T]) -> T:
    """A model of this process: made once, whatever the number of stages and blocks that use it."""
    if key not in _LOADED:
        _LOADED[key] = make()
    loaded: T = _LOADED[key]
    return loaded


class Toolbox:
    """Parsers and segmenters of a config.

    Raises ConfigError for a parser or a segmenter that is not there or not for the language, a language nothing can
    segment and a user dictionary that cannot be read, before any work.
    """

    def __init__(self, config: Config, config_path: str) -> None:
        self._settings, self._format, self._path = config.annotate, config.input.format, config_path
        self.language = primary_language(config.language)
        if not _LANGUAGE.fullmatch(self.language):
            raise ConfigError(f"language: expected a code such as 'zh' or 'en', found {config.language!r}")
        self.parsed = config.annotate.parser != "none"
        self._mixed = config.input.language is not None
        self._user_dict = self._read_user_dict()
        self.gives = self._trees_are_given()
        self.parsers = self._find_parsers()
        self.on_words: OnWords = untold
        """Told of words as they are done; whoever has texts annotated may set it."""
        self._annotators: dict[str, Annotator | None] = {}
        self._segmenters = {} if self.words_given else self._find_segmenters()

    # --- what there is ----------------------------------------------------------------------------

    def _read_user_dict(self) -> str | None:
        user_dict = self._settings.user_dict
        if user_dict is None:
            return None
        if self.language != CHINESE and not self._mixed:
            raise ConfigError(
                f"annotate.user_dict: words for Chinese segmentation, but `language` is {self.language!r}; "
                "leave it out"
            )
        path = resolve(self._path, user_dict)
        read_user_dict(path)
        return path

    def _trees_are_given(self) -> bool:
        """Whether the corpus alone gives trees: by the config, or a treebank that no embedded parser is for."""
        name = self._settings.parser
        if name == "given" and self._format not in _TREES:
            raise ConfigError(
                f"annotate.parser is 'given', but records of format {self._format!r} bring no trees "
                f"(those of {', '.join(_TREES)} may): name a parser, or 'none'"
            )
        return name == "given" or (
            name == "default" and self._format == "conllu" and self.language not in EMBEDDED
        )

    @property
    def words_given(self) -> bool:
        """Every record brings its words."""
        return self.gives or self._format == "conllu"

    def _find_parsers(self) -> dict[str, Found]:
        """Parser of each language that can be parsed."""
        name = self._settings.parser
        if name == "none" or self.gives:
            return {}
        if name == "default":
            languages = {self.language: 0, **dict.fromkeys(sorted(EMBEDDED) if self._mixed else ())}
            return {lang: find_parser(name, lang, self._path) for lang in languages}
        found = find_parser(name, self.language, self._path)
        return {found.language: found}

    def _find_segmenters(self) -> dict[str, FoundWords]:
        languages = sorted({self.language, *(set(self.parsers) - {"xx"})})
        return {lang: self._find_segmenter(lang) for lang in languages}

    def _find_segmenter(self, language: str) -> FoundWords:
        setting = self._settings.segmenter
        if (
            setting not in ("default", "parser", "none")
            and CHINESE not in (self.language, language)
            and not self._mixed
        ):
            raise ConfigError(
                f"annotate.segmenter: {setting} segments Chinese, but `language` is {self.language!r}; use 'default'"
            )
        parser = self._found(language)
        found = find_segmenter(setting, language, self._user_dict, parser, self._path)
        if self._own_sentences and parser and parser.toolkit == "stanza" and found.kind != "parser":
            raise ConfigError(
                "annotate.sentences is 'parser', but Stanza finds sentences only together with words: "
                "set annotate.segmenter to 'parser' too, or annotate.sentences to 'rules'"
            )
        return found

    @property
    def _own_sentences(self) -> bool:
        return self._settings.sentences == "parser"

    def _found(self, language: str) -> Found | None:
        return self.parsers.get(language) or self.parsers.get("xx")

    def identity(self) -> dict[str, Any]:
        """Parser and segmenter: name, version, hash of their files; `given` where the corpus brings its own."""
        parsers = [parser_identity(self.parsers[lang]) for lang in sorted(self.parsers)]
        if self.parsed and self.words_given:
            parsers.insert(0, _GIVEN)
        segmenters = [segmenter_identity(self._segmenters[lang]) for lang in sorted(self._segmenters)]
        return {"parser": _joined(parsers), "segmenter": _joined(segmenters or [_GIVEN])}

    # --- using it ---------------------------------------------------------------------------------

    @property
    def known(self) -> list[str]:
        """Languages that records may be in."""
        return sorted(lang for lang in {*self.parsers, self.language} if lang != "xx")

    def annotator(self, language: str) -> Annotator | None:
        """What annotates a language, made on first use; None for what is no language."""
        if language not in self._annotators:
            self._annotators[language] = self._annotator(language)
        return self._annotators[language]

    def _annotator(self, language: str) -> Annotator | None:
        if not _LANGUAGE.fullmatch(language):
            return None
        settings = self._settings
        return Annotator(
            language,
            None if settings.segmenter == "none" else lambda: self._segmenter(language),
            self._parser(language),
            self.parsed,
            settings.max_sentence_words,
            self._own_sentences and language not in CHINESE_RULES,
            settings.sentences == "lines",
            lambda words: self.on_words(words),
        )

    def _parser(self, language: str) -> Parser | None:
        found, settings = self._found(language), self._settings
        if found is None:
            return None
        key = ("parser", found, settings.batch_words, settings.gpu)
        return once(key, lambda: load_parser(found, batch_words=settings.batch_words, gpu=settings.gpu))

    def _segmenter(self, language: str) -> Segmenter | None:
        try:
            found = self._segmenters.get(language) or self._find_segmenter(language)
            parser, gpu, own = self._parser(language), self._settings.gpu, self._own_sentences
            # By content, for a dictionary may have been written anew; spaCy's rules are those of the loaded parser.
            content = json.dumps(segmenter_identity(found), sort_keys=True)
            key = ("words", found, content, id(parser) if found.kind == "spacy" else None, gpu, own)
            return once(key, lambda: load_segmenter(found, parser, gpu=gpu, find_sentences=own))
        except ConfigError:
            if language == self.language and not self.words_given:
                raise
            return None


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
