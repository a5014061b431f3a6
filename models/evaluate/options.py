"""What scores depend on beside predictions: the section `scores` of a recipe. Nothing here needs torch."""

from __future__ import annotations

from typing import Literal

from corpora.sections import Count, Section

Script = Literal["squad", "cmrc"]
Scheme = Literal["BIO", "BIOES", "BILOU", "IOB1"]


class Options(Section):
    """Rules of scores; each is heeded by one task. Raises ValueError for a value that a key does not take."""

    max_answer_length: Count = 30
    """`span`: most tokens of an answer. CMRC 2018 has long ones: 256."""
    threshold: float = 0.0
    """`span`: of questions that may have none (SQuAD 2.0, and test sets without any known answer), no answer is given
    where "none" scores higher than the best answer by more than this."""
    script: Script | None = None
    """`span`: whose rules compare an answer with the gold ones. Default: by the language."""
    scheme: Scheme | None = None
    """`tag`: how labels make entities. Default: by the labels."""


HEEDED = {"span": ("max_answer_length", "threshold", "script"), "tag": ("scheme",)}
"""Keys of `Options` by the task that heeds them."""
