"""Fixtures that tests of every package share."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest
from hypothesis import settings

REAL_DATA = Path(__file__).parents[2] / "shared/data"

# CI repeats the same examples, so that a failure there is the change's own; elsewhere every run looks further.
settings.register_profile("ci", derandomize=True)
if os.environ.get("CI"):
    settings.load_profile("ci")


@pytest.fixture(scope="session")
def real_data() -> Path:
    """Folder of the public data sets, beside the checkout; tests that need it skip where it is absent."""
    if not REAL_DATA.is_dir():
        pytest.skip(f"no real data at {REAL_DATA}")
    return REAL_DATA


@pytest.fixture(scope="session")
def stanza_models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tiny Stanza models of English, French and Chinese, trained once a session, whatever the number of its processes."""
    pytest.importorskip("stanza", reason="pip install 'treegraft[stanza]'")
    from pipelines.training.stanza import Recipe, read_trees, train
    from tests import treebanks

    own = tmp_path_factory.getbasetemp()
    folder = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "stanza"
    folder.mkdir(exist_ok=True)
    recipe = Recipe(
        tokenize_steps=60,
        tag_steps=60,
        parse_steps=80,
        tokenize_batch=8,
        batch_sentences=10,
        batch_words=100,
        evaluate=20,
        word_width=16,
        char_width=8,
        hidden=16,
        tokenize_hidden=16,
        scorer=16,
        tokenize_rate=0.01,
        tag_rate=0.02,
        word_cutoff=1,
        dropout=0.1,
    )
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "done").exists():
            for language in ("en", "fr", "zh"):
                trees = [read_trees(treebanks.write(folder, language, *size)) for size in ((100, 0), (20, 1))]
                train(language, *trees, folder / "models", recipe)
            (folder / "done").touch()
    return folder / "models"
