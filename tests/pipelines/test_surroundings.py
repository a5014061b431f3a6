"""What the command line sets for the numeric libraries, before it loads any of them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

_SHOWN = """
import os
import pipelines.cli
maps = open("/proc/self/maps").read() if os.path.exists("/proc/self/maps") else ""
print(os.environ["OMP_WAIT_POLICY"], os.environ["OMP_NUM_THREADS"], "gomp" in maps)
"""


@pytest.mark.parametrize(
    ("said", "found"), [({}, "PASSIVE 1 False"), ({"OMP_WAIT_POLICY": "ACTIVE"}, "ACTIVE 1 False")]
)
def test_threads_that_wait_sleep_unless_the_user_says_otherwise(said: dict[str, str], found: str) -> None:
    """It must be set before OpenMP's library is loaded, which reads it once."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("OMP_")} | said
    root = Path(__file__).parents[2]
    shown = subprocess.run(
        [sys.executable, "-c", _SHOWN], cwd=root, env=env, capture_output=True, text=True, check=True
    )
    assert shown.stdout.strip() == found
