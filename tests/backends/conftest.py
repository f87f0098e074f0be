"""Fixtures shared by several tests of backends."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """An empty one for runs, which are read-only where they are kept."""
    yield tmp_path
    subprocess.run(["chmod", "-R", "u+w", tmp_path], check=False)
