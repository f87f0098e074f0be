"""A short version of each campaign about saves."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from jobc.prove import bad_disks, damaged_save, killed_save, same_run, stop_moments

pytestmark = [
    pytest.mark.engine,
    pytest.mark.skipif(shutil.which("strace") is None, reason="not installed: strace"),
]


def test_killed_save(tmp_path: Path) -> None:
    measured = killed_save.run(killed_save.SYSCALLS.index("fsync"), tmp_path)
    assert measured["points"] >= 7  # four files, the manifest, and two folders


def test_damaged_save(tmp_path: Path) -> None:
    assert damaged_save.run(0, tmp_path, batch=10)["noticed"] == 10


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount")
def test_bad_disks(tmp_path: Path) -> None:
    assert bad_disks.run(7, tmp_path)["again"] == 0


@pytest.mark.parametrize("kind", stop_moments.KINDS[1:3])
def test_stop_moments(kind: str, tmp_path: Path) -> None:
    assert stop_moments.run(stop_moments.KINDS.index(kind), tmp_path / "trial")["code"] == 75


def test_same_run(tmp_path: Path) -> None:
    assert 1 in same_run.run(1, tmp_path / "trial")["codes"]
