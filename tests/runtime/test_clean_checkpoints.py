"""clean --keep-checkpoints: which checkpoints of old runs are removed, and which are always kept."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest

from jobc.runtime.verbs import clean
from jobc.runtime.verbs.old_checkpoints import CheckpointState, compare_with_manifest
from jobc.tests.checkpoints import newest_verified
from jobc.trainer.checkpoint import store

from .old_runs import FOUR, Old
from .sample_runs import kubernetes


@pytest.fixture
def old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Old:
    return Old(tmp_path, monkeypatch, capsys)


def checkpoints(run: Path, *val_losses: float) -> Path:
    for step, val_loss in enumerate(val_losses, 1):
        store.save_checkpoint(
            run / "checkpoints", step, {"weights.pt": b"w" * 5000, "rng.pt": b"r"}, keep=9, val_loss=val_loss
        )
    return run / "checkpoints"


def thin(old: Old) -> tuple[int, str]:
    return old.clean("--keep", "1", "--keep-checkpoints", "--yes")


def left_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_old_runs_may_keep_their_last_and_best_checkpoint(old: Old) -> None:
    folder = checkpoints(old.runs / "a", 3, 1, 2, 2, 2)
    (folder.parent / "mine.bin").write_text("of my own program")
    checkpoints(old.runs / "d", 3, 1, 2, 2, 2)  # the newest run
    code, output = thin(old)
    assert code == 0 and "done (exit 0): step_00000004 step_00000003 step_00000001\n" in output
    assert "removed a/checkpoints/step_00000004\n" in output and old.names() == [*FOUR]
    assert left_in(folder) == ["best", "step_00000002", "step_00000005"]
    assert (folder / "best").resolve() == folder / "step_00000002"
    assert newest_verified(folder)[0] == folder / "step_00000005"
    assert {path.name for path in folder.parent.iterdir()} >= {"artifact", "state", "mine.bin"}
    assert len(list((old.runs / "d/checkpoints").glob("step_*"))) == 5


def test_the_last_checkpoint_that_stays_is_a_sound_one(old: Old) -> None:
    folder = checkpoints(old.runs / "a", 1, 2, 3)
    (folder / "step_00000003/weights.pt").write_bytes(b"x" * 5000)
    assert thin(old)[0] == 0 and left_in(folder) == ["best", "step_00000001", "step_00000002"]
    for file in folder.glob("step_*/rng.pt"):
        file.write_bytes(b"all damaged")
    assert thin(old) == (0, "nothing to remove\n")
    (folder / "step_00000001").rename(folder / ".step_00000001.removed")  # by a clean that was killed
    assert thin(old)[1].endswith("removed a/checkpoints/.step_00000001.removed\n")


def test_a_checkpoint_that_the_disk_does_not_give_stays(old: Old) -> None:
    folder = checkpoints(old.runs / "a", 3, 2, 1, 2, 2)
    unread, damaged = folder / "step_00000005/weights.pt", folder / "step_00000004/weights.pt"
    unread.unlink()
    unread.symlink_to("/proc/self/mem")  # EIO when it is read, as of a disk that is ill
    with pytest.raises(OSError, match="Input/output error"):
        unread.read_bytes()
    damaged.unlink()
    (folder / "step_00000002/weights.pt").unlink()
    code, output = thin(old)
    assert code == 0 and "step_00000005 cannot be read, so it is kept\n" in output
    assert left_in(folder) == ["best", "step_00000003", "step_00000005"]
    unread.unlink()
    unread.symlink_to("/not/mounted/weights.pt")
    assert "step_00000005 cannot be read, so it is kept\n" in thin(old)[1] and (folder / "step_00000005").exists()


def test_a_disk_is_asked_twice(old: Old, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = checkpoints(old.runs / "a", 1, 2, 3)
    opened, failed = os.fdopen, []

    def fdopen(descriptor: int, *words: Any) -> Any:
        if not failed and os.readlink(f"/proc/self/fd/{descriptor}").endswith("step_00000003/rng.pt"):
            failed.append(descriptor)
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return opened(descriptor, *words)

    monkeypatch.setattr(os, "fdopen", fdopen)
    assert thin(old)[0] == 0 and failed
    assert left_in(folder) == ["best", "step_00000001", "step_00000003"]


def test_the_checkpoints_of_another_folder_stay(old: Old, tmp_path: Path) -> None:
    elsewhere = checkpoints(old.runs / "a", 1, 2, 3).rename(tmp_path / "elsewhere")
    (old.runs / "a/checkpoints").symlink_to(elsewhere)
    assert thin(old) == (0, "nothing to remove\n") and len(left_in(elsewhere)) == 4


@pytest.mark.parametrize("is_declared", [False, True], ids=["of another size", "of the size in the manifest"])
def test_a_file_that_is_all_hole_is_not_read_to_its_end(tmp_path: Path, is_declared: bool) -> None:
    folder = checkpoints(tmp_path, 1) / "step_00000001"
    os.truncate(folder / "weights.pt", 1 << 42)  # 4 TiB, an hour of zeros
    if is_declared:
        manifest = json.loads((folder / "MANIFEST.json").read_text())
        manifest["files"]["weights.pt"]["size"] = 1 << 42
        (folder / "MANIFEST.json").write_text(json.dumps(manifest))
    assert compare_with_manifest(folder) is (CheckpointState.UNREAD if is_declared else CheckpointState.DAMAGED)


@pytest.mark.parametrize("name", ["../../precious", "/etc/passwd", "..", ""])
def test_a_manifest_names_only_files_of_its_folder(tmp_path: Path, name: str) -> None:
    folder = checkpoints(tmp_path, 1) / "step_00000001"
    (folder / "MANIFEST.json").write_text(json.dumps({"files": {name: {"size": 0, "sha256": ""}}}))
    assert compare_with_manifest(folder) is CheckpointState.DAMAGED


def test_records_have_no_checkpoints_to_keep(old: Old) -> None:
    with pytest.raises(clean.Failure, match="unknown option: --keep-checkpoints"):
        clean.parser(kubernetes(old.folder)).parse_args(["--keep-checkpoints"])
