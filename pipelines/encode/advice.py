"""What a user should know about the rows just made, or about to be made, and which key of the config mends it."""

from __future__ import annotations

from collections.abc import Mapping

from corpora import files
from corpora.layout import InputConfig
from pipelines.config import Config, names_file, resolve
from pipelines.encode_config import PretrainConfig
from pipelines.language import UNSPACED, primary_language
from pipelines.view.legible import legible
from pipelines.vocab.result import FINE_FILE, FOLDER

_CUT_AT_END = ("classify", "tag", "choice")
"""Tasks whose rows lose what is past `max_length`; questions have windows instead, and targets a budget."""
_MOST = 0.5
_FEW_DOCUMENTS = 2
_MOSTLY = 0.9
_MANY_UNKNOWN = 0.1
_LONGER_DOCUMENTS = {
    "text": {
        "blank_line": "if blank lines stand between sentences, set input.document to 'file'",
        "line": "if a line is no whole document, set input.document to 'blank_line' or 'file'",
    },
    "conllu": {
        "blank_line": "set input.document to 'newdoc' if the treebank has `# newdoc` lines, else to 'file'",
        "newdoc": "if most sentences have a `# newdoc` of their own, set input.document to 'file'",
    },
}
"""How documents come to hold more sentences, by `input.format` and `input.document`."""


def unused_phrases(config: Config, config_path: str) -> list[str]:
    """What to tell before a run whose coarse vocabulary has phrases, and whose config has not.

    A vocabulary may be shared: in a language without spaces, phrases in ASCII are those of another language.
    The vocabulary must be there.
    """
    coarse = config.encode.coarse
    if coarse is None or coarse.phrases is not None:
        return []
    others_ascii = primary_language(config.language) in UNSPACED
    lines = map(bytes.strip, files.read_bytes(resolve(config_path, coarse.vocab)).split(b"\n"))
    several = sum(b" " in line and not (others_ascii and line.isascii()) for line in lines)
    if not several:
        return []
    return [
        f"{several:,} entries of {legible(coarse.vocab)} are of several words, but the config names no phrases, so "
        "that none is looked for: set encode.coarse.phrases to the lexicon that the vocabulary was made of "
        "(phrases.tsv of `treegraft phrases`)"
    ]


def warnings(config: Config, config_path: str, out: str, counters: Mapping[str, int]) -> list[str]:
    """What to tell of a run of `config` into `out`, from its counters over all splits."""
    return [*_unknown_branches(config, config_path, out, counters), *_of_task(config, counters)]


def _unknown_branches(config: Config, config_path: str, out: str, counters: Mapping[str, int]) -> list[str]:
    unknown, tokens = counters.get("unknown_branch_tokens", 0), counters.get("branch_tokens", 0)
    if unknown <= _MANY_UNKNOWN * tokens:
        return []
    tokenizer, shown = config.encode.tokenizer, legible(config_path)
    if names_file(config_path, tokenizer, files.join(files.join(out, FOLDER), FINE_FILE)):
        cure = f"`treegraft vocab {shown} --fine --overwrite` makes a vocabulary of the text and those characters"
    elif tokenizer.endswith(".txt"):
        cure = (
            f"{legible(resolve(config_path, tokenizer))} comes from elsewhere: if `treegraft vocab` made it, run that "
            f"again with the config that it was made with and `--fine --overwrite --graph {shown}`, which adds those "
            "characters, then preprocess with --overwrite whatever has this tokenizer"
        )
    else:
        cure = f"`treegraft vocab {shown} --fine` makes a vocabulary of the text and those characters for a new model"
    return [
        f"{unknown:,} of {tokens:,} tokens of branches are [UNK] ({unknown / tokens:.1%}): encode.tokenizer lacks "
        f"characters of the graph, and a model learns little from such branches. {cure}; a pretrained model needs its "
        "own, and a graph in its language"
    ]


def _of_task(config: Config, counters: Mapping[str, int]) -> list[str]:
    if config.task == "pretrain":
        return pretrain_warnings(counters, config.encode.pretrain, config.input)
    cut, rows = counters.get("truncated_rows", 0), counters.get("rows", 0)
    if config.task == "seq2seq" and config.input.format == "squad" and config.input.context is None:
        if cut <= _MOST * rows:
            return []
        return [
            f"{cut:,} of {rows:,} rows lost tokens, mostly at the end of their texts, wherever the answer stands: set "
            "input.context, so that texts are cut around their answers, or raise encode.max_length"
        ]
    if config.task not in _CUT_AT_END or cut <= _MOST * rows:
        return []
    return [
        f"{cut:,} of {rows:,} rows lost tokens to encode.max_length = {config.encode.max_length}: raise it, if the "
        "model takes longer rows"
    ]


def pretrain_warnings(counters: Mapping[str, int], config: PretrainConfig, source: InputConfig) -> list[str]:
    """What a user should know about a corpus, from the totals of `pretrain_rows` and `records`."""
    documents, sentences = counters.get("records", 0), counters.get("sentences", 0)
    lone = counters.get("single_sentence_documents", 0)
    found = []
    if documents >= _FEW_DOCUMENTS and lone >= _MOSTLY * documents:
        by_document = _LONGER_DOCUMENTS.get(source.format)
        longer = "join the sentences of a document in one record"
        ways = [longer if by_document is None else by_document.get(source.document, "")]
        if config.segments == "single":
            means = "no row is longer than its sentence"
        else:
            means = (
                "every pair needs another document" if config.random_next else "no pair can be made of those"
            )
            ways.append("set encode.pretrain.segments to 'single'")
        found.append(
            f"{lone:,} of {documents:,} documents are a single sentence ({sentences:,} sentences in all): "
            + "; ".join([means, ", or ".join(filter(None, ways))]).removesuffix("; ")
            + "."
        )
    if pairs := counters.get("pairs_without_other_document", 0):
        found.append(
            f"{pairs:,} pairs are in blocks that hold one document only, so none of them is random. Raise "
            "run.block_bytes, or split long documents."
        )
    return found
