"""Scores of KenLM: against its own scoring of whole strings, and what it cannot read."""

from __future__ import annotations

import sys

import kenlm
import numpy as np
import pytest

from pipelines.phrases.model import Model
from pipelines.section import ConfigError
from tests.pipelines.ngrams.test_estimate import model

LINES = ["new york city is big", "new york is big", "the city of new york", "big new car\u00a0x", "york"]


@pytest.fixture(scope="module")
def arpa(tmp_path_factory) -> str:
    path = tmp_path_factory.mktemp("model") / "model.arpa"
    path.write_bytes(b"".join(model(LINES, 3).arpa()))
    return str(path)


def test_the_last_word_given_the_others_and_alone(arpa):
    theirs = kenlm.Model(arpa)
    grams = [
        ("new", "york", "city"),
        ("the", "city", "of"),
        ("of", "of", "york"),
        ("big", "new", "car\u00a0x"),
    ]
    for length in (1, 2, 3):
        logs, alone = Model(arpa).score(list(zip(*(gram[-length:] for gram in grams), strict=True)))
        for gram, log, own in zip(grams, logs, alone, strict=True):
            scored = list(theirs.full_scores(" ".join(gram[-length:]), bos=False, eos=False))
            assert log == pytest.approx(scored[-1][0])
            assert own == pytest.approx(next(theirs.full_scores(gram[-1], bos=False, eos=False))[0])


def test_a_last_word_that_the_model_does_not_know_has_no_score(arpa):
    logs, alone = Model(arpa).score([["new", "old"], ["haven", "york"]])
    assert np.isnan(logs).tolist() == np.isnan(alone).tolist() == [True, False]


def test_what_is_no_model(tmp_path):
    path = tmp_path / "model.arpa"
    path.write_text("no model\n")
    with pytest.raises(ConfigError, match=r"--model: KenLM cannot read .*model\.arpa.*takes ARPA files"):
        Model(str(path))
    with pytest.raises(ConfigError, match="--model: KenLM cannot read"):
        Model(str(tmp_path / "none.arpa"))


def test_a_missing_package_names_the_pip_line(arpa, monkeypatch):
    monkeypatch.setitem(sys.modules, "kenlm", None)
    with pytest.raises(ConfigError, match=r"pip install 'treegraft\[phrases\]'"):
        Model(arpa)
