"""Rebuild the two vocabularies of the embedded samples from the samples themselves.

    python -m pipelines.training.sample_vocab [--samples DIR] [--out DIR]

writes `vocab.txt` (fine: WordPiece, as BERT uncased and BERT-base-Chinese cut text) and
`coarse_vocab.txt` (coarse: whole words, for AMBERT). The same texts give the same bytes on every
run (`pipelines.vocab.wordpiece` says what that takes).
"""

from __future__ import annotations

import argparse
import json
import logging
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import jieba
import spacy
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer

from pipelines.vocab.wordpiece import SPECIALS as SPECIAL_TOKENS
from pipelines.vocab.wordpiece import alphabet, character_forms, train

SAMPLES = Path(__file__).resolve().parents[2] / "corpora" / "samples"
HAN = re.compile("[\u3400-\u9fff]")

Texts = Sequence[tuple[str, str]]
"""(language, text) pairs; language is `zh` or `en`."""


def _lines(path: Path) -> list[str]:
    return [line for line in path.read_text(encoding="utf-8").split("\n") if line.strip()]


def _column(path: Path, name: str) -> Iterator[str]:
    header, *rows = (line.split("\t") for line in _lines(path))
    if name not in header:
        raise ValueError(f"{path}: expected a column {name!r}, found {header}")
    for row in rows:
        yield row[header.index(name)]


def sample_texts(samples: Path = SAMPLES) -> list[tuple[str, str]]:
    """All texts of the samples and all strings of the graph, in a fixed order, each counted once per row.

    Args:
        samples: the folder that holds `zh/`, `en/` and `graph.spo`.

    Returns:
        (language, text) pairs; Chinese NER characters are joined again.

    Raises:
        FileNotFoundError: a sample file is missing.
        ValueError: a TSV file lacks its text column.
    """
    texts: list[tuple[str, str]] = []
    for lang, joiner in (("zh", ""), ("en", " ")):
        folder = samples / lang
        texts += [(lang, line) for line in _lines(folder / "pretrain.txt")]
        texts += [(lang, text) for text in _column(folder / "reviews.tsv", "text_a")]
        for name in ("ner.train.tsv", "ner.dev.tsv"):
            texts += [(lang, joiner.join(text.split(" "))) for text in _column(folder / name, "text_a")]
        pairs = folder / ("similarity.jsonl" if lang == "zh" else "pairs.jsonl")
        for line in _lines(pairs):
            record = json.loads(line)
            texts += [(lang, record["text"]), (lang, record["text_pair"])]
        for line in _lines(folder / "summaries.jsonl"):
            record = json.loads(line)
            texts += [(lang, record["article"]), (lang, record["summary"])]
        questions = sorted(folder.glob("questions.*.json"))
        choices = sorted([*folder.glob("choice.*.json"), *folder.glob("race/*/*.txt")])
        for path in (*questions, *choices):
            texts += [(lang, text) for text in _strings(json.loads(path.read_text(encoding="utf-8")))]
    for line in _lines(samples / "graph.spo"):
        lang = "zh" if HAN.search(line) else "en"
        texts += [(lang, field) for field in line.split("\t")]
    return texts


_NO_TEXT = frozenset(("id", "context_id", "query_id", "version", "answers", "answer"))


def _strings(value: Any) -> Iterator[str]:
    """Texts of a question or choice file: every string but ids and answers, which repeat what stands elsewhere."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            if key not in _NO_TEXT:
                yield from _strings(item)


def fine_vocabulary(texts: Iterable[str], size: int = 6000, min_frequency: int = 2) -> list[str]:
    """A WordPiece vocabulary of `texts` as BERT's uncased models cut them.

    Args:
        texts: raw texts, in any order.
        size: the largest number of entries; all characters are kept even beyond it.
        min_frequency: how often a pair must occur to be merged into a piece.

    Returns:
        Entries by id: the special tokens, both forms of the characters in code point order, then
        merged pieces in the order in which they were made.
    """
    normalizer, pre_tokenizer = BertNormalizer(lowercase=True), BertPreTokenizer()
    words: Counter[str] = Counter()
    for text in texts:
        words.update(word for word, _ in pre_tokenizer.pre_tokenize_str(normalizer.normalize_str(text)))
    characters = alphabet(character_forms(words), lowercase=True)
    return train(words, characters, size, min_frequency).entries


def coarse_words(texts: Texts) -> Counter[str]:
    """Counts of lower-cased words: jieba's for `zh`, spaCy's English tokenizer's for `en`."""
    jieba.setLogLevel(logging.WARNING)
    chinese = jieba.Tokenizer()  # a private one: a user dictionary loaded elsewhere changes nothing here
    english = spacy.blank("en").tokenizer
    counts: Counter[str] = Counter()
    for lang, text in texts:
        words = chinese.lcut(text) if lang == "zh" else [token.text for token in english(text)]
        counts.update(word.lower() for word in words if word.strip())
    return counts


def coarse_vocabulary(
    texts: Texts, size: int = 5000, min_count: int = 1, phrases: Sequence[str] = ()
) -> list[str]:
    """Coarse entries by id: the special tokens, then words by falling count, ties by code point, then phrases.

    Args:
        texts: (language, text) pairs.
        size: the largest number of entries, special tokens included.
        min_count: words that occur less often are left out.
        phrases: all of which get in.
    """
    counts = coarse_words(texts)
    words = [word for word, count in counts.items() if count >= min_count and word not in SPECIAL_TOKENS]
    words.sort(key=lambda word: (-counts[word], word))
    return [*[*SPECIAL_TOKENS, *words][: size - len(phrases)], *phrases]


def write_vocabulary(entries: Sequence[str], path: Path) -> None:
    """One entry a line, UTF-8, LF; renamed into place once it is whole."""
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_bytes("".join(entry + "\n" for entry in entries).encode("utf-8"))
    temporary.replace(path)


def build(samples: Path, out: Path) -> dict[str, int]:
    """Write both vocabularies into `out`; return their sizes by file name."""
    texts = sample_texts(samples)
    vocabularies = {
        "vocab.txt": fine_vocabulary(text for _, text in texts),
        "coarse_vocab.txt": coarse_vocabulary(texts, phrases=_lines(samples / "en" / "phrases.txt")),
    }
    out.mkdir(parents=True, exist_ok=True)
    for name, entries in vocabularies.items():
        write_vocabulary(entries, out / name)
    return {name: len(entries) for name, entries in vocabularies.items()}


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Rebuild the vocabularies of the embedded samples.")
    parser.add_argument("--samples", type=Path, default=SAMPLES, help="folder with zh/, en/ and graph.spo")
    parser.add_argument("--out", type=Path, help="where to write; default: the samples' folder")
    args = parser.parse_args(argv)
    out = args.out or args.samples
    for name, size in build(args.samples, out).items():
        print(f"{out / name}: {size} entries")


if __name__ == "__main__":
    main()
