"""Tests of models run on one thread: their tensors are small, and threads would wait for each other."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
import torch

from tests.models.datasets import Datasets


@pytest.fixture(autouse=True, scope="session")
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="session")
def datasets(tmp_path_factory: pytest.TempPathFactory) -> Datasets:
    """Folders of real datasets by task, made of the embedded samples when they are asked for."""
    own = tmp_path_factory.getbasetemp()
    return Datasets((own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "datasets")
