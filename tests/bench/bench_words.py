"""What phrases and lexicons cost: greedy phrases of English words, jieba with a million words added.

Phrases: words with offsets to units, in million characters a second, cold (no word seen before) and warm, beside a
plain loop over a trie of dictionaries and beside Arrow's bare `dictionary_encode` of the same words.

jieba: cutting with a lexicon of a million words against cutting without, the two taken in turns; what loading the
lexicon costs; and that sentences without any of its words are cut alike.
"""

from __future__ import annotations

import itertools
import random
import re
import resource
import statistics
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from corpora.conllu import read_conllu
from pipelines.annotate.jieba_words import JiebaWords
from pipelines.encode.tokenizer import load_tokenizer
from pipelines.phrases.lexicon import PhraseLexicon
from pipelines.phrases.segment import units
from pipelines.ragged import Ints, bounds
from pipelines.slices import slices
from tests.pipelines.annotated import SAMPLES

pytestmark = pytest.mark.bench

PHRASE_BAR = 5e6
JIEBA_BAR = 1.3
ROUNDS = 7
COPIES = 10


def cpu(work: Callable[[], Any]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def english(path: Path) -> tuple[list[str], Ints, Ints, Ints, Ints]:
    """Sentences as texts, words' offsets in each, and the sentence of each word."""
    texts, starts, stops, counts = [], [], [], []
    for sentence in read_conllu(path):
        words = [(m.start(), m.end()) for m in re.finditer(r"\w+|[^\w\s]", sentence.text)]
        texts.append(sentence.text)
        starts += [a for a, _ in words]
        stops += [b for _, b in words]
        counts.append(len(words))
    offsets = bounds(counts * COPIES)
    flat = (np.tile(np.array(column), COPIES) for column in (starts, stops))
    return texts * COPIES, offsets, *flat, np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))


def frequent(words: list[str], sentences: Ints) -> list[tuple[str, ...]]:
    """Neighbours of two to four words that occur twice and more in one of the copies."""
    counts: Counter[tuple[str, ...]] = Counter()
    for size in (2, 3, 4):
        inside = sentences[: len(words) - size + 1] == sentences[size - 1 :]
        counts.update(tuple(words[i : i + size]) for i in np.flatnonzero(inside).tolist())
    return sorted(phrase for phrase, count in counts.items() if count >= 2 * COPIES)


def by_loop(trie: dict[str, Any], words: list[str], sentences: list[int]) -> list[int]:
    found, at = [], 0
    while at < len(words):
        found.append(at)
        node, stop, end = trie, at, at + 1
        while stop < len(words) and sentences[stop] == sentences[at]:
            node = node.get(words[stop])
            if node is None:
                break
            stop += 1
            if "" in node:
                end = stop
        at = end
    return found


def test_greedy_phrases(real_data: Path) -> None:
    texts, offsets, starts, stops, sentences = english(real_data / "ud/en_ewt/dev.conllu")
    characters = sum(map(len, texts))
    words = slices(texts, offsets, starts, stops)
    lowered = [word.lower() for word in words.to_pylist()]
    phrases = frequent(lowered, sentences)
    normalize = load_tokenizer(str(SAMPLES / "vocab.txt")).normalize
    lexicon = PhraseLexicon(phrases, normalize)
    trie: dict[str, Any] = {}
    for phrase in phrases:
        node = trie
        for word in phrase:
            node = node.setdefault(word, {})
        node[""] = {}

    def ours() -> Ints:
        return units(lexicon, slices(texts, offsets, starts, stops), sentences)

    def cold() -> None:
        lexicon._seen.clear()
        ours()

    listed = sentences.tolist()

    def loop() -> list[int]:
        cut = [
            text[a:b].lower()
            for text, low, high in zip(texts, offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)
            for a, b in zip(starts[low:high].tolist(), stops[low:high].tolist(), strict=True)
        ]
        return by_loop(trie, cut, listed)

    assert ours().tolist() == loop()
    rounds = [(cpu(cold), cpu(ours), cpu(loop), cpu(words.dictionary_encode)) for _ in range(ROUNDS)]
    times = [min(column) for column in zip(*rounds, strict=True)]
    rates = [characters / seconds / 1e6 for seconds in times]
    print(
        f"\ngreedy phrases ({len(phrases):,} of them, {len(words):,} words, {characters:,} characters), million "
        f"characters a second: {rates[0]:.0f} cold, {rates[1]:.0f} warm; a plain loop {rates[2]:.0f}, bare "
        f"dictionary_encode {rates[3]:.0f}; {times[2] / times[1]:.1f} times as fast as the loop, "
        f"{times[1] / times[3]:.1f} times the time of dictionary_encode"
    )
    assert rates[0] * 1e6 >= PHRASE_BAR


def test_jieba_with_a_million_words(real_data: Path, tmp_path: Path) -> None:
    lines = (real_data / "kbert/chnsenticorp/train.tsv").read_text(encoding="utf-8").split("\n")[1:2001]
    sentences = [s for line in lines for s in re.findall(r"[^。！？]+[。！？]*", line.split("\t")[1])]
    start = time.process_time()
    plain = JiebaWords()
    load_plain = time.process_time() - start
    lexicon = million_words(plain, sentences)
    path = tmp_path / "lexicon.txt"
    path.write_text("".join(f"{word}\n" for word in lexicon), encoding="utf-8")
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.process_time()
    added = JiebaWords(str(path))
    load = time.process_time() - start
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory

    names = set(lexicon)
    sizes = sorted({len(name) for name in names})
    free = [s for s in sentences if not any(s[i : i + n] in names for i in range(len(s)) for n in sizes)]
    assert len(sentences) / 2 < len(free) < len(sentences)
    assert all(list(plain._cut(s)) == list(added._cut(s)) for s in free)

    def cut(segmenter: JiebaWords) -> Callable[[], None]:
        def work() -> None:
            for sentence in sentences:
                list(segmenter._cut(sentence))

        return work

    pairs = [(cpu(cut(added)), cpu(cut(plain))) for _ in range(ROUNDS)]
    ratio = statistics.median(a / b for a, b in pairs)
    print(
        f"\njieba with {len(lexicon):,} words: {ratio:.2f} times jieba without (bar {JIEBA_BAR}); loaded in {load:.1f} s "
        f"CPU (jieba's own dictionary of 349,046 words: {load_plain:.1f} s), {memory / 1e3:,.0f} MB more; "
        f"{len(free):,} of {len(sentences):,} sentences hold none of the words, and are cut alike"
    )
    assert ratio <= JIEBA_BAR


def million_words(plain: JiebaWords, sentences: list[str]) -> list[str]:
    """Names of three to six characters as a graph has them: compounds, and some that stand in the sentences."""
    rng = random.Random(0)
    words = sorted({w for s in sentences for w in plain._cut(s) if 2 <= len(w) <= 3 and w.isalpha()})
    made = {a + b for s in sentences[::9] for a, b in _neighbours(list(plain._cut(s)))}
    while len(made) < 1_000_000:
        made.add(
            rng.choice(words)
            + (rng.choice(words) if rng.random() < 0.7 else chr(rng.randrange(0x4E00, 0x9FA5)))
        )
    found = sorted(made)
    rng.shuffle(found)
    return found


def _neighbours(words: list[str]) -> list[tuple[str, str]]:
    return [(a, b) for a, b in itertools.pairwise(words) if len(a) == len(b) == 2 and (a + b).isalpha()]
