"""What coarse tokens say, asked of the coarse vocabulary and the tokenizer that lie beside a dataset's shards.

`verify` compares every coarse token with its text, by no rule that encoding shares beside how the tokenizer compares
text. A coarse token must be the text it covers but for white space. Where fine tokens reach over the ends of words
("cannot" where "can" and "not" are words), its words must stand there in order, and over the ends of what it covers;
at a row's edge, where a word is cut, it must hold what is left. A single fine token may also have its own string, such
as `##ing`.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from corpora import files
from corpora.verify.coarse_text import Covered
from pipelines.encode.tokenizer import Tokenizer, load_tokenizer
from pipelines.slices import slices
from pipelines.view.folder import COARSE_TOKENS, TOKENIZER, open_folder

_MOST_KEPT = 1_000_000


class Recoarse:
    """A callable for `corpora.verify.verify(coarse_text=...)`; opens what it needs at the first call."""

    def __init__(self, folder: str) -> None:
        """`folder`: of a dataset with coarse tokens; with others it is never called."""
        self._folder = folder
        self._inked: dict[str, str] = {}

    def __call__(self, covered: Covered) -> NDArray[np.bool_]:
        """Which coarse tokens are what their text says; all where vocabulary or tokenizer are not at hand.

        Raises ValueError or OSError where they are damaged, or not those of the dataset.
        """
        right: NDArray[np.bool_] = np.ones(len(covered.ids), bool)
        if not len(right) or not all(
            files.exists(files.join(self._folder, n)) for n in (COARSE_TOKENS, TOKENIZER)
        ):
            return right
        names, unknown, tokenizer = self._opened
        places = (np.asarray(of, np.int64) for of in (covered.offsets, covered.starts, covered.stops))
        encoded = slices(covered.texts, *places).dictionary_encode().combine_chunks()
        said = encoded.dictionary.to_pylist()
        pairs = covered.ids * len(said) + encoded.indices.to_numpy(zero_copy_only=False)
        distinct, which = np.unique(pairs, return_inverse=True)
        same = [self._ink(names[p // len(said)]) == self._ink(said[p % len(said)]) for p in distinct.tolist()]
        right = np.array(same, bool)[which] | (covered.ids == unknown)
        texts = np.repeat(np.arange(len(covered.texts)), np.diff(covered.offsets))
        for i in np.flatnonzero(~right).tolist():
            name, text = names[covered.ids[i]], covered.texts[texts[i]]
            part = text[covered.starts[i] : covered.stops[i]]
            surface = None if covered.fine[i] < 0 else tokenizer.surface(covered.fine[i])
            right[i] = (
                (surface is not None and tokenizer.normalize(surface) == tokenizer.normalize(name))
                or bool(covered.edge[i] and self._ink(part) in self._ink(name))
                or self._reached_over(
                    name,
                    text,
                    *(int(c[i]) for c in (covered.from_, covered.starts, covered.lasts, covered.to)),
                )
            )
        return right

    def _reached_over(self, name: str, text: str, low: int, start: int, last: int, high: int) -> bool:
        """Whether the words of `name` stand in `text[low:high]` in order, the first over the character at `start`, and
        the last up to the fine token at `last` or further."""
        first, *others = map(self._ink, name.split(" "))
        ink = self._ink(text[low:high])
        begin, end = (len(self._ink(text[low:at])) for at in (start, last))
        for at in range(max(begin - len(first) + 1, 0), begin + 1):
            if not ink.startswith(first, at):
                continue
            stop = at + len(first)
            for word in others:
                found = ink.find(word, stop)
                if found < 0:
                    break
                stop = found + len(word)
            else:
                if stop > end:
                    return True
        return False

    def _ink(self, text: str) -> str:
        """`text` as it is compared, without white space."""
        if len(self._inked) > _MOST_KEPT:
            self._inked.clear()
        if text not in self._inked:
            self._inked[text] = "".join(self._opened[2].normalize(text).split())
        return self._inked[text]

    @cached_property
    def _opened(self) -> tuple[list[str], int, Tokenizer]:
        folder = open_folder(self._folder)
        names, size = folder.strings(COARSE_TOKENS) or [], folder.metadata.get("coarse_vocab_size")
        if len(names) != size:
            raise ValueError(
                f"{COARSE_TOKENS} has {len(names):,} tokens, the dataset's vocabulary has {size}"
            )
        tokenizer = load_tokenizer(files.join(self._folder, TOKENIZER))
        return names, int(folder.metadata["coarse_special_ids"]["unk"]), tokenizer
