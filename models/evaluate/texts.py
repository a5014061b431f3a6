"""Generated texts against the ones wanted: ROUGE-1, ROUGE-2, ROUGE-L and BLEU.

ROUGE is Google's `rouge-score` (F1, mean over texts, no stemming). It knows ASCII letters and digits alone, so Chinese
is split for it here: into characters, and what lies between them into words. Of a text without any word (`?!`) it would
be 0 whatever was generated: here 1 if that is the same. BLEU is sacrebleu's, of the whole corpus, with its tokenizers
`zh` and `13a`. Nothing is downloaded.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from models.evaluate.answers import script_of
from models.evaluate.measure import Scores

_TOKENS = re.compile(r"[a-z0-9]+|[^\sa-z0-9]")


class Characters:
    """A tokenizer for `rouge-score`: runs of ASCII letters and digits, and every other character but spaces."""

    def tokenize(self, text: str) -> list[str]:
        return _TOKENS.findall(text.lower())


def text_scores(wanted: Sequence[str], generated: Sequence[str], language: str | None = None) -> Scores:
    """`rouge1`, `rouge2`, `rougeL` and `bleu`, of 0 to 1; no score without texts.

    Args:
        wanted, generated: a text each, in the same order.
        language: `zh`: Chinese characters are tokens, else words; None: by what there is more of in `wanted`.

    Raises:
        ValueError: there are more texts of one than of the other.
    """
    import sacrebleu
    from rouge_score.rouge_scorer import RougeScorer

    if len(wanted) != len(generated):
        raise ValueError(f"expected a text for each of {len(wanted):,} wanted ones, found {len(generated):,}")
    if not wanted:
        return {}
    chinese = language == "zh" if language else script_of(wanted) == "cmrc"
    names = ("rouge1", "rouge2", "rougeL")
    scorer = RougeScorer(names, tokenizer=Characters() if chinese else None)
    pairs = list(zip(wanted, generated, strict=True))
    found = [scorer.score(*pair) for pair in pairs]
    figures = np.array([[one[name].fmeasure for name in names] for one in found])
    same = np.array([one == other for one, other in pairs])
    figures[same & (figures[:, 0] == 0)] = 1  # of no word at all
    scores = dict(zip(names, map(float, figures.mean(0)), strict=True))
    bleu = sacrebleu.corpus_bleu(generated, [wanted], tokenize="zh" if chinese else "13a")
    return scores | {"bleu": min(bleu.score / 100, 1.0)}  # a perfect one is 100 and a rounding error
