"""Bars of transformers stay out of what tests print."""

from __future__ import annotations

from transformers.utils import logging

logging.disable_progress_bar()
logging.set_verbosity_error()
