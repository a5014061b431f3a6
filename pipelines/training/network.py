"""The embedded parsers' networks and the sizes and schedules they are trained with: spaCy's small CNN.

Hashed word features, a four-layer window encoder shared by a part-of-speech tagger and an arc-eager parser. Only
layers that spaCy and thinc register are used: a saved folder must load without this module.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import spacy
from spacy.language import Language


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """What is trained and how. Widths, rows and sizes are counts; `batch_words` is words per update."""

    lang: str
    name: str
    epochs: int
    dropout: float
    batch_words: int
    rows: tuple[int, int, int, int]  # of the hash tables of NORM, PREFIX, SUFFIX and SHAPE
    treebank_rows: int = 0  # of the hash table of the names of treebanks; 0: they are not told
    char_bytes: int = 0  # UTF-8 bytes of each word, from both ends, embedded by position; 0 for none
    char_width: int = 16  # of each byte's vector
    width: int = 96
    window: int = 1  # words to each side that a layer sees
    depth: int = 4  # layers
    hidden: int = 96
    learn_rate: float = 0.002
    decay: float = 1.05  # the rate falls to 0 in a line, at this multiple of all steps
    last_epochs: int = 1  # the weights kept are the mean over the ends of so many epochs
    lower_case: float = 0.0  # part of the training documents that are lower-cased
    several: float = 0.4 / 3  # chance that a training document takes in the sentences that follow
    upsample: int = 1  # copies of the first treebank in an epoch
    variants: float = 0.0  # part of the sentences that are shown in the words of the pipeline's own segmenter
    tag_updates: int = 0  # before all else: updates of the word vectors on the tags of jieba's dictionary
    tag_words: int = 100  # then: words of the dictionary beside each update of the pipeline
    exchanged: float = 0.0  # part of the words, exchanged for others that jieba's dictionary tags alike


RECIPES = {
    "en": Recipe(
        lang="en",
        name="ud_small",
        epochs=8,
        dropout=0.1,
        batch_words=1000,
        rows=(4000, 500, 2000, 500),
    ),
    "zh": Recipe(
        lang="zh",
        name="ud_small",
        epochs=11,
        dropout=0.25,
        batch_words=400,
        rows=(2500, 1200, 600, 50),
        treebank_rows=30,
        char_bytes=12,
        window=2,
        upsample=3,
        variants=0.2,
        decay=1.5,
        last_epochs=4,
        tag_updates=700,
        exchanged=0.2,
    ),
}


# The attribute of a token in which training documents name their treebank (Stymne et al. 2018, "Parser Training with
# Heterogeneous Treebanks"). Empty for the treebank to be followed, as for all text in use: spaCy fills it, if at all,
# after parsing.
TREEBANK = "ENT_KB_ID"


def _variadic(block: dict[str, Any], items: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return {**block, "*": {str(i): item for i, item in enumerate(items)}}


def _embed(recipe: Recipe) -> dict[str, Any]:
    attributes = ["NORM", "PREFIX", "SUFFIX", "SHAPE"]
    if not recipe.char_bytes:
        return {
            "@architectures": "spacy.MultiHashEmbed.v2",
            "width": recipe.width,
            "attrs": attributes,
            "rows": list(recipe.rows),
            "include_static_vectors": False,
        }
    # As MultiHashEmbed, with the word's outer characters beside the hashes. PREFIX is one character and SUFFIX
    # three, so that for most Chinese words the last character is seen by no hash.
    rows = list(recipe.rows)
    if recipe.treebank_rows:
        attributes, rows = [*attributes, TREEBANK], [*rows, recipe.treebank_rows]
    hashes = [
        {"@layers": "HashEmbed.v1", "nO": recipe.width, "nV": n, "column": i, "seed": 8 + i, "dropout": 0.0}
        for i, n in enumerate(rows)
    ]
    chars = {"@layers": "spacy.CharEmbed.v1", "nM": recipe.char_width, "nC": recipe.char_bytes}
    chain, both = {"@layers": "chain.v1"}, {"@layers": "concatenate.v1"}
    ragged: dict[str, Any] = {"@layers": "list2ragged.v1"}
    lexical = [
        {"@layers": "spacy.FeatureExtractor.v1", "columns": attributes},
        ragged,
        {"@layers": "with_array.v1", "layer": _variadic(both, hashes)},
    ]
    mixer = {
        "@layers": "Maxout.v1",
        "nO": recipe.width,
        "nI": recipe.width * len(hashes) + recipe.char_width * recipe.char_bytes,
        "nP": 3,
        "dropout": 0.0,
        "normalize": True,
    }
    return _variadic(
        chain,
        [
            _variadic(both, [_variadic(chain, lexical), _variadic(chain, [chars, ragged])]),
            {"@layers": "with_array.v1", "layer": mixer},
            {"@layers": "ragged2list.v1"},
        ],
    )


def build(recipe: Recipe) -> Language:
    """An untrained pipeline: tok2vec, morphologizer (UPOS in `token.pos_`) and parser on the same encoder."""
    tokenizer = {"@tokenizers": "spacy.zh.ChineseTokenizer", "segmenter": "jieba"}
    nlp = spacy.blank(recipe.lang, config={"nlp": {"tokenizer": tokenizer}} if recipe.lang == "zh" else {})
    encode = {
        "@architectures": "spacy.MaxoutWindowEncoder.v2",
        "width": recipe.width,
        "depth": recipe.depth,
        "window_size": recipe.window,
        "maxout_pieces": 3,
    }
    tok2vec = {"@architectures": "spacy.Tok2Vec.v2", "embed": _embed(recipe), "encode": encode}
    nlp.add_pipe("tok2vec", config={"model": tok2vec})
    listener = {"@architectures": "spacy.Tok2VecListener.v1", "width": recipe.width, "upstream": "*"}
    tagger = {"@architectures": "spacy.Tagger.v2", "nO": None, "normalize": False, "tok2vec": listener}
    parser = {
        "@architectures": "spacy.TransitionBasedParser.v2",
        "state_type": "parser",
        "extra_state_tokens": True,
        "hidden_width": recipe.hidden,
        "maxout_pieces": 2,
        "use_upper": True,
        "nO": None,
        "tok2vec": listener,
    }
    nlp.add_pipe("morphologizer", config={"model": tagger})
    nlp.add_pipe("parser", config={"model": parser, "min_action_freq": 5})
    return nlp
