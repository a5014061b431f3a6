"""The Universal Dependencies treebanks that the embedded parsers are trained on, brought to one convention.

Of the four small Chinese treebanks PUD and HK are in traditional characters and each labels in its own way; the
words are simplified one by one and the labels follow GSD, the largest Chinese treebank. GSD itself is untouched.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from corpora.conllu import ConlluSentence, read_conllu

TREEBANKS = {
    "en": ("en_ewt/train.conllu", "en_ewt/dev.conllu"),
    "zh": ("zh/gsdsimp-dev.conllu", "zh/pud.conllu", "zh/hk.conllu", "zh/cfl.conllu"),
}
HELD_OUT = 5  # every fifth sentence of GSDSimp dev is never trained on: Chinese has no other test set here


@dataclass(frozen=True)
class Sentence:
    """W words with whether a space follows, part of speech, head (0-based, a root is its own) and relation."""

    document: str
    words: tuple[str, ...]
    spaces: tuple[bool, ...]
    upos: tuple[str, ...]
    heads: tuple[int, ...]
    deprels: tuple[str, ...]


def load(ud: Path, lang: str) -> tuple[list[list[Sentence]], list[ConlluSentence]]:
    """Training treebanks, and the sentences to measure on, none of them trained on.

    Raises `FileNotFoundError` naming every missing file, `ConlluError` naming a malformed line.
    """
    paths = [ud / name for name in TREEBANKS[lang]]
    if missing := [str(path) for path in paths if not path.is_file()]:
        raise FileNotFoundError(
            f"{lang}: missing {', '.join(missing)}; --ud must name a folder with {', '.join(TREEBANKS[lang])} "
            "(from the releases at https://universaldependencies.org)"
        )
    first, *rest = (list(read_conllu(path)) for path in paths)
    if lang == "en":
        return [[plain(s, "ewt") for s in first]], rest[0]
    simplify = simplifier()
    others = [
        [harmonised(simplify(plain(s, path.stem))) for s in bank]
        for path, bank in zip(paths[1:], rest, strict=True)
    ]
    train = [plain(s, "gsd") for i, s in enumerate(first) if i % HELD_OUT]
    return [train, *others], first[::HELD_OUT]


def plain(s: ConlluSentence, treebank: str) -> Sentence:
    """The columns trained on."""
    return Sentence(f"{treebank}/{s.doc_id}", s.forms, s.spaces, s.upos, s.heads, s.deprels)


def simplifier() -> Callable[[Sentence], Sentence]:
    """Traditional to simplified characters, word by word so that words and their lengths stay."""
    try:
        import opencc
    except ImportError as error:
        raise ImportError(
            'OpenCC simplifies the traditional treebanks: pip install "treegraft[dev]"'
        ) from error
    convert = opencc.OpenCC("t2s").convert

    def simplify(sentence: Sentence) -> Sentence:
        words = ((word, convert(word)) for word in sentence.words)
        return replace(sentence, words=tuple(new if len(new) == len(old) else old for old, new in words))

    return simplify


# The treebanks' conventions differ; GSD's are taken, being those of the largest Chinese treebank.
_LABELS = {
    "case:loc": "case",
    "mark:prt": "mark",
    "mark:adv": "mark",
    "obl:tmod": "nmod:tmod",
    "obl:agent": "obl",
    "obj:periph": "obj",
    "nsubj:outer": "nsubj",
    "advmod:df": "advmod",
    "compound:vv": "compound",
    "compound:dir": "compound",
    "compound:ext": "compound",
    "compound:vo": "compound",
}
# Linking adverbs that GSD marks as SCONJ/mark and the others as ADV/advmod.
_LINKERS = frozenset(
    ("也", "而", "但", "并", "但是", "却", "亦", "则", "便", "并且", "而且", "不过", "因此", "所以", "然而")
)


def harmonised(s: Sentence) -> Sentence:
    """A sentence of PUD, HK or CFL under the conventions of GSD, as far as words and labels tell."""
    heads, upos, deprels = list(s.heads), list(s.upos), list(s.deprels)
    for i, (word, label) in enumerate(zip(s.words, s.deprels, strict=True)):
        head = heads[i]
        nominal = upos[i] in ("NOUN", "PROPN", "PRON") and upos[head] in ("NOUN", "PROPN")
        if label == "compound" and nominal and upos[head] != "PART":
            deprels[i] = "nmod"
        elif label == "acl" and head > i and upos[i] in ("VERB", "ADJ"):
            deprels[i] = "acl:relcl"
        elif label == "dep" and head > i and upos[i] == "VERB":
            deprels[i] = "advcl"
        elif label == "flat":
            deprels[i] = "flat:foreign" if upos[i] == "X" else "flat:name"
        elif label == "mark:rel":
            upos[i] = "SCONJ"
        elif label == "clf" and i and heads[i - 1] == head > i and upos[i - 1] in ("NUM", "DET"):
            heads[i] = i - 1  # the classifier depends on its numeral (PUD: on the noun)
        elif label == "advmod" and word in _LINKERS:
            upos[i], deprels[i] = "SCONJ", "mark"
        else:
            deprels[i] = _LABELS.get(label, label)
    return replace(s, heads=tuple(heads), upos=tuple(upos), deprels=tuple(deprels))
