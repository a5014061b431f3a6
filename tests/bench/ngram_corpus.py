"""Text of any length for n-gram counts: real sentences, repeated, and perturbed so that no repetition is the same.

    python -m tests.bench.ngram_corpus --words 10000000 --out text.txt

A line is a sentence, its words parted by spaces. The same arguments give the same bytes (over the same real data and
numpy), and a longer text begins with the shorter one. Nothing runs per word in Python, once the real text is read.

Real are the sentences: of the UD English Web Treebank, of Wikipedia pages (through the project's reader), of Chinese
reviews (words by jieba); about 1.3 million words. Each is drawn again and again, some a hundred times as often as
others, since counts of n-grams that all stand equally often have no discounts. Each word is replaced, with
probability 0.2, by one drawn as words of its language are spread, and with probability 0.005 by a new word, of which
there are ever more: of trigrams about half are real. So different n-grams grow nearly as words do, and the vocabulary
more slowly, as in text that is not repeated; a plain repetition would have no n-gram that the first has not.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import re
from collections.abc import Iterator
from pathlib import Path

import jieba
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from corpora.conllu import read_conllu
from corpora.layout import InputConfig
from pipelines.ragged import bounds, ranges
from tests.conftest import REAL_DATA
from tests.corpora.conftest import read_blocks

REPLACED, NEW = 0.2, 0.005
NEW_SHARE = 0.02
"""New words that there are, of the words written so far; each is the likelier the older it is."""
_SENTENCE_END = re.compile(r"(?<=[.!?]) (?=[A-Z0-9\"'])|\n+")
_WORD = re.compile(r"\w+(?:['’-]\w+)*|[^\w\s]")


def write_corpus(path: Path, words: int, seed: int = 0, real: Path = REAL_DATA) -> None:
    """Writes sentences until they have `words` words or a few more."""
    rng = np.random.default_rng(seed)
    sides = [[*treebank(real), *wikipedia(real)], list(reviews(real))]
    sentences = [sentence for side in sides for sentence in side]
    sizes = np.array([len(sentence) for sentence in sentences])
    encoded = pa.array(itertools.chain.from_iterable(sentences), pa.string()).dictionary_encode()
    flat = encoded.indices.to_numpy().astype(np.int64)
    edges = bounds(sizes)
    cut = edges[len(sides[0])]  # words of one language, then those of the other
    shuffled = rng.permutation(len(sizes))
    written = 0
    with path.open("wb") as file:
        while written < words:
            order = shuffled[(rng.random(len(sizes)) ** 2 * len(sizes)).astype(np.int64)]
            lengths = sizes[order]
            at = ranges(edges[:-1][order], lengths)
            low, high = np.where(at < cut, 0, cut), np.where(at < cut, cut, len(flat))
            drawn = flat[rng.integers(low, high)]
            text = np.where(rng.random(len(at)) < REPLACED, drawn, flat[at])
            new = rng.random(len(at)) < NEW
            numbers = (rng.random(new.sum()) ** 3 * NEW_SHARE * (written + len(at))).astype(np.int64)
            own = pc.binary_join_element_wise("new", pa.array(numbers).cast(pa.string()), "")
            spelt = pc.replace_with_mask(encoded.dictionary.take(pa.array(text)), pa.array(new), own)
            kept = int(np.searchsorted(np.cumsum(lengths), words - written)) + 1
            lines = pa.ListArray.from_arrays(pa.array(bounds(lengths), pa.int32()), spelt)[:kept]
            file.write("\n".join(pc.binary_join(lines, " ").to_pylist()).encode() + b"\n")
            written += int(lengths[:kept].sum())


def treebank(real: Path) -> Iterator[list[str]]:
    for sentence in read_conllu(str(real / "ud/en_ewt/train.conllu")):
        yield [form.replace(" ", "_") for form in sentence.forms]


def wikipedia(real: Path) -> Iterator[list[str]]:
    layout = InputConfig(format="wikipedia", files={"train": [str(real / "wiki/enwiki-sample.xml.bz2")]})
    for table in read_blocks(layout, real, "pretrain", "en", 1 << 40, 1 << 20):
        for text in table["text"].to_pylist():
            yield from filter(None, (_WORD.findall(part) for part in _SENTENCE_END.split(text)))


def reviews(real: Path) -> Iterator[list[str]]:
    for name in ("train", "dev", "test"):
        with (real / f"kbert/chnsenticorp/{name}.tsv").open(encoding="utf-8", newline="") as file:
            for row in itertools.islice(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE), 1, None):
                for part in re.split(r"(?<=[。！？])", row[-1]):
                    if words := [word for word in jieba.cut(part) if not word.isspace()]:
                        yield words


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--words", type=int, default=10_000_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    write_corpus(args.out, args.words, args.seed)


if __name__ == "__main__":
    main()
