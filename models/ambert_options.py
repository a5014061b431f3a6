"""AMBERT's options: which there are, what is refused, and what of a checkpoint's holds beside those now given."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

from transformers import BertConfig

from models.agreement import AGREE_ON
from models.bert import Bert

VARIANTS = ("shared", "combo", "hybrid")
GRANULARITIES = ("both", "fine", "coarse")
MASKED = ("apart", "together")
CLASSIFIERS = ("three", "one")
_OF_THREE = {"agreement": 1.0, "agree_on": "cls"}
"""Options that three classifiers alone have, and their defaults."""


def _one(options: Mapping[str, Any]) -> bool:
    """Whether fine-tuning has one classifier."""
    usual = "one" if options["variant"] == "hybrid" else "three"
    return (options["classifiers"] or usual) == "one"


class AmbertOptions(Bert):
    """What AMBERT can be asked for.

    Options:
        coarse_vocab_size: tokens of the coarse vocabulary (in the dataset's metadata; needed).
        variant: of `VARIANTS`.
        masked: losses of masked tokens: a mean of each granularity, `apart`, or one of both, `together`.
        classifiers: how both granularities are fine-tuned: `three` that agree, tags and spans from fine tokens beside
            coarse ones; or `one`, as BERT, of `hybrid` alone, whose default it is.
        agreement: of three classifiers, the weight of what is to be near (the paper's lambda; default 1).
        agree_on: what that is, of `models.agreement.AGREE_ON` (default `cls`).
        granularity: `both`, or as an ablation `fine` (BERT, then) or `coarse` alone, of any variant, where the four
            before say nothing.
    """

    kind: ClassVar[str] = "ambert"
    tasks: ClassVar[tuple[str, ...]] = ("none", "mlm", "classify", "regress", "tag", "span", "choice")
    options: ClassVar[dict[str, Any]] = {
        "coarse_vocab_size": None,
        "variant": "shared",
        "masked": "apart",
        "classifiers": None,
        **dict.fromkeys(_OF_THREE),
        "granularity": "both",
    }

    @classmethod
    def settings_of(cls, config: BertConfig) -> dict[str, Any]:
        """As `Bert.settings_of`; raises ValueError for a value that an option does not take."""
        settings = super().settings_of(config)
        size = settings["coarse_vocab_size"]
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            how = ': load(..., coarse_vocab_size=split.metadata["coarse_vocab_size"])' if size is None else ""
            raise ValueError(
                f"coarse_vocab_size is {size!r}, expected the number of coarse tokens, which "
                f"the dataset's metadata holds under that name{how}"
            )
        cls.check_choice("variant", settings["variant"], VARIANTS)
        cls.check_choice("masked", settings["masked"], MASKED)
        cls.check_choice("granularity", settings["granularity"], GRANULARITIES)
        if settings["granularity"] == "coarse" and settings["task"] in ("tag", "span"):
            raise ValueError(
                f"granularity is 'coarse', and labels of task {settings['task']!r} are those of fine tokens: take "
                "'both' or 'fine'"
            )
        if settings["classifiers"] is None:
            settings["classifiers"] = "one" if _one(settings) else "three"
        cls.check_choice("classifiers", settings["classifiers"], CLASSIFIERS)
        if settings["classifiers"] == "one" and settings["variant"] != "hybrid":
            raise ValueError(
                f"classifiers is 'one', and fine tokens of variant {settings['variant']!r} see no coarse ones: take "
                "'three', or granularity 'fine'"
            )
        one = settings["classifiers"] == "one"
        for name, usual in _OF_THREE.items():
            if settings[name] is None:
                settings[name] = None if one else usual
            elif one and settings["granularity"] == "both":
                raise ValueError(
                    f"{name} is {settings[name]!r}, and one classifier has none to agree with (variant 'hybrid' is "
                    "fine-tuned as BERT): leave it out, or take classifiers 'three'"
                )
        if settings["agreement"] is not None:
            cls.check_number("agreement", settings["agreement"], most=math.inf)
        if settings["agree_on"] is not None:
            cls.check_choice("agree_on", settings["agree_on"], AGREE_ON)
        return settings

    @classmethod
    def kept(cls, saved: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
        """As `Bert.kept`; of another variant are other classifiers, and one has nothing to agree with."""
        kept, before = super().kept(saved, given), saved.get("variant")
        if given.get("variant", before) != before:
            kept.pop("classifiers", None)
        if _one({**cls.options, **kept, **given}):
            kept = {name: value for name, value in kept.items() if name not in _OF_THREE}
        return kept
