"""How records lie in raw files: the `input` section of a config."""

from __future__ import annotations

import codecs
import difflib
import re
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from corpora.presets import find_preset
from corpora.sections import Count, Fraction

Format = Literal[
    "text",
    "jsonl",
    "tsv",
    "csv",
    "conll",
    "conllu",
    "wikipedia",
    "squad",
    "race",
    "c3",
    "parquet",
    "arrow",
    "dataset",
    "parallel",
]
_TABLES = ("parquet", "arrow", "dataset")
_FIELDS = ("jsonl", "tsv", "csv", *_TABLES)
_PAIRS = ("squad", "race", "c3", "parallel")
_ONLY_FOR = {
    "label": (*_FIELDS, "conllu"),
    "document": ("text", "conllu"),
    "text": _FIELDS,
    "text_pair": _FIELDS,
    "score": _FIELDS,
    "id": (*_FIELDS, "conllu"),
    "language": _FIELDS,
    "separator": _FIELDS,
    "label_optional": (*_FIELDS, "conll"),
    "skip_labels": _FIELDS,
    "marks": ("jsonl",),
    "header": ("tsv", "csv"),
    "headings": ("wikipedia",),
    "encoding": ("text", "jsonl", "tsv", "csv", "conll", "parallel"),
    "offset_unit": ("squad", *_TABLES),
    "ambiguous_answers": ("squad", *_TABLES),
    "context": ("squad",),
    "holdout": ("squad",),
    "train_splits": ("squad", "conll", *_FIELDS),
    "blank": ("race", "c3"),
    "suffixes": ("parallel",),
}


_DOCUMENTS = {
    "text": ("file", "line", "blank_line"),
    "conllu": ("blank_line", "newdoc", "file"),
}
TREEBANK_LABELS = ("upos", "xpos", "deprel")
"""What `label` may name in a treebank; the first by default."""
_TREEBANK_IDS = {"blank_line": ("sent_id",), "newdoc": ("newdoc",), "file": ()}
"""What `id` may name in a treebank, by `document`."""


class Mark(BaseModel):
    """A part of the text that stands out: what it says, where it begins, and what is put around it."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    text: str
    """Field that holds what is marked, which must stand in the text at `start`."""
    start: str
    """Field that holds its first character, counted from 0."""
    left: str
    """Put before it."""
    right: str
    """Put behind it."""


class InputConfig(BaseModel):
    """Where the corpus is and how its records lie in the files."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    # Its keys are filled in below, and say the same as if they had been written out.
    preset: str | None = Field(default=None, exclude=True)
    """A corpus that is known by name, such as `glue/sst2`: it sets every key here but `files`, and whatever is
    written beside it wins. `treegraft presets` lists them."""
    format: Format
    """Given by `preset` where there is one. `jsonl`: an object a line, or one array of objects; `conll`: a token and
    its label a line (first and last column), blank lines between sentences; `conllu`: a treebank, whose words and
    trees are used; `wikipedia`: the articles of a pages-articles dump (`.xml`, `.xml.bz2`), as plain text; `squad`:
    SQuAD 1.1 and 2.0, CMRC 2018 in either of its layouts, DRCD; `race`: RACE's files, one JSON object each, or lists
    of tokenised questions; `c3`: CLUE's C3; `parquet`, `arrow`: tables; `dataset`: folders that `datasets` saved;
    `parallel`: a source and a target file, a sequence a line."""
    files: dict[str, list[str]]
    """Split name to paths, globs or URIs."""
    document: Literal["file", "line", "blank_line", "newdoc"] = "blank_line"
    """`text` and `conllu`: what one document is. For `conllu`, `blank_line` makes each sentence one, and
    `newdoc` all sentences up to the next `# newdoc`."""
    text: str | list[str] = "text"
    """Field or column that holds the text (TSV files of K-BERT's layout: `text_a`), or several whose texts are
    joined by line ends, blank ones left out. A dot leads into nested objects of JSON (`target.span1_text`)."""
    text_pair: str | list[str] | None = None
    """Field, or fields, of the second text; its presence makes the corpus one of pairs."""
    label: str | None = None
    """Field of the class label; for `tag`, of the labels; or of the score with `score: true`."""
    score: bool = False
    """The label is a number to regress on (`label_score`)."""
    label_optional: bool = False
    """Files and records of splits that do not train (see `train_splits`) may lack the label, as test sets do; without
    a split that trains, `label` itself may be left out. For formats of fields and for `conll`, whose sentence then
    has a label on each of its lines or on none."""
    skip_labels: list[str] = []
    """`classify`: records of these labels are left out and counted (`-` of SNLI: the annotators did not agree)."""
    marks: list[Mark] = []
    """`jsonl`: parts of the text to put signs around, each with the keys `text` and `start` (fields), `left` and
    `right` (signs): the two mentions that CLUEWSC 2020 asks about."""
    id: str | None = None
    """Field that holds a unique id; without it ids are made from path and byte offset (in tables, row number).
    `conllu`: without it likewise, even where sentences have a `sent_id`; `id: sent_id` takes that, `id: newdoc`
    the id of documents."""
    language: str | None = None
    """Field that holds each record's language, where the corpus mixes them."""
    header: list[str] | None = None
    """`tsv` and `csv`: column names of files without a header line. A file whose first line names the fields of the
    text has one after all (CoLA's test set)."""
    separator: str = " "
    """`tag`: what separates source tokens, and labels, in their fields (JSONL may hold lists). `""`: every character
    of the text is one, and labels may be mentions by type, with first and last character (CLUENER)."""
    joiner: str | None = None
    """`tag`: put between source tokens to make the text; default: nothing for zh, a space otherwise. Other tasks: put
    between the strings where a field of the text holds a list; default: a space."""
    orphan_inside: Literal["keep", "begin"] = "keep"
    """`tag`: an I- label without its B-: kept, or turned into B-; counted either way."""
    headings: Literal["drop", "keep"] = "drop"
    """`wikipedia` only: headings of sections left out, as in BERT's corpus, or kept as blocks of their own."""
    offset_unit: Literal["characters", "utf16", "bytes"] = "characters"
    """`squad`: what answer offsets count: code points, UTF-16 units (JavaScript, Java) or UTF-8 bytes."""
    ambiguous_answers: Literal["drop", "first"] | None = None
    """`squad`: an answer whose offset is missing or wrong and that occurs several times: the question is
    left out of training splits (`drop`), or its first occurrence is taken. Default: `drop`, but `first` where answers
    are bare strings, which have no offset at all (CMRC 2018's own layout, whose converter does so)."""
    train_splits: list[str] | None = None
    """Splits that train: the questions of `squad` must have an answer that can be found, labels must be there.
    Default: those whose name begins with `train`. In other splits every question is kept, with its gold answers."""
    context: Count | None = None
    """`squad` for `seq2seq`: most characters of a source, which is an answer and its text: of a longer text it has
    what stands around the answer. A token is about one character in Chinese, four to five in English. Default: whole
    texts, which lose their ends where `encode` has to cut, wherever the answer stands."""
    holdout: dict[str, Fraction] = {}
    """`squad`: splits that are cut out of the files of those that train, and the share of texts that each takes, with
    all their questions: `{dev: 0.1}`. Which texts depends on these alone."""
    blank: Literal["append", "fill"] = "append"
    """`race`, `c3`: an option is put behind its question, or into the question's blank (`_`) where it has one."""
    suffixes: tuple[str, str] = (".src", ".tgt")
    """`parallel`: how the names of source files (those that `files` lists) and of their target files end."""
    encoding: str = "utf-8"
    """Any encoding that holds ASCII as itself (`gb18030`, `big5`, `shift_jis`, `latin-1`)."""

    @field_validator("separator")
    @classmethod
    def _some_separator(cls, value: str) -> str:
        if "\n" in value:
            raise ValueError("must hold no line end; JSONL lists hold tokens that need no separator")
        return value

    @field_validator("text", "text_pair")
    @classmethod
    def _some_field(cls, value: str | list[str] | None) -> str | list[str] | None:
        if value == [] or (isinstance(value, list) and len(set(value)) < len(value)):
            raise ValueError(f"name at least one field, each once; found {value}")
        return value

    @field_validator("suffixes")
    @classmethod
    def _two_suffixes(cls, value: tuple[str, str]) -> tuple[str, str]:
        if value[0] == value[1] or not all(value) or "/" in "".join(value):
            raise ValueError(f"must be two different endings of file names, found {list(value)}")
        return value

    @model_validator(mode="before")
    @classmethod
    def _with_preset(cls, value: Any) -> Any:
        if not isinstance(value, Mapping) or not isinstance(name := value.get("preset"), str):
            return value
        keys = find_preset(name).keys
        if "format" in value:  # what only the other format could heed
            keys = {k: v for k, v in keys.items() if value["format"] in _ONLY_FOR.get(k, (value["format"],))}
        return {**keys, **value}

    @field_validator("encoding")
    @classmethod
    def _ascii_compatible(cls, value: str) -> str:
        try:
            name = codecs.lookup(value).name
        except LookupError:
            raise ValueError(f"unknown encoding {value!r}; examples: utf-8, gb18030, big5") from None
        if name == "utf-8-sig":  # a byte order mark is dropped anyway
            return "utf-8"
        # Files are cut at LF and TAB bytes before anything is decoded, so these bytes must mean
        # themselves wherever they stand, and a line must decode without what came before.
        plain = bytes([*range(0x5C), *range(0x5D, 0x7E)])
        try:
            fits = plain.decode(name) == plain.decode("ascii")
        except (LookupError, UnicodeError, ValueError):
            fits = False
        if not fits or name.startswith(("iso2022", "hz", "unicode", "raw", "puny")):
            raise ValueError(
                f"files in {value!r} cannot be read line by line; "
                f"convert them first: iconv -f {value} -t UTF-8"
            )
        return name

    @field_validator("files", mode="before")
    @classmethod
    def _one_or_many(cls, value: Any) -> Any:
        if isinstance(value, (str, list)):
            value = {"train": value}
        if isinstance(value, dict):
            return {k: [v] if isinstance(v, str) else v for k, v in value.items()}
        return value

    @field_validator("files")
    @classmethod
    def _split_names(cls, value: dict[str, list[str]]) -> dict[str, list[str]]:
        for name, patterns in value.items():
            _check_split(name)
            if not patterns:
                raise ValueError(f"split {name!r} has no files")
        if not value:
            raise ValueError("name at least one split, such as `train: corpus/*.txt`")
        return value

    @property
    def sources(self) -> dict[str, list[str]]:
        """Name of each split, held-out ones last, to the patterns of the files it is read from."""
        training = [pattern for name in self.files if self.trains(name) for pattern in self.files[name]]
        return {**self.files, **dict.fromkeys(self.holdout, training)}

    @property
    def has_pair(self) -> bool:
        """Whether records have a second text."""
        return self.text_pair is not None or self.format in _PAIRS

    @property
    def has_ids(self) -> bool:
        """Whether records bring ids of their own, which must differ within a split."""
        return self.id is not None or self.format in ("squad", "race", "c3")

    def trains(self, split: str) -> bool:
        """Whether questions of the split must have an answer that can be found, and records their label."""
        names = self.train_splits
        return split.startswith("train") if names is None else split in names

    def may_lack_label(self, split: str) -> bool:
        """Whether files and records of the split may come without labels."""
        return self.label_optional and not self.trains(split)

    @model_validator(mode="after")
    def _splits_that_train(self) -> InputConfig:
        """Without one that is there, all questions would be read as an evaluation's, and nobody would notice."""
        shown = ", ".join(map(repr, self.files))
        if self.train_splits == []:
            raise ValueError(
                f"train_splits is empty: name at least one of the splits {shown}, or leave it out"
            )
        for name in self.train_splits or ():
            if name not in self.files:
                near = difflib.get_close_matches(name, self.files, n=1)
                hint = f"did you mean {near[0]!r}?" if near else f"there are {shown}"
                raise ValueError(f"train_splits: there is no split {name!r} in files; {hint}")
        return self

    @model_validator(mode="after")
    def _held_out(self) -> InputConfig:
        """Splits that are cut out of others are splits of their own, and leave something to train on."""
        for name, share in self.holdout.items():
            _check_split(name)
            if name in self.files:
                raise ValueError(f"holdout: the split {name!r} has files already: give it another name")
            if self.trains(name):
                raise ValueError(f"holdout: the split {name!r} would train: call it `dev` or `test`, say")
            if not share:
                raise ValueError(f"holdout: the split {name!r} takes a share above 0, found {share}")
        if self.holdout and not any(map(self.trains, self.files)):
            shown = ", ".join(map(repr, self.files))
            raise ValueError(f"holdout: none of the splits {shown} trains: name one in train_splits")
        if sum(self.holdout.values()) >= 1:
            raise ValueError("holdout: the shares leave nothing to train on; together they must be below 1")
        return self

    @model_validator(mode="after")
    def _used(self) -> InputConfig:
        """Settings that the format could not heed are errors, not ornaments."""
        for key, formats in _ONLY_FOR.items():
            changed = getattr(self, key) != type(self).model_fields[key].default
            if changed and self.format not in formats:
                raise ValueError(f"{key!r} is for format {' or '.join(formats)}, not {self.format!r}")
        known = _DOCUMENTS.get(self.format, (self.document,))
        if self.document not in known:
            raise ValueError(
                f"document: with format {self.format!r} it can be {', '.join(known)}; found {self.document!r}"
            )
        return self

    @model_validator(mode="after")
    def _of_a_treebank(self) -> InputConfig:
        """`label` and `id` of a treebank name what its sentences have, no fields."""
        if self.format != "conllu":
            return self
        if self.label not in (None, *TREEBANK_LABELS):
            raise ValueError(f"label: a treebank has {', '.join(TREEBANK_LABELS)}; found {self.label!r}")
        ids = _TREEBANK_IDS[self.document]
        if self.id is not None and self.id not in ids:
            what = " or ".join(ids) or "nothing: a file's id is its path"
            raise ValueError(f"id: with document {self.document!r} it can be {what}; found {self.id!r}")
        return self


def _check_split(name: str) -> None:
    if not re.fullmatch(r"[A-Za-z0-9_]+", name):
        raise ValueError(f"split name {name!r} must be letters, digits and underscores")
