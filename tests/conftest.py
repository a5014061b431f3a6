"""Fixtures that tests of every package share."""

from __future__ import annotations

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
