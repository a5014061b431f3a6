"""Knowledge graphs of the size that users bring, made up: `.spo` files of millions of triples in seconds.

    python -m tests.bench.graphs --subjects 3000000 --triples 10000000 --out big.spo

The same arguments give the same bytes (over the same real data and numpy). Nothing runs per triple in Python.

What is like a real graph (CN-DBpedia, HowNet):
- strings: characters follow one another as in real text and real subjects (a chain of character bigrams
  counted in HowNet's subjects, reviews and abstracts); two in five strings grow out of a real word, so that
  subjects share prefixes; lengths are 2 to 12 characters, most 3 to 6;
- subjects: every subject of HowNet and the words of jieba's dictionary are among them (up to half of all), so
  that most words of a text are subjects and many subjects occur in text;
- out-degrees: a power law, most subjects have 1 to 3 triples, hubs up to 100,000; half of the largest hubs
  are real words, which texts will meet;
- predicates: about 20,000, Zipf; objects: a third are subjects (Zipf), a third come from a pool of common
  values (Zipf), the rest stand once; 2 to 30 characters, one in 5,000 up to 3,000 characters long;
- order: a subject's triples stand together, subjects in no order. Repeated and self triples happen by chance.

What is not: the triples mean nothing; bigrams know no word boundaries, so that made subjects are less often
words than real ones; there is hardly any Latin script, traditional spelling or punctuation, and no markup;
which words are hubs, and which objects subjects, is drawn without regard to meaning.

Where the real data is absent, characters and bigrams are drawn from a made alphabet of 3,000 ideographs.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

import jieba
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tests.conftest import REAL_DATA

HUB = 100_000
PREDICATES = 20_000
COMMON_VALUES = 200_000
LONG_SHARE = 1 / 5000
LONGEST = 3000
CHUNK = 1_000_000
SUBJECT_LENGTHS = {2: 6, 3: 18, 4: 22, 5: 14, 6: 12, 7: 9, 8: 7, 9: 5, 10: 3, 11: 2, 12: 2}
VALUE_LENGTHS = {n: 20 / n for n in range(2, 31)}

Codes = npt.NDArray[np.uint32]


def write_graph(path: Path, subjects: int, triples: int, seed: int = 0, real: Path = REAL_DATA) -> None:
    """Writes `triples` lines of subject, predicate, object over `subjects` distinct subjects."""
    if not 1 <= subjects <= triples:
        raise ValueError(f"every subject has a triple: {subjects} subjects need as many, found {triples}")
    rng = np.random.default_rng(seed)
    words, texts = real_strings(real)
    chain = Chain(words, texts, rng)
    names, known = subject_names(chain, words, subjects, rng)
    degrees = out_degrees(subjects, triples)
    owners = np.repeat(place_hubs(degrees, known, rng), np.sort(degrees)[::-1])
    # The triples of a subject stand together, the subjects in no order.
    owners = owners[np.argsort(rng.permutation(subjects).astype(np.int32)[owners], kind="stable")]
    predicates = distinct(chain, PREDICATES, {2: 5, 3: 3, 4: 4, 5: 1, 6: 1}, rng)
    common = chain.strings(COMMON_VALUES, VALUE_LENGTHS, rng)
    with path.open("wb") as file:
        for start in range(0, triples, CHUNK):
            owner = owners[start : start + CHUNK]
            predicate = predicates.take(pa.array(zipf(len(owner), len(predicates), 1.1, rng)))
            value = objects(chain, names, common, len(owner), rng)
            file.write(joined(names.take(pa.array(owner)), predicate, value))


def joined(*columns: pa.LargeStringArray) -> memoryview:
    """The lines of a file, whose fields are `columns`."""
    tab, newline, nothing = (pa.scalar(text, pa.large_string()) for text in ("\t", "\n", ""))
    lines = pc.binary_join_element_wise(pc.binary_join_element_wise(*columns, tab), newline, nothing)
    _, offsets, data = lines.buffers()
    return memoryview(data)[: int(np.frombuffer(offsets, np.int64)[len(lines)])]


def real_strings(real: Path) -> tuple[list[str], list[str]]:
    """Real words (subjects, a dictionary) and real texts; both empty where the data is absent."""
    if not real.is_dir():
        return [], []
    lines = (real / "kg/HowNet.spo").read_text(encoding="utf-8").split("\n")
    words = list(dict.fromkeys(line.split("\t")[0] for line in lines if line))
    with jieba.get_dict_file() as dictionary:
        listed = [line.decode().split(" ", 1)[0] for line in dictionary]
    words += [word for word in listed if 2 <= len(word) <= 12]
    reviews = (real / "kbert/chnsenticorp/train.tsv").read_text(encoding="utf-8").split("\n")[1:]
    abstracts = (real / "clue/csl.jsonl").read_text(encoding="utf-8").splitlines()
    return list(dict.fromkeys(words)), reviews + [json.loads(line)["abst"] for line in abstracts]


def flat_codes(strings: list[str]) -> Codes:
    return np.frombuffer("\n".join(["", *strings, ""]).encode("utf-32-le"), np.uint32)


class Chain:
    """Which character follows which, and how often."""

    def __init__(self, words: list[str], texts: list[str], rng: np.random.Generator) -> None:
        if words:
            in_words, in_texts = flat_codes(words), flat_codes(texts)
            pairs = np.concatenate([np.stack([c[:-1], c[1:]], 1) for c in (in_words, in_texts)])
            starts = in_words[1:][in_words[:-1] == ord("\n")]
        else:  # Zipf over a made alphabet; every character has 40 others that follow it
            alphabet = rng.permutation(np.arange(0x4E00, 0x4E00 + 3000, dtype=np.uint32))
            starts = alphabet[zipf(500_000, 3000, 0.9, rng)]
            after = alphabet[zipf(3000 * 40, 3000, 0.9, rng)].reshape(3000, 40)
            pairs = np.stack([starts, after[starts - 0x4E00, zipf(len(starts), 40, 0.8, rng)]], 1)
        pairs = pairs[((pairs >= 0x4E00) & (pairs <= 0x9FFF)).all(1)]
        starts = starts[(starts >= 0x4E00) & (starts <= 0x9FFF)]
        # Every character can go on: those that nothing followed are followed by the starts of words.
        dead = np.setdiff1d(np.concatenate([pairs[:, 1], starts]), pairs[:, 0])
        go_on = np.stack([np.repeat(dead, 20), rng.choice(starts, len(dead) * 20)], 1)
        keys = np.concatenate([pairs, go_on]).astype(np.uint64)
        found, counts = np.unique(keys[:, 0] << np.uint64(32) | keys[:, 1], return_counts=True)
        self.after = (found & np.uint64(0xFFFFFFFF)).astype(np.uint32)
        self.sums = np.cumsum(counts, dtype=np.float64)
        before = (found >> np.uint64(32)).astype(np.int64)
        bounds = np.concatenate([[0.0], self.sums])
        codes = np.arange(0xA000)
        self.low = bounds[np.searchsorted(before, codes)]
        self.high = bounds[np.searchsorted(before, codes, "right")]
        self.starts = starts
        short = [w for w in words if 2 <= len(w) <= 4 and all("\u4e00" <= c <= "\u9fff" for c in w)]
        self.stems = np.array(short, "U4").view(np.uint32).reshape(-1, 4) if short else None

    def strings(self, count: int, lengths: dict[int, float], rng: np.random.Generator) -> pa.LargeStringArray:
        """`count` strings whose lengths are drawn with the weights `lengths`."""
        weights = np.array(list(lengths.values()), np.float64)
        size = rng.choice(np.array(list(lengths)), count, p=weights / weights.sum())
        out = np.zeros((count, max(lengths)), np.uint32)
        grown = np.zeros(count, np.int64)  # characters that a row has from its stem
        if self.stems is not None and out.shape[1] >= 4:
            rows = np.flatnonzero(rng.random(count) < 0.4)
            out[rows, :4] = self.stems[rng.integers(len(self.stems), size=len(rows))]
            grown[rows] = (out[rows, :4] > 0).sum(1)
        first = grown == 0
        out[first, 0] = rng.choice(self.starts, int(first.sum()))
        for at in range(1, out.shape[1]):
            rows = np.flatnonzero((at < size) & (at >= grown))
            state = out[rows, at - 1]
            draw = self.low[state] + rng.random(len(rows)) * (self.high[state] - self.low[state])
            out[rows, at] = self.after[np.searchsorted(self.sums, draw, "right")]
        out[np.arange(out.shape[1]) >= np.maximum(size, grown)[:, None]] = 0
        made = pa.array(out.view(f"U{out.shape[1]}").ravel(), pa.string()).cast(pa.large_string())
        return made.combine_chunks() if isinstance(made, pa.ChunkedArray) else made


def distinct(
    chain: Chain, count: int, lengths: dict[int, float], rng: np.random.Generator, *given: pa.LargeStringArray
) -> pa.LargeStringArray:
    """`count` strings of which no two are the same, those `given` first."""
    found = pa.concat_arrays([*given, chain.strings(count // 2, lengths, rng)]).unique()
    while len(found) < count:
        more = chain.strings(2 * (count - len(found)) + 1000, lengths, rng)
        before, found = len(found), pa.concat_arrays([found, more]).unique()
        if len(found) - before < (count - before) // 4:  # the short ones are used up
            lengths = {size + 1: weight for size, weight in lengths.items()}
    return found[:count]


def subject_names(
    chain: Chain, words: list[str], count: int, rng: np.random.Generator
) -> tuple[pa.LargeStringArray, int]:
    """The subjects, and how many of them, at the front, are real words."""
    known = words[: max(count // 2, min(count, 55_000))]  # HowNet's come first
    given = pa.array(known, pa.large_string())
    return distinct(chain, count, {k: float(v) for k, v in SUBJECT_LENGTHS.items()}, rng, given), len(known)


def out_degrees(subjects: int, triples: int) -> npt.NDArray[np.int64]:
    """A power law between 1 and HUB whose sum is `triples`; quantiles, so that nothing is drawn."""
    sizes = np.arange(1, min(HUB, max(1, triples // 50)) + 1, dtype=np.float64)
    low, high = 1.01, 12.0
    for _ in range(60):
        middle = (low + high) / 2
        weights = sizes**-middle
        low, high = (
            (middle, high) if (sizes * weights).sum() / weights.sum() > triples / subjects else (low, middle)
        )
    share = np.cumsum(weights) / weights.sum()
    degrees = np.searchsorted(share, (np.arange(subjects) + 0.5) / subjects) + 1
    degrees[-1] = len(sizes)  # at least one hub
    short = triples - int(degrees.sum())
    while short:  # what rounding left, one apiece
        fit = np.flatnonzero(degrees > 1) if short < 0 else np.arange(subjects)
        step = fit[: abs(short)]
        degrees[step] += 1 if short > 0 else -1
        short = triples - int(degrees.sum())
    return degrees


def place_hubs(degrees: npt.NDArray[np.int64], known: int, rng: np.random.Generator) -> npt.NDArray[np.int32]:
    """Subjects by falling degree: every second of the hundred largest hubs is a real word."""
    order = rng.permutation(len(degrees)).astype(np.int32)
    real = np.flatnonzero(order < known)[: min(50, len(degrees) // 2)]
    placed = np.zeros(len(degrees), bool)
    placed[: 2 * len(real) : 2] = True
    out = np.empty_like(order)
    out[placed], out[~placed] = order[real], np.delete(order, real)
    return out


def zipf(count: int, size: int, power: float, rng: np.random.Generator) -> npt.NDArray[np.int64]:
    """`count` numbers below `size`, small ones likelier."""
    sums = np.cumsum(np.arange(1, size + 1, dtype=np.float64) ** -power)
    return np.searchsorted(sums, rng.random(count) * sums[-1], "right")


def objects(
    chain: Chain,
    names: pa.LargeStringArray,
    common: pa.LargeStringArray,
    count: int,
    rng: np.random.Generator,
) -> pa.LargeStringArray:
    kinds = rng.random(count)
    in_graph, frequent = int((kinds < 1 / 3).sum()), int(((kinds >= 1 / 3) & (kinds < 2 / 3)).sum())
    long = max(1, round(count * LONG_SHARE))
    parts = [
        names.take(pa.array(zipf(in_graph, len(names), 0.8, rng))),
        common.take(pa.array(zipf(frequent, len(common), 1.0, rng))),
        chain.strings(max(0, count - in_graph - frequent - long), VALUE_LENGTHS, rng),
        pa.array(list(long_values(chain, long, rng)), pa.large_string()),
    ]
    return pa.concat_arrays(parts)[:count].take(pa.array(rng.permutation(count)))


def long_values(chain: Chain, count: int, rng: np.random.Generator) -> Iterator[str]:
    for size in rng.integers(31, LONGEST, count):
        yield "，".join(chain.strings(int(size) // 30 + 1, {29: 1.0}, rng).to_pylist())[: int(size)]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--subjects", type=int, default=3_000_000)
    parser.add_argument("--triples", type=int, default=10_000_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    write_graph(args.out, args.subjects, args.triples, args.seed)


if __name__ == "__main__":
    main()
