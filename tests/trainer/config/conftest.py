"""Fixtures for training with a user's own package in this process and in ranks."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from jobc.tests.packed import write_program

from .broken_parts import BROKEN
from .own_package import EXAMPLE


@pytest.fixture
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Put the example on the import path, and name the trainer as in a job. Restore torch's settings at the end."""
    monkeypatch.syspath_prepend(str(EXAMPLE))
    monkeypatch.setitem(sys.modules, "jobc_trainer", sys.modules["jobc.trainer"])
    monkeypatch.setitem(sys.modules, "jobc_trainer.recipe", sys.modules["jobc.trainer.recipe"])
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(False)


@pytest.fixture
def broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write the user's module `broken` to tmp_path, which is then on the import path."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "broken", raising=False)
    (tmp_path / "broken.py").write_text(BROKEN)


@pytest.fixture(scope="module")
def lib(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The packed program of an artifact."""
    return write_program(tmp_path_factory.mktemp("lib"))
