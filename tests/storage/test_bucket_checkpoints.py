"""Checkpoints of a run in a bucket: what is uploaded, downloaded and removed, and in which order."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jobc.runtime.run_folder.run_folder import RunFolder
from jobc.runtime.storage.bucket import Bucket, BucketError, ListedObject
from jobc.runtime.storage.bucket_mirror import BucketMirror
from jobc.runtime.storage.bucket_run import BucketRun
from jobc.tests.checkpoints import newest_verified
from jobc.trainer.checkpoint import store

from .bucket_bed import going_on, names


def save(folder: RunFolder, step: int, size: int = 10, keep: int = 2, val_loss: float | None = None) -> None:
    files = {"weights.pt": os.urandom(size), "state.json": b"{}"}
    store.save_checkpoint(folder.checkpoints, step, files, keep, val_loss)


def test_a_manifest_goes_when_all_its_files_have_gone(run: BucketRun, folder: RunFolder) -> None:
    mirror = BucketMirror(run, folder, 0)
    save(folder, 100, size=100_000)
    mirror.upload_changes(logs=False, last=False)
    step = "checkpoints/step_00000100"
    assert names(run) == [], "the large file has not been seen twice yet"
    mirror.upload_changes(logs=False, last=False)
    assert names(run) == [f"{step}/{name}" for name in ("MANIFEST.json", "state.json", "weights.pt")]
    for step_ in (200, 300):
        save(folder, step_)
    mirror.upload_changes(logs=False, last=True)
    assert {name.split("/")[1] for name in names(run)} == {"step_00000200", "step_00000300"}


def test_a_checkpoint_that_the_disk_does_not_give_stays_in_the_bucket(
    run: BucketRun, folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    mirror = BucketMirror(run, folder, 0)
    save(folder, 100)
    mirror.upload_changes(logs=False, last=True)
    there, place, stat, scandir = names(run), folder.checkpoints / "step_00000100", Path.stat, os.scandir

    def refusing(read: Callable[..., Any]) -> Callable[..., Any]:
        def called(path: Any, *arguments: Any, **keywords: Any) -> Any:
            if place in (Path(path), *Path(path).parents):
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            return read(path, *arguments, **keywords)

        return called

    monkeypatch.setattr(os, "scandir", refusing(scandir))
    monkeypatch.setattr(Path, "stat", refusing(stat))
    monkeypatch.setattr(Path, "exists", lambda path: False)  # as of Python 3.14, which hides the error
    with pytest.raises(OSError, match="Input/output error"):
        mirror.upload_changes(logs=False, last=True)
    assert names(run) == there


def test_the_newest_sound_checkpoint_comes_back_and_older_ones_are_removed_in_their_turn(
    run: BucketRun, folder: RunFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save(folder, 50, keep=4, val_loss=0.1)
    for step in (100, 200, 300):
        save(folder, step, keep=4)
    (folder.checkpoints / "other.txt").write_text("of a program")
    BucketMirror(run, folder, 0).upload_changes(logs=True, last=True)
    run.bucket.delete([run.object_key("checkpoints/step_00000300/weights.pt")])

    next_folder = RunFolder(tmp_path / "next", 1)
    brings = BucketMirror(run, next_folder, 0)
    assert brings.restore_checkpoint(run, next_folder.path, everything=True) == "checkpoints/step_00000200"
    assert "step_00000300 in the bucket is damaged: weights.pt" in capsys.readouterr().out
    newest, damaged = newest_verified(next_folder.checkpoints)
    assert newest is not None and newest.name == "step_00000200" and len(damaged) == 1
    assert (next_folder.checkpoints / "step_00000050").is_dir()  # the best one
    assert (next_folder.checkpoints / "other.txt").read_text() == "of a program"
    sends = going_on(run, next_folder)
    for step in (300, 400):
        save(next_folder, step)
        sends.upload_changes(logs=False, last=True)
    assert {name.split("/")[1] for name in names(run)} == {
        "other.txt", "step_00000050", "step_00000300", "step_00000400",
    }  # fmt: skip
    assert (
        BucketMirror(run, RunFolder(tmp_path / "node 1", 1), 1).restore_checkpoint(run, tmp_path / "node 1", False)
        is None
    )
    assert [path.name for path in (tmp_path / "node 1" / "checkpoints").iterdir()] == ["other.txt"]


def saved_again(folder: RunFolder, weights: bytes, val_loss: float | None, state: bytes = b"{}") -> None:
    files = {"weights.pt": weights, "rng.pt": b"r", "state.json": state}
    store.save_checkpoint(folder.checkpoints, 100, files, 2, val_loss, replaces=val_loss is None)


@pytest.mark.parametrize("came_back", [False, True])
def test_a_checkpoint_whose_loss_was_measured_later_sends_what_has_changed(
    run: BucketRun, folder: RunFolder, tmp_path: Path, sent: list[str], came_back: bool
) -> None:
    weights, step = os.urandom(100_000), "checkpoints/step_00000100"
    saved_again(folder, weights, None)
    mirror = BucketMirror(run, folder, 0)
    mirror.upload_changes(logs=False, last=True)
    assert sent == [f"+ {step}/{name}" for name in ("weights.pt", "state.json", "rng.pt", "MANIFEST.json")]
    if came_back:
        folder = RunFolder(tmp_path / "next", 1)
        BucketMirror(run, folder, 0).restore_checkpoint(run, folder.path, everything=True)
        mirror = going_on(run, folder)
    sent.clear()
    saved_again(folder, weights, 0.5)
    for _ in range(2):  # what is large is looked at twice
        mirror.upload_changes(logs=False, last=False)
    assert sent == [f"+ {step}/MANIFEST.json"]
    sent.clear()
    (folder.checkpoints / "step_00000100" / "MANIFEST.json").unlink()
    saved_again(folder, weights, 0.5, b'{"owed": false}')
    for _ in range(2):
        mirror.upload_changes(logs=False, last=False)
    assert sent == [f"- {step}/MANIFEST.json", f"+ {step}/state.json", f"+ {step}/MANIFEST.json"]
    assert (
        BucketMirror(run, RunFolder(tmp_path / "last", 2), 0).restore_checkpoint(
            run, tmp_path / "last", everything=True
        )
        == step
    )


def test_a_replaced_checkpoint_is_never_unsound_there(
    run: BucketRun, folder: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(folder, 50)
    mirror, ask, left = BucketMirror(run, folder, 0), Bucket._request, [99]

    def until_killed(self: Bucket, method: str, *rest: Any, **more: Any) -> Any:
        left[0] -= method in ("PUT", "DELETE")
        if left[0] < 0:
            raise BucketError("killed", "", 69)
        return ask(self, method, *rest, **more)

    monkeypatch.setattr(Bucket, "_request", until_killed)
    came: list[str | None] = []
    one, other = b"1" * 100_000, b"2" * 100_000
    for allowed in range(5):
        saved_again(folder, one, None)
        mirror.upload_changes(logs=False, last=True)
        saved_again(folder, other, None)
        left[0] = allowed
        with contextlib.suppress(BucketError):
            mirror.upload_changes(logs=False, last=True)
        left[0] = 99
        path = tmp_path / str(allowed)
        came.append(BucketMirror(run, RunFolder(path, 1), 0).restore_checkpoint(run, path, everything=True))
        if allowed == 0:
            assert (path / "checkpoints" / "step_00000100" / "weights.pt").read_bytes() == one
    before, replaced = "checkpoints/step_00000050", "checkpoints/step_00000100"
    assert came == [replaced, before, before, replaced, replaced]
    assert (path / replaced / "weights.pt").read_bytes() == other


def test_what_has_come_back_does_not_go_up_again(
    run: BucketRun, folder: RunFolder, tmp_path: Path, sent: list[str]
) -> None:
    for step in (100, 200, 300):
        save(folder, step, size=100_000, keep=3)
    (folder.checkpoints / "other.txt").write_text("of a program")
    BucketMirror(run, folder, 0).upload_changes(logs=True, last=True)
    nodes = [RunFolder(tmp_path / f"node {node}", 1) for node in range(2)]
    for node, here in enumerate(nodes):
        BucketMirror(run, here, node).restore_checkpoint(run, here.path, everything=node == 0)
    sent.clear()
    for node, here in enumerate(nodes):
        going_on(run, here, node).upload_changes(logs=True, last=True)
    assert sent == []
    (nodes[1].checkpoints / "other.txt").write_text("of the other node")
    going_on(run, nodes[1], 1).upload_changes(logs=True, last=True)
    assert sent == ["+ checkpoints/other.txt"]


def test_checkpoints_that_were_killed_on_their_way_are_removed(
    run: BucketRun, folder: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(folder, 300)
    BucketMirror(run, folder, 0).upload_changes(logs=True, last=True)
    killed = "checkpoints/step_00000400/weights.pt", "checkpoints/step_00000100/state.json"
    of_others = "checkpoints/step_00000200/shard_1.pt", "checkpoints/step_5/weights.pt"
    owner, of_this_attempt = "starts/00001/owner", "checkpoints/step_00000500/weights.pt"
    for name in (*killed, *of_others, owner, of_this_attempt):
        run.put(name, b"")
    ages, listed = {owner: 50.0, of_this_attempt: 10.0}, run.bucket.list

    def list_with_ages(prefix: str) -> list[ListedObject]:
        return [
            item._replace(age_s=ages.get(item.key.removeprefix(run.object_key("")), 100.0)) for item in listed(prefix)
        ]

    monkeypatch.setattr(run.bucket, "list", list_with_ages)

    next_folder = RunFolder(tmp_path / "next", 1)
    BucketMirror(run, next_folder, 0).restore_checkpoint(run, next_folder.path, everything=True)
    assert set(killed) < set(names(run)), "it only looks"
    before = set(names(run))
    going_on(run, next_folder).upload_changes(logs=True, last=True)
    assert before - set(names(run)) == set(killed)
