"""Fixtures that tests of every package share."""

from __future__ import annotations

from pathlib import Path

import pytest

REAL_DATA = Path(__file__).parents[2] / "shared/data"


@pytest.fixture(scope="session")
def real_data() -> Path:
    """Folder of the public data sets, beside the checkout; tests that need it skip where it is absent."""
    if not REAL_DATA.is_dir():
        pytest.skip(f"no real data at {REAL_DATA}")
    return REAL_DATA
