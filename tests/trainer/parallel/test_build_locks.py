"""Locks left by a killed build are removed, but not those still in use."""

from __future__ import annotations

from pathlib import Path

from jobc.trainer.parallel.stale_build_locks import extension_build_allowed


def test_a_lock_that_was_left_is_removed(tmp_path: Path) -> None:
    lock = tmp_path / "py311_cpu" / "deepspeed_shm_comm" / "lock"
    lock.parent.mkdir(parents=True)
    lock.touch()
    with extension_build_allowed(tmp_path):
        assert not lock.exists()


def test_the_lock_of_a_build_that_goes_on_stays(tmp_path: Path) -> None:
    lock = tmp_path / "ops" / "lock"
    lock.parent.mkdir()
    with extension_build_allowed(tmp_path):
        lock.touch()
        with extension_build_allowed(tmp_path):
            assert lock.exists()
    with extension_build_allowed(tmp_path):
        assert not lock.exists()
