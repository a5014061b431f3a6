"""What jieba's dictionary teaches a Chinese tagger and parser: 349,046 words, each with a count and a tag.

A fifth of the words of new text is missing from treebanks as small as the Chinese ones, and the dictionary has three
in four of those. The word vectors are therefore trained to tell a word's tag, first alone and then beside the parser,
and words of treebank sentences are exchanged for others of the same tag and length. Nothing of the dictionary is needed
in use: what it says is in the weights.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import accumulate

import jieba
import numpy as np
from spacy.language import Language
from spacy.tokens import Doc
from thinc.api import Adam, Optimizer, Softmax, warmup_linear

from pipelines.training.treebanks import Sentence

# The dictionary's tags (ICTCLAS) whose words may stand for each other under one UPOS tag. Others are too few, or too
# much of grammar, to be exchanged.
_EXCHANGED = {
    "NOUN": frozenset(("n", "l", "t", "s", "j")),
    "VERB": frozenset(("v", "i")),
    "PROPN": frozenset(("ns", "nr", "nt", "nz", "nrt")),
    "ADJ": frozenset(("a", "b")),
}


@dataclass(frozen=True)
class Dictionary:
    """W words with their tags, and their counts in the text that the dictionary was made from."""

    words: tuple[str, ...]
    tags: tuple[str, ...]
    counts: tuple[int, ...]

    @cached_property
    def tag(self) -> dict[str, str]:
        return dict(zip(self.words, self.tags, strict=True))

    @cached_property
    def alike(self) -> dict[tuple[str, int], tuple[list[str], list[float]]]:
        """Words of one tag and length, with running sums of the square roots of their counts."""
        groups: dict[tuple[str, int], tuple[list[str], list[float]]] = {}
        for word, tag, count in zip(self.words, self.tags, self.counts, strict=True):
            words, weights = groups.setdefault((tag, len(word)), ([], []))
            words.append(word)
            weights.append(count**0.5)
        return {key: (words, list(accumulate(weights))) for key, (words, weights) in groups.items()}

    def exchange(self, s: Sentence, part: float, rng: random.Random) -> Sentence:
        """The sentence with about `part` of its nouns, names, verbs and adjectives exchanged; the tree stays.

        Words of one character stay: they are many, and mean too many things. Frequent words come as the square
        root of their count, so that rare ones are met too.
        """
        words = list(s.words)
        for i, (word, upos) in enumerate(zip(s.words, s.upos, strict=True)):
            tag = self.tag.get(word, "")
            if tag in _EXCHANGED.get(upos, ()) and len(word) > 1 and rng.random() < part:
                others, weights = self.alike[tag, len(word)]
                words[i] = rng.choices(others, cum_weights=weights)[0]
        return replace(s, words=tuple(words))


@cache
def jieba_dictionary() -> Dictionary:
    """The dictionary that comes with jieba, as its file has it; words that never occurred are left out."""
    with jieba.get_dict_file() as file:
        lines = (line.decode("utf-8").split() for line in file)
        entries = [(word, tag, int(count)) for word, count, tag in lines if count != "0"]
    words, tags, counts = zip(*entries, strict=True)
    return Dictionary(words, tags, counts)


class TagLessons:
    """Teach the word vectors of `nlp`, before its encoder sees neighbours, to tell the tag of a word.

    Words are drawn by the square root of their counts. `nlp` must be initialised; the layer that guesses tags from
    vectors is kept here, and is not part of it.
    """

    def __init__(self, nlp: Language, dictionary: Dictionary, *, seed: int = 0) -> None:
        labels = {tag: i for i, tag in enumerate(sorted(set(dictionary.tags)))}
        tok2vec = nlp.get_pipe("tok2vec").model
        self._nlp, self._words = nlp, dictionary.words
        self._targets = np.asarray([labels[tag] for tag in dictionary.tags])
        self._chances = np.cumsum(np.sqrt(np.asarray(dictionary.counts, dtype=np.float64)))
        self._rng = np.random.default_rng(seed)
        self._embed = tok2vec.layers[0]
        self._guess = Softmax(nO=len(labels), nI=tok2vec.get_dim("nO"))
        self._guess.initialize()

    def first(self, updates: int, words: int = 1000) -> float:
        """Before all else: so many updates, Adam at 0.003 with warm-up and linear decay to nothing.

        Returns the part of the last fifty updates' words whose tag was right before they were trained on.
        """
        optimizer = Adam(warmup_linear(0.003, 50, updates + 50), L2=0.0, grad_clip=1.0)  # type: ignore[arg-type]
        right: list[float] = []
        for _ in range(updates):
            right.append(self.update(optimizer, words))
            optimizer.step_schedules()
        return float(np.mean(right[-50:]))

    def update(self, optimizer: Optimizer, words: int, weight: float = 1.0) -> float:
        """One update on so many words; the part of them whose tag was right before."""
        drawn = np.searchsorted(self._chances, self._rng.random(words) * self._chances[-1], side="right")
        text = Doc(self._nlp.vocab, words=[self._words[i] for i in drawn])
        (vectors,), backward = self._embed([text], is_train=True)
        guesses, guess_backward = self._guess(vectors, is_train=True)
        gradient = np.array(guesses)
        gradient[np.arange(words), self._targets[drawn]] -= 1
        backward([guess_backward(gradient * np.float32(weight))])
        self._guess.finish_update(optimizer)
        self._embed.finish_update(optimizer)
        return float((guesses.argmax(axis=1) == self._targets[drawn]).mean())
