"""The Universal Dependencies treebanks that the embedded parsers are trained on, brought to one convention.

Of the four small Chinese treebanks PUD and HK are in traditional characters and each labels in its own way; the
words are simplified one by one and the labels follow GSD, the largest Chinese treebank. GSD itself is untouched.
What cannot be told from words and labels stays different, so that sentences of the others say where they come from.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path

import jieba

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
    variant: Sentence | None = None  # the same text in the words of the pipeline's own segmenter
    treebank: str = ""  # that it is from, where its conventions are not those that the parser shall follow


def files_of(ud: Path, lang: str) -> list[Path]:
    """The files of a language, in the order of TREEBANKS. Raises `FileNotFoundError` naming every missing one."""
    paths = [ud / name for name in TREEBANKS[lang]]
    if missing := [str(path) for path in paths if not path.is_file()]:
        raise FileNotFoundError(
            f"{lang}: missing {', '.join(missing)}; --ud must name a folder with {', '.join(TREEBANKS[lang])} "
            "(from the releases at https://universaldependencies.org)"
        )
    return paths


def trained_on(ud: Path, lang: str) -> dict[str, str]:
    """Contents (SHA-256) of the files that a parser learns from, in whole or in part: all but EWT's dev file."""
    names = TREEBANKS[lang][:1] if lang == "en" else TREEBANKS[lang]
    return {name: hashlib.sha256((ud / name).read_bytes()).hexdigest() for name in names}


def load(ud: Path, lang: str) -> tuple[list[list[Sentence]], list[ConlluSentence]]:
    """Training treebanks, and the sentences to measure on, none of them trained on.

    Raises `FileNotFoundError` naming every missing file, `ConlluError` naming a malformed line.
    """
    paths = files_of(ud, lang)
    first, *rest = (list(read_conllu(path)) for path in paths)
    if lang == "en":
        return [[plain(s, "ewt") for s in first]], rest[0]
    simplify = simplifier()
    others = [
        [replace(harmonised(simplify(plain(s, path.stem))), treebank=path.stem) for s in bank]
        for path, bank in zip(paths[1:], rest, strict=True)
    ]
    train = [plain(s, "gsd") for i, s in enumerate(first) if i % HELD_OUT]
    return [[_with_variant(s) for s in bank] for bank in (train, *others)], first[::HELD_OUT]


def _with_variant(s: Sentence) -> Sentence:
    words = [word for piece in jieba.lcut("".join(s.words)) if (word := piece.strip())]
    if len("".join(words)) != len("".join(s.words)):  # a word with an inner space, which jieba cuts away
        return s
    return replace(s, variant=resegmented(s, words))


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


def resegmented(s: Sentence, words: Sequence[str]) -> Sentence:
    """The tree carried over to another segmentation of the same text, where that is plain; else words stay.

    Words that are joined, and of which one governs the others, become that one. A word that is split hands its
    head, relation and dependents to its last part; the parts before it depend on that as `nummod` (numerals) or
    `compound`. Spans cut in both ways keep the treebank's words.
    """
    old, new = _stops(s.words), _stops(words)
    if old[-1:] != new[-1:]:
        raise ValueError(f"expected a segmentation of {''.join(s.words)!r}, found {''.join(words)!r}")
    common = sorted(set(old) & set(new))
    pieces: list[tuple[str, bool, str, str]] = []  # word, space, upos, deprel
    governors: list[
        int
    ] = []  # of each piece: the treebank word whose head it takes, or -1 - the piece it hangs on
    place = [0] * len(s.words)  # of each treebank word: the piece that stands for it
    i = j = 0
    for stop in common:
        last, until = old.index(stop, i), new.index(stop, j)
        inside = range(i, last + 1)
        outer = [k for k in inside if s.heads[k] == k or s.heads[k] not in inside]
        if len(inside) > 1 and until == j and len(outer) == 1:
            for k in inside:
                place[k] = len(pieces)
            head = outer[0]
            upos = "NOUN" if s.upos[head] == "PART" else s.upos[head]  # GSD's suffixes: 治疗 + 法
            pieces.append((words[j], s.spaces[last], upos, s.deprels[head]))
            governors.append(head)
        elif len(inside) == 1 and until > j:
            place[i] = len(pieces) + until - j
            for part in words[j:until]:
                number = part.isnumeric() or part.isdecimal()
                pieces.append(
                    (part, False, "NUM" if number else s.upos[i], "nummod" if number else "compound")
                )
                governors.append(-1 - place[i])
            pieces.append((words[until], s.spaces[i], s.upos[i], s.deprels[i]))
            governors.append(i)
        else:
            for k in inside:
                place[k] = len(pieces)
                pieces.append((s.words[k], s.spaces[k], s.upos[k], s.deprels[k]))
                governors.append(k)
        i, j = last + 1, until + 1
    heads = tuple(place[s.heads[g]] if g >= 0 else -1 - g for g in governors)
    forms, spaces, tags, deprels = zip(*pieces, strict=True)
    return Sentence(s.document, forms, spaces, tags, heads, deprels, treebank=s.treebank)


def _stops(words: Sequence[str]) -> list[int]:
    return list(accumulate(map(len, words)))
