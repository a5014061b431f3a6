"""Corpora known by name: what `input.preset` stands for.

A preset is nothing but keys of `input`, with the `task` and the `language`, as one would write them after a look
into the files; `files` stays the user's. The layouts are those of the files that the benchmarks themselves hand out
(GLUE's and CLUE's archives, K-BERT's repository), not of copies that others have made.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any, NamedTuple


class Preset(NamedTuple):
    """What a corpus is for, what its files are usually called, its keys of `input`, and its language."""

    task: str
    files: str
    keys: Mapping[str, Any]
    note: str = ""
    language: str = "zh"


def _glue(files: str, text: str, text_pair: str | None = None, *, note: str = "", **keys: Any) -> Preset:
    keys = {"format": "tsv", "text": text, "text_pair": text_pair, "label_optional": True, **keys}
    return Preset("classify", files, {k: v for k, v in keys.items() if v is not None}, note, "en")


def _clue(text: str, text_pair: str | None = None, *, note: str = "", **keys: Any) -> Preset:
    keys = {"format": "jsonl", "text": text, "text_pair": text_pair, "label": "label", **keys}
    keys["label_optional"] = True
    return Preset(
        "classify", "train.json, dev.json, test.json", {k: v for k, v in keys.items() if v is not None}, note
    )


_ASKED = "; with `task: seq2seq`, its questions to be asked"
_TSV = "train.tsv, dev.tsv, test.tsv"
_NLI = "records without a gold label (`-`) are left out"

PRESETS: dict[str, Preset] = {
    "glue/cola": _glue(
        _TSV, "sentence", label="label", header=["source", "label", "mark", "sentence"], note="no header line"
    ),
    "glue/sst2": _glue(_TSV, "sentence", label="label"),
    "glue/mrpc": _glue(
        "train.tsv, dev.tsv, test.tsv; msr_paraphrase_*.txt", "#1 String", "#2 String", label="Quality"
    ),
    "glue/stsb": _glue(_TSV, "sentence1", "sentence2", label="score", score=True, note="a score of 0 to 5"),
    "glue/qqp": _glue(
        _TSV, "question1", "question2", label="is_duplicate", note="some lines are broken: rejects"
    ),
    "glue/mnli": _glue(
        "train.tsv, dev_matched.tsv, dev_mismatched.tsv, test_matched.tsv, test_mismatched.tsv",
        "sentence1",
        "sentence2",
        label="gold_label",
        skip_labels=["-"],
        note=f"a split for each of the two dev sets; {_NLI}",
    ),
    "glue/snli": _glue(
        f"{_TSV}; snli_1.0_*.jsonl with `format: jsonl`",
        "sentence1",
        "sentence2",
        label="gold_label",
        skip_labels=["-"],
        note=_NLI,
    ),
    "glue/qnli": _glue(_TSV, "question", "sentence", label="label"),
    "glue/rte": _glue(_TSV, "sentence1", "sentence2", label="label"),
    "glue/wnli": _glue(_TSV, "sentence1", "sentence2", label="label"),
    "glue/ax": _glue(
        "diagnostic.tsv",
        "sentence1",
        "sentence2",
        label="label",
        note="a test set without labels, for models of MNLI: name its split `test`, and list MNLI's labels in "
        "`encode.labels`",
    ),
    "clue/afqmc": _clue("sentence1", "sentence2"),
    "clue/tnews": _clue("sentence", note="its `keywords` are not read"),
    "clue/iflytek": _clue("sentence"),
    "clue/cmnli": _clue("sentence1", "sentence2", skip_labels=["-"], note=_NLI),
    "clue/ocnli": _clue(
        "sentence1", "sentence2", skip_labels=["-"], note=f"train.50k.json and others; {_NLI}"
    ),
    "clue/csl": _clue(
        "keyword", "abst", note="keywords, joined by spaces, and the abstract: CLUE's own order"
    ),
    "clue/cluewsc2020": _clue(
        "text",
        marks=[
            {"text": "target.span1_text", "start": "target.span1_index", "left": "_", "right": "_"},
            {"text": "target.span2_text", "start": "target.span2_index", "left": "[", "right": "]"},
        ],
        note="the name between `_`, the pronoun in `[]`, as CLUE's own code marks them",
    ),
    "clue/cluener": Preset(
        "tag",
        "train.json, dev.json, test.json",
        {"format": "jsonl", "text": "text", "label": "label", "label_optional": True, "separator": ""},
        "a label a character, B- and I- made from the mentions",
    ),
    "clue/cmrc": Preset(
        "span", "train.json, dev.json, trial.json", {"format": "squad"}, f"CMRC 2018{_ASKED}"
    ),
    "clue/drcd": Preset("span", "train.json, dev.json, test.json", {"format": "squad"}, f"DRCD{_ASKED}"),
    "clue/c3": Preset(
        "choice",
        "m-train.json, d-train.json, m-dev.json, d-dev.json; c3-*.json of its authors",
        {"format": "c3"},
    ),
    "webtext-zh": Preset(
        "pretrain",
        "web_text_zh_train.json, web_text_zh_valid.json",
        {"format": "jsonl", "text": ["title", "desc", "content"]},
        "webtext2019zh: question, its description and an answer",
    ),
    "kbert/chnsenticorp": Preset(
        "classify",
        _TSV,
        {"format": "tsv", "text": "text_a", "label": "label", "label_optional": True},
        "also the other files of a text and a label in K-BERT's repository",
    ),
    "kbert/medical_ner": Preset(
        "tag",
        _TSV,
        {"format": "tsv", "text": "text_a", "label": "label", "label_optional": True},
        "also its other files of characters and labels",
    ),
}

_NOT_SUPPORTED = {
    "clue/chid": "ChID's blanks share their candidates within a passage, which no task here can say",
}


def find_preset(name: str) -> Preset:
    """The preset of this name; ValueError names those that are near."""
    if name in PRESETS:
        return PRESETS[name]
    if reason := _NOT_SUPPORTED.get(name):
        raise ValueError(f"preset {name!r} is not supported: {reason}")
    full = {_fold(known): known for known in PRESETS}
    folded = {fold.partition("/")[2] or fold: known for fold, known in full.items()} | full
    near = difflib.get_close_matches(_fold(name), folded, n=3, cutoff=0.75)
    hits = list(dict.fromkeys(folded[fold] for fold in near))
    hint = f"did you mean {' or '.join(map(repr, hits))}?" if hits else f"there are {', '.join(PRESETS)}"
    raise ValueError(f"unknown preset {name!r}; {hint}")


def _fold(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "")
