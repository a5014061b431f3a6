"""The config file: typed, every key known, every path resolved against the file's own folder.

A wrong key, value, path or combination stops before any work with one message that names the
field, what was expected and the nearest key there is. Relative paths count from the folder of
the config file, so a run gives the same bytes from any working directory.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, Field, ValidationError, model_validator

from corpora import sections
from corpora.files import is_uri
from corpora.layout import InputConfig
from corpora.presets import PRESETS
from corpora.schema import Task
from corpora.sections import SettingsError, explain, read_yaml
from pipelines.dedup.config import DedupConfig
from pipelines.encode_config import EncodeConfig
from pipelines.graph_config import GraphConfig
from pipelines.phrases.config import PhrasesConfig
from pipelines.section import ConfigError, Count, Fraction, Section
from pipelines.vocab.config import VocabConfig

__all__ = ["Config", "ConfigError", "as_named", "load_config", "names_file", "reference", "resolve"]

_FORMAT_TASKS: dict[str, tuple[Task, ...]] = {
    "text": ("pretrain",),
    "wikipedia": ("pretrain",),
    "conll": ("tag",),
    "conllu": ("pretrain", "tag"),
    "squad": ("span", "seq2seq"),
    "race": ("choice",),
    "c3": ("choice",),
    "parallel": ("seq2seq",),
}
"""Tasks of each format; formats of fields serve all others."""
_SETTING_TASKS: dict[str, tuple[Task, ...]] = {
    "input.label": ("classify", "tag", "span"),
    "input.label_optional": ("classify", "tag", "span"),
    "input.score": ("classify",),
    "input.skip_labels": ("classify",),
    "input.orphan_inside": ("tag",),
    "input.separator": ("tag",),
    "input.train_splits": ("classify", "tag", "span", "choice", "seq2seq"),
    "input.context": ("seq2seq",),
    "encode.labels": ("classify", "tag"),
    "encode.pretrain": ("pretrain",),
    "encode.span": ("span",),
    "encode.seq2seq": ("seq2seq",),
}
"""Settings that some tasks alone heed; in a config of another task they are errors, not ornaments."""
_QUESTION_TABLES = [("span", "parquet"), ("span", "arrow"), ("span", "dataset")]
"""Formats of fields whose fields may be questions: those that say what is in a field."""

_WRITTEN = {
    "task": f": one of {', '.join(get_args(Task))}",
    "language": ", such as `language: zh` or `en`",
    "input": ", such as `input: {format: tsv, text: text_a, files: {train: train.tsv}}`",
    "encode": ", such as `encode: {tokenizer: vocab.txt}`",
    "encode.tokenizer": ": a vocab.txt or tokenizer.json",
}
"""What to write for a key that is missing."""


class AnnotateConfig(Section):
    """Sentences, words and parses."""

    sentences: Literal["rules", "parser", "lines"] = "rules"
    """Split by punctuation rules, where the parser of a spaced language sees a new sentence, or at line
    ends alone (BERT's files of a sentence a line)."""
    parser: str = "default"
    """`default` (embedded), `none`, `given` (the trees of the corpus, and none but these), any installed spaCy
    pipeline name or path, `stanza` (its models of the language) or `stanza:PATH` (a folder of them)."""
    segmenter: Annotated[str, Field(pattern="^(default|jieba|rjieba|pkuseg(:.+)?|parser|none)$")] = "default"
    """Words: `default` is jieba for Chinese and spaCy's rules elsewhere; for Chinese also `jieba`, `rjieba` (in Rust),
    `pkuseg` (the model that is at hand) or `pkuseg:PATH` (a folder of one); `parser`: the parser's own; `none`:
    sentences alone, for rows that need no words. Words that the corpus brings are kept."""
    user_dict: str | None = None
    """Extra words for the Chinese segmenter, a word a line with optional count and tag; pkuseg heeds no counts. With
    `jieba` text without these words is cut as before; `rjieba` now and then cuts it otherwise."""
    max_sentence_words: Count = 256
    """A longer sentence is cut before it is parsed, after its last comma or other mark that fits, or else at exactly
    so many words: parsing time and memory stay bounded."""
    batch_words: Count = 4_000
    """Words that a parser is given at a time."""
    gpu: bool = False
    """Parse on a GPU where one is at hand. Its arithmetic may differ from a processor's in the last digit."""


class RunConfig(Section):
    """How the run behaves; nothing here but `block_bytes` changes what is written."""

    block_bytes: Annotated[int, Field(ge=1024, le=256 * 2**20)] | None = None
    """Raw text in a block, hence in a shard, in bytes; default: a 64th of the corpus, within 1 and 8 MiB."""
    max_reject_fraction: Fraction = 0.01
    """A run whose share of rejected records is higher ends with an error."""
    workers: Count | None = None
    """Local worker processes; default: the cores there are."""


class Config(Section):
    """One corpus, one task."""

    task: Task
    """`pretrain`: documents to training sequences; `classify`: a text or a pair with a label or score;
    `tag`: a sequence with a label per source token; `span`: a question whose answer is a span of a text;
    `choice`: a text and a question with several answers to choose from; `seq2seq`: a source and its target.
    May be left out with `input.preset`, which says it."""
    language: str
    """Language of the corpus, or of records that do not name theirs: `zh` or `en`. May be left out with
    `input.preset`, too."""
    seed: int = 0
    """All random choices are functions of it and of ids."""
    output: str | None = None
    """Folder of the shards; default: `out/<config name>` in the working directory."""
    annotated: str | None = None
    """Folder of the annotated documents; share it between configs that differ in `encode` or
    `graph` only. Default: `<output>/annotated`."""
    input: InputConfig
    dedup: DedupConfig | None = None
    annotate: AnnotateConfig = AnnotateConfig()
    encode: EncodeConfig
    graph: GraphConfig | None = None
    phrases: PhrasesConfig = PhrasesConfig()
    vocab: VocabConfig = VocabConfig()
    run: RunConfig = RunConfig()

    @model_validator(mode="before")
    @classmethod
    def _of_preset(cls, value: Any) -> Any:
        """A corpus that is known by name is for one task and in one language."""
        given = value.get("input") if isinstance(value, dict) else None
        name = given.get("preset") if isinstance(given, dict) else None
        preset = PRESETS.get(name) if isinstance(name, str) else None
        return value if preset is None else {"task": preset.task, "language": preset.language, **value}

    @model_validator(mode="after")
    def _consistent(self) -> Config:
        groups = set(self.encode.columns)
        preset = self.input.preset
        training = [name for name in self.input.files if self.input.trains(name)]
        of_preset: tuple[str, ...] = _tasks_of_preset(preset) if preset else (self.task,)
        need = [
            (
                self.task not in of_preset,
                f"input.preset {preset!r} is for task {' or '.join(map(repr, of_preset))}, found {self.task!r}",
            ),
            ("tree" in groups and self.graph is None, "encode.columns has 'tree': add a `graph` section"),
            (
                self.graph is not None and "tree" not in groups,
                "there is a `graph` section but encode.columns lacks 'tree': add it, or drop `graph`",
            ),
            (
                self.encode.coarse is not None and "coarse" not in groups,
                "there is an `encode.coarse` section but encode.columns lacks 'coarse': add it, or drop the section",
            ),
            (
                "coarse" in groups and self.encode.coarse is None,
                "encode.columns has 'coarse': add `encode.coarse`",
            ),
            (
                "syntax" in groups and self.annotate.parser == "none",
                "encode.columns has 'syntax' (its default) but annotate.parser is 'none': name a parser, or set "
                f"encode.columns to [{', '.join(c for c in self.encode.columns if c != 'syntax')}]",
            ),
            (
                self.annotate.segmenter == "none" and self.annotate.parser not in ("none", "given"),
                f"annotate.segmenter is 'none' but annotate.parser is {self.annotate.parser!r}, and a parser needs "
                "words: set annotate.parser to 'none' too, or annotate.segmenter to 'default'",
            ),
            (
                self.annotate.segmenter == "none" and self._needs_words is not None,
                f"annotate.segmenter is 'none' but {self._needs_words} needs words: set annotate.segmenter "
                "to 'default'",
            ),
            (
                self.annotate.segmenter == "none" and self.annotate.user_dict is not None,
                "annotate.segmenter is 'none', and annotate.user_dict has words for a segmenter: drop one of them",
            ),
            (
                self.annotate.sentences == "parser" and self.annotate.parser == "none",
                "annotate.sentences is 'parser' but annotate.parser is 'none'",
            ),
            (
                self.task not in _FORMAT_TASKS.get(self.input.format, (self.task,)),
                f"format {self.input.format!r} is for task "
                f"{' or '.join(map(repr, _FORMAT_TASKS.get(self.input.format, ())))}",
            ),
            (
                self.task in ("span", "choice")
                and self.input.format not in _FORMAT_TASKS
                and (self.task, self.input.format) not in _QUESTION_TABLES,
                f"task {self.task!r} needs format {' or '.join(map(repr, _formats_of(self.task)))}",
            ),
            (
                (self.task, self.input.format) in _QUESTION_TABLES
                and (self.input.text_pair is None or self.input.label is None),
                "task 'span' needs the columns of question, text and answers; of SQuAD's tables they are "
                "`text: question`, `text_pair: context`, `label: answers`",
            ),
            (
                self._lacks_label and not self.input.label_optional,
                f"task {self.task!r} needs `input.label`: the field that holds the label; texts without labels, which "
                "do not train, need `input.label_optional: true` instead",
            ),
            (
                self._lacks_label and bool(training),
                f"task {self.task!r} needs `input.label`, for split {', '.join(map(repr, training[:1]))} trains: name "
                "the field that holds the label, or, if there is none, call the split `test`",
            ),
            (
                self._lacks_label and bool(self.input.skip_labels),
                "input.skip_labels names labels, and there is no `input.label` to have them: drop it",
            ),
            (
                self.task == "seq2seq" and not self.input.has_pair,
                "task 'seq2seq' needs `input.text_pair`: the field that holds the target",
            ),
            (
                self.task == "seq2seq"
                and self.input.format != "squad"
                and _is_set(self, "input.train_splits"),
                "input.train_splits is for task 'seq2seq' with format 'squad' only, whose questions may lack "
                "an answer: drop it",
            ),
            (
                self.task == "tag" and self.input.text_pair is not None,
                "task 'tag' takes one text: drop text_pair",
            ),
            (self.task == "pretrain" and self.input.text_pair is not None, "task 'pretrain' takes one text"),
            (
                self.input.score and self.encode.labels is not None,
                "encode.labels names classes, but with input.score labels are numbers: drop one of them",
            ),
            (
                self.task == "tag" and isinstance(self.input.text, list),
                "task 'tag' takes the text of one field: name one in input.text",
            ),
            *(
                (
                    self.task not in tasks and _is_set(self, name),
                    f"{name} is for task {' or '.join(map(repr, tasks))}, found {self.task!r}: drop it",
                )
                for name, tasks in _SETTING_TASKS.items()
            ),
        ]
        for wrong, message in need:
            if wrong:
                raise ValueError(message)
        return self

    @property
    def _lacks_label(self) -> bool:
        """Whether no field of labels is named where the task has labels and the format names fields."""
        needed = self.task in ("classify", "tag") and self.input.format not in ("conll", "conllu")
        return needed and self.input.label is None

    @property
    def _needs_words(self) -> str | None:
        """What of the rows is made of words, in the config's terms."""
        groups = self.encode.columns
        named = next((f"{name!r} of encode.columns" for name in ("syntax", "coarse") if name in groups), None)
        if named is None and "tree" in groups and self.graph is not None and self.graph.match == "words":
            return "graph.match: words"
        return named


def _is_set(config: Config, name: str) -> bool:
    """Whether a setting of a section is written and not the default; a section counts by being written."""
    section, key = name.split(".")
    values = getattr(config, section)
    value, default = getattr(values, key), type(values).model_fields[key].default
    return key in values.model_fields_set and (isinstance(value, BaseModel) or value != default)


def _tasks_of_preset(name: str) -> tuple[str, ...]:
    """Its own task, and what else its format serves."""
    preset = PRESETS[name]
    return tuple(dict.fromkeys((preset.task, *_FORMAT_TASKS.get(preset.keys["format"], ()))))


def _formats_of(task: str) -> list[str]:
    named = [name for name, tasks in _FORMAT_TASKS.items() if task in tasks]
    return named + [name for own, name in _QUESTION_TABLES if own == task]


def load_config(path: str | Path) -> Config:
    """Read a YAML config; relative paths in it become absolute. Raises ConfigError."""
    path = Path(path)
    try:
        return Config.model_validate(read_yaml(path, "config file"))
    except SettingsError as error:
        raise ConfigError(str(error)) from None
    except ValidationError as error:
        lines = explain(error, Config, _WRITTEN)
        raise ConfigError(f"config file {path}:\n" + "\n".join(lines)) from None


def resolve(config_path: str | Path, path: str) -> str:
    """`path` of a config, against the config file's folder; URIs and absolute paths stay."""
    if is_uri(path):
        return path
    return str(Path(config_path).resolve().parent / path)


def as_named(config_path: str | Path, path: str) -> str:
    """A path from where we are as the config would say it: relative ones count from its folder."""
    if is_uri(path) or Path(path).is_absolute():
        return path
    return os.path.relpath(path, Path(config_path).parent)


def names_file(config_path: str | Path, named: str, path: str) -> bool:
    """Whether `named` of a config is the file `path`, given from where we are, however either is written."""
    found = resolve(config_path, named)
    if is_uri(found) or is_uri(path):
        return found == path
    return Path(found).resolve() == Path(path).resolve()


def reference() -> Iterator[tuple[str, str, str]]:
    """Every key of a config: dotted name, default as YAML (`required` where there is none), meaning."""
    return sections.reference(Config)
