"""A short version of each campaign about saves."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from jobc.prove import bad_disks, damaged_save, killed_save

pytestmark = [
    pytest.mark.xdist_group("trainer"),
    pytest.mark.engine,
    pytest.mark.skipif(shutil.which("strace") is None, reason="not installed: strace"),
]


def test_killed_save(tmp_path: Path) -> None:
    measured = killed_save.run(killed_save.SYSCALLS.index("fsync"), tmp_path)
    assert measured["points"] >= 7  # four files, the manifest, and two folders


def test_damaged_save(tmp_path: Path) -> None:
    assert damaged_save.run(0, tmp_path, batch=10)["noticed"] == 10


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount")
@pytest.mark.parametrize("trial", [0, 7, 4])
def test_bad_disks(trial: int, tmp_path: Path) -> None:
    assert bad_disks.run(trial, tmp_path)["again"] == 0
