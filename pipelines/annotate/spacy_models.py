"""spaCy pipelines: finding one, telling what it is without loading it, loading it."""

from __future__ import annotations

import hashlib
import importlib.util
import json
from collections import Counter
from pathlib import Path
from typing import Any

from corpora.files import is_uri
from pipelines.annotate.tools import relation
from pipelines.config import ConfigError, resolve

EMBEDDED = {"en": "en_ud_small", "zh": "zh_ud_small"}
"""Language to the parser that comes with this package, in `models/parsers`."""

# Components that neither parse nor tag: their weights are not loaded.
_UNNEEDED = frozenset(
    {
        *("beam_ner", "coref", "entity_linker", "entity_ruler", "lemmatizer", "merge_entities"),
        *(
            "merge_noun_chunks",
            "merge_subtokens",
            "ner",
            "sentencizer",
            "senter",
            "span_cleaner",
            "span_finder",
        ),
        *("span_ruler", "spancat", "spancat_singlelabel", "textcat", "textcat_multilabel", "token_splitter"),
        "trainable_lemmatizer",
    }
)

loads: Counter[str] = Counter()
"""Times that each pipeline was loaded in this process."""


def find_pipeline(name: str, language: str, config_path: str) -> Path:
    """Folder of a pipeline: `default`, an installed package, or a path relative to the config.

    Raises ConfigError naming the line that installs what is missing.
    """
    if name == "default":
        if language not in EMBEDDED:
            raise ConfigError(
                f"annotate.parser: there is no embedded parser for {language!r}, only for "
                f"{', '.join(sorted(EMBEDDED))}; name an installed spaCy pipeline, or 'none'"
            )
        package = importlib.util.find_spec("models")  # found, not imported: it would bring torch
        roots = list(package.submodule_search_locations or ()) if package else []
        for root in roots:
            if (folder := Path(root) / "parsers" / EMBEDDED[language] / "meta.json").exists():
                return folder.parent
        raise ConfigError(
            f"annotate.parser: the embedded parser {EMBEDDED[language]} is missing from this installation; "
            "run `make parsers`, or reinstall treegraft"
        )
    path = Path(resolve(config_path, name)) if not is_uri(name) else None
    if path is not None and (path / "meta.json").exists():
        return path
    from spacy import util

    if path is not None and not Path(name).parts[1:] and util.is_package(name):
        package_folder = util.get_package_path(name)
        for meta in sorted(package_folder.glob("*/meta.json")):
            return meta.parent
    raise ConfigError(
        f"annotate.parser: {name!r} is neither an installed spaCy pipeline nor a folder that holds one. "
        f"Install it with `python -m spacy download {name}` (or `pip install` its package), or use 'default' "
        f"(embedded: {', '.join(sorted(EMBEDDED))}) or 'none'"
    )


def pipeline_identity(folder: Path) -> dict[str, Any]:
    """Name, version, language and content hash of a pipeline, without loading it."""
    meta = _meta(folder)
    digest = hashlib.sha256()
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        content = hashlib.sha256(path.read_bytes()).hexdigest()
        digest.update(f"{path.relative_to(folder).as_posix()} {content}\n".encode())
    return {
        "name": _full_name(meta),
        "version": str(meta.get("version", "")),
        "sha256": digest.hexdigest(),
    }


def pipeline_language(folder: Path) -> str:
    """Language code of a pipeline; `xx` for one that serves several."""
    return str(_meta(folder).get("lang", "xx"))


def declared_deprels(folder: Path) -> set[str]:
    """Relations that a pipeline may give, by its own account, with `root` as we write it."""
    components = _components(folder)
    labels = _meta(folder).get("labels", {})
    names = [n for n, c in components.items() if "parser" in c.get("factory", n)]
    return {relation(label) for name in names for label in labels.get(name, ())}


def trained_on(folder: Path) -> set[str]:
    """Contents (SHA-256) of the treebanks that a pipeline says it learnt from; the embedded ones say so."""
    said = _meta(folder).get("trained_on")
    return {str(content) for content in said.values()} if isinstance(said, dict) else set()


def load_pipeline(folder: Path, *, gpu: bool = False) -> tuple[Any, str]:
    """The spaCy pipeline in `folder`, without components that nobody asks for, and its name.

    `gpu`: its weights, and those of pipelines loaded later in this process, lie on a GPU if there is one.
    Raises ConfigError where it lacks a parser or a tagger.
    """
    import spacy

    if gpu:
        spacy.prefer_gpu()
    exclude, config = _excluded(folder), {}
    if pipeline_language(folder) == "zh":
        # Words are given. A tokenizer with jieba would fill jieba's global dictionary from a cache file
        # that anyone may have written; one with pkuseg would need that package.
        exclude.append("tokenizer")
        config = {"nlp": {"tokenizer": {"segmenter": "char"}}}
    nlp = spacy.load(folder, exclude=exclude, config=config)
    name = _full_name(nlp.meta)
    loads[name] += 1
    _check_components(nlp, name)
    return nlp, name


def chinese_tokenizer(folder: Path) -> str:
    """`char`, `jieba` or `pkuseg`: how the tokenizer of a Chinese pipeline segments. Raises ConfigError for another."""
    settings = _config(folder).get("nlp", {}).get("tokenizer", {})
    if settings.get("@tokenizers") != "spacy.zh.ChineseTokenizer":
        raise ConfigError(
            f"annotate.segmenter is 'parser', but {folder} has a tokenizer of its own kind "
            f"({settings.get('@tokenizers')}); use 'default', 'jieba', 'rjieba' or 'pkuseg'"
        )
    saved = folder / "tokenizer" / "cfg"
    try:
        kept = json.loads(saved.read_text(encoding="utf-8")) if saved.exists() else settings
        return str(kept.get("segmenter", "char"))
    except (OSError, ValueError, AttributeError, RecursionError) as error:
        raise ConfigError(f"annotate.segmenter: {saved} cannot be read: {error}") from None


def _components(folder: Path) -> dict[str, Any]:
    """The pipeline's components by its config, without loading them. Raises ConfigError."""
    return dict(_config(folder).get("components", {}))


def _config(folder: Path) -> dict[str, Any]:
    from thinc.api import Config

    try:
        return dict(Config().from_disk(folder / "config.cfg", interpolate=False))
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"annotate.parser: {folder} has no readable config.cfg, so is no spaCy pipeline: {str(error).strip()}"
        ) from None


def _meta(folder: Path) -> dict[str, Any]:
    try:
        meta = json.loads((folder / "meta.json").read_text(encoding="utf-8"))
        if not isinstance(meta, dict):
            raise ValueError("expected an object")
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(
            f"annotate.parser: {folder} has no readable meta.json, so is no spaCy pipeline: {error}"
        ) from None
    return dict(meta)


def _full_name(meta: dict[str, Any]) -> str:
    return f"{meta.get('lang', 'xx')}_{meta.get('name', 'pipeline')}"


def _excluded(folder: Path) -> list[str]:
    """Components whose weights need not be loaded."""
    components = _components(folder)
    factories = {name: component.get("factory", name) for name, component in components.items()}
    unneeded = set(_UNNEEDED)
    if {"morphologizer", "tagger"} <= set(factories.values()) and "attribute_ruler" not in factories.values():
        unneeded.add("tagger")  # fine-grained tags that nothing reads
    return [name for name, factory in factories.items() if factory in unneeded]


def _check_components(nlp: Any, name: str) -> None:
    assigns = {a for pipe in nlp.pipe_names for a in nlp.get_pipe_meta(pipe).assigns}
    factories = {nlp.get_pipe_meta(pipe).factory for pipe in nlp.pipe_names}
    tagged = "token.pos" in assigns or {"tagger", "attribute_ruler"} <= factories
    missing = [
        what
        for what, there in (
            ("a dependency parser", "token.dep" in assigns),
            ("a morphologizer (or tagger with attribute_ruler)", tagged),
        )
        if not there
    ]
    if missing:
        raise ConfigError(
            f"annotate.parser: {name} lacks {' and '.join(missing)}; it has: "
            f"{', '.join(nlp.pipe_names) or 'nothing'}. Name a pipeline with both, or 'none'"
        )
