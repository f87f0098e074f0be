"""Fixtures shared by several tests of backends."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Return an empty folder for runs. Runs are kept in it as read-only copies."""
    yield tmp_path
    subprocess.run(["chmod", "-R", "u+w", tmp_path], check=False)
