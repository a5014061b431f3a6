"""Bars of transformers stay out of what tests print; Ctrl-C is heard, also where tests run in the background."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest
from transformers.utils import logging

logging.disable_progress_bar()
logging.set_verbosity_error()


@pytest.fixture(autouse=True)
def heard() -> Iterator[None]:
    """A shell ignores the signal for jobs in the background, and what is ignored stays so."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
