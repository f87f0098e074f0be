"""A checkpoint is either complete or absent: after a kill at any line, on a full disk, or with any file damaged."""

import errno
import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from jobc.tests.checkpoints import newest_verified
from jobc.trainer import files
from jobc.trainer.checkpoint import store
from jobc.trainer.files import replace_durably

FILES = {"weights.pt": bytes(range(256)) * 20, "optimizer.pt": b"o" * 900, "state.json": b'{"step": 1}'}


def saved(root: Path, *steps: int, keep: int = 2) -> Path:
    for step in steps:
        store.save_checkpoint(root, step, FILES, keep)
    return root


def steps(root: Path) -> list[int]:
    return [store.step_of_folder(folder) for folder in store.checkpoints_newest_first(root)]


@contextmanager
def largest_file(size_bytes: int) -> Iterator[None]:
    """Limit the size of files, which has the effect of a full disk on a write, without root."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_save_is_found_again(tmp_path: Path) -> None:
    newest, damaged = newest_verified(saved(tmp_path, 100))
    assert newest == tmp_path / "step_00000100"
    assert damaged == []
    assert {name: (newest / name).read_bytes() for name in FILES} == FILES


def test_nothing_saved_is_nothing_found(tmp_path: Path) -> None:
    assert newest_verified(tmp_path / "absent") == (None, [])


def test_the_newest_are_kept_by_step(tmp_path: Path) -> None:
    assert steps(saved(tmp_path, 5, 10, 99_999_999, 100_000_000)) == [100_000_000, 99_999_999]


def test_the_time_of_a_folder_says_nothing(tmp_path: Path) -> None:
    for step, hours in ((1, 1), (2, 0), (3, -1)):  # written by nodes whose clocks differ
        folder = saved(tmp_path, step, keep=9) / store.step_folder_name(step)
        for path in (*folder.iterdir(), folder):
            os.utime(path, (1.7e9 + 3600 * hours,) * 2)
    assert newest_verified(tmp_path)[0] == tmp_path / "step_00000003"
    assert steps(saved(tmp_path, 4)) == [4, 3]


def test_every_so_many_steps_one_is_kept_for_ever(tmp_path: Path) -> None:
    for step in range(5, 65, 5):
        store.save_checkpoint(tmp_path, step, FILES, keep=2, keep_every_steps=20)
    assert steps(tmp_path) == [60, 55, 40, 20]


def test_one_known_to_be_damaged_does_not_count_among_the_newest(tmp_path: Path) -> None:
    saved(tmp_path, 1, 2)
    (tmp_path / "step_00000002" / "weights.pt").write_bytes(b"")
    store.save_checkpoint(tmp_path, 3, FILES, keep=2, damaged=["step_00000002"])
    assert steps(tmp_path) == [3, 1]


def test_one_known_to_be_damaged_is_not_the_best(tmp_path: Path) -> None:
    for step, loss in ((20, 1.0), (30, 1.1), (40, 0.9)):
        store.save_checkpoint(tmp_path, step, FILES, keep=3, val_loss=loss)
    (tmp_path / "step_00000040" / "weights.pt").write_bytes(b"")
    store.save_checkpoint(tmp_path, 35, FILES, keep=2, damaged=["step_00000040"])
    assert steps(tmp_path) == [35, 30, 20]
    assert (tmp_path / "best").resolve().name == "step_00000020"


def test_a_later_format_is_neither_read_nor_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saved(tmp_path, 1)
    with monkeypatch.context() as later:
        later.setattr(store, "FORMAT", 2)
        saved(tmp_path, 2)
    with pytest.raises(store.NewerFormatError, match="step_00000002 has format 2, but this trainer reads format 1"):
        newest_verified(tmp_path)


def killed(root: Path, *words: str) -> list[dict[str, object]]:
    script = Path(__file__).parents[1] / "kill_while_saving.py"
    done = subprocess.run([sys.executable, script, root, *words], capture_output=True, text=True, check=True)
    results: list[dict[str, object]] = json.loads(done.stdout)
    assert len(results) > 30
    return results


def test_a_kill_before_any_line_of_a_save_loses_nothing(tmp_path: Path) -> None:
    results = killed(tmp_path)
    assert {result["newest"] for result in results} == {2, 3}
    assert all(result["damaged"] == [] for result in results)
    assert all(result["left"] == ["best", *(f"step_0000000{step}" for step in (1, 2, 3))] for result in results)


@pytest.mark.parametrize("size_bytes", [0, 1, 500, 1000, 5000, 5119])
def test_a_full_disk_keeps_the_old_checkpoints(tmp_path: Path, size_bytes: int) -> None:
    saved(tmp_path, 1, 2)
    with largest_file(size_bytes), pytest.raises(OSError, match="File too large"):
        store.save_checkpoint(tmp_path, 3, FILES, keep=2)
    assert newest_verified(tmp_path)[0] == tmp_path / "step_00000002"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step_00000001", "step_00000002"]


@pytest.mark.parametrize("name", [*FILES, store.MANIFEST])
@pytest.mark.parametrize("damage", ["flip", "cut", "grow", "delete"])
def test_a_damaged_file_is_named_and_the_checkpoint_before_it_used(tmp_path: Path, name: str, damage: str) -> None:
    saved(tmp_path, 1, 2)
    path = tmp_path / "step_00000002" / name
    content = bytearray(path.read_bytes())
    if damage == "delete":
        path.unlink()
    else:
        content[len(content) // 2] ^= 1
        path.write_bytes({"flip": bytes(content), "cut": content[:-1], "grow": content + b"x"}[damage])
    newest, damaged = newest_verified(tmp_path)
    assert newest == tmp_path / "step_00000001"
    assert len(damaged) == 1
    assert damaged[0].startswith("step_00000002: ")
    assert name in damaged[0]


@pytest.fixture
def refuse(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """refuse(path, number, times): so often the disk does not give `path`, but an error with that number."""
    monkeypatch.setattr(files, "PAUSES_S", (0.0, 0.0, 0.0))

    def refuse(place: Path, number: int, times: int = 10**6) -> None:
        left = [times]

        def refusing(read: Callable[..., Any]) -> Callable[..., Any]:
            def called(path: Any, *arguments: Any, **keywords: Any) -> Any:
                if path == place and left[0]:
                    left[0] -= 1
                    raise OSError(number, os.strerror(number))
                return read(path, *arguments, **keywords)

            return called

        monkeypatch.setattr("builtins.open", refusing(open))
        monkeypatch.setattr(Path, "read_bytes", refusing(Path.read_bytes))
        monkeypatch.setattr(os, "open", refusing(os.open))
        monkeypatch.setattr(os, "listdir", refusing(os.listdir))

    return refuse


UNREAD = [".", "step_00000200/weights.pt", f"step_00000200/{store.MANIFEST}"]


@pytest.mark.parametrize("name", UNREAD)
def test_what_the_disk_gives_a_moment_later_is_sound(tmp_path: Path, name: str, refuse: Callable[..., None]) -> None:
    saved(tmp_path, 100, 200)
    refuse(tmp_path / name, errno.ESTALE, 3)
    assert newest_verified(tmp_path) == (tmp_path / "step_00000200", [])


@pytest.mark.parametrize("number", [errno.ESTALE, errno.EIO, errno.EACCES, errno.ETIMEDOUT])
@pytest.mark.parametrize("name", UNREAD)
def test_what_the_disk_does_not_give_is_not_passed_over(
    tmp_path: Path, name: str, number: int, refuse: Callable[..., None]
) -> None:
    saved(tmp_path, 100, 200)
    refuse(tmp_path / name, number)
    with pytest.raises(files.Unreadable) as unread:
        newest_verified(tmp_path)
    assert str(unread.value) == f"{tmp_path / name} cannot be read: {os.strerror(number)}"


@pytest.mark.parametrize("name", [*FILES, store.MANIFEST])
def test_a_folder_in_the_place_of_a_file_is_damage(tmp_path: Path, name: str) -> None:
    path = saved(tmp_path, 1) / "step_00000001" / name
    path.unlink()
    path.mkdir()
    assert store.find_checkpoint_problem(path.parent) == f"{name} is a directory, not a regular file"


def test_a_save_of_a_step_that_the_disk_does_not_give_replaces_nothing(
    tmp_path: Path, refuse: Callable[..., None]
) -> None:
    weights = saved(tmp_path, 1) / "step_00000001" / "weights.pt"
    before = weights.stat().st_ino
    refuse(weights, errno.EIO)
    with pytest.raises(OSError, match=r"weights\.pt cannot be read"):
        saved(tmp_path, 1)
    assert weights.stat().st_ino == before


def test_one_that_may_be_the_best_stays_though_the_disk_does_not_say(
    tmp_path: Path, refuse: Callable[..., None]
) -> None:
    losses(tmp_path, 1.0, 2.0, 3.0)
    refuse(tmp_path / "step_00000001" / store.MANIFEST, errno.ESTALE, 1)
    store.save_checkpoint(tmp_path, 4, FILES, keep=2, val_loss=4.0)
    assert steps(tmp_path) == [4, 3, 2, 1]
    assert (tmp_path / "best").resolve().name == "step_00000001"
    store.save_checkpoint(tmp_path, 5, FILES, keep=2, val_loss=5.0)
    assert steps(tmp_path) == [5, 4, 1]


def test_any_flipped_bit_of_a_manifest_is_noticed(tmp_path: Path) -> None:
    path = saved(tmp_path, 1) / "step_00000001" / store.MANIFEST
    content = path.read_bytes()
    whitespace = b" \n"
    for place in range(len(content)):
        if content[place] in whitespace:
            continue
        path.write_bytes(content[:place] + bytes([content[place] ^ 4]) + content[place + 1 :])
        assert store.find_checkpoint_problem(path.parent) is not None, content[max(0, place - 10) : place + 10]


def test_a_folder_under_the_name_of_another_step_is_damaged(tmp_path: Path) -> None:
    """A checkpoint copied by hand would stay the newest forever."""
    place = saved(tmp_path, 1)
    (place / "step_00000001").rename(place / "step_00000096")
    assert newest_verified(place) == (None, ["step_00000096: MANIFEST.json belongs to step 1"])


def test_a_damaged_checkpoint_is_replaced_when_its_step_comes_again(tmp_path: Path) -> None:
    saved(tmp_path, 1, 2)
    (tmp_path / "step_00000002" / "weights.pt").write_bytes(b"")
    assert newest_verified(saved(tmp_path, 2)) == (tmp_path / "step_00000002", [])


def test_a_sound_checkpoint_is_never_written_again(tmp_path: Path) -> None:
    saved(tmp_path, 1)
    before = (tmp_path / "step_00000001" / "weights.pt").stat().st_ino
    assert (saved(tmp_path, 1) / "step_00000001" / "weights.pt").stat().st_ino == before


def test_a_kill_while_the_only_checkpoint_is_replaced_leaves_the_old_one_or_the_new_one(tmp_path: Path) -> None:
    results = killed(tmp_path, "replaces")
    assert {(result["newest"], result["content"]) for result in results} == {(3, "o"), (3, "w")}
    assert results[-1]["content"] == "w"
    assert all(result["damaged"] == [] for result in results)
    assert all(result["left"] == ["best", "step_00000003"] for result in results)


def test_what_cannot_be_replaced_stays(tmp_path: Path) -> None:
    saved(tmp_path, 1)
    with largest_file(500), pytest.raises(OSError, match="File too large"):
        store.save_checkpoint(tmp_path, 1, FILES, keep=2, replaces=True)
    assert newest_verified(tmp_path) == (tmp_path / "step_00000001", [])


def test_what_the_disk_does_not_put_back_in_its_place_is_not_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a kill between the two renames of a save."""
    saved(tmp_path, 1)
    (tmp_path / "step_00000001").rename(aside := tmp_path / ".step_00000001.replaced")
    with monkeypatch.context() as sick:

        def rename(path: Path, target: Path) -> None:
            raise OSError(errno.ESTALE, "Stale file handle")

        sick.setattr(Path, "rename", rename)
        with pytest.raises(OSError, match="Stale"):
            saved(tmp_path, 2)
    assert newest_verified(tmp_path) == (aside, [])
    assert store.checkpoints_newest_first(saved(tmp_path, 2)) == [
        tmp_path / "step_00000002",
        tmp_path / "step_00000001",
    ]


def test_a_file_is_replaced_in_one_step(tmp_path: Path) -> None:
    path = tmp_path / "final" / "weights.pt"
    replace_durably(path, b"old")
    with largest_file(2), pytest.raises(OSError, match="File too large"):
        replace_durably(path, b"new")
    assert path.read_bytes() == b"old"
    replace_durably(path, b"newer")
    assert path.read_bytes() == b"newer"


def losses(root: Path, *val_losses: float | None) -> Path:
    for step, val_loss in enumerate(val_losses, 1):
        store.save_checkpoint(root, step, FILES, keep=2, val_loss=val_loss)
    return root


@pytest.mark.parametrize(
    ("val_losses", "best", "kept"),
    [
        ((3.0, 1.0, 2.0, 2.5, 2.6), 2, [5, 4, 2]),
        ((3.0, 2.0, 1.0), 3, [3, 2]),
        ((2.0, 2.0, 3.0, 3.0), 2, [4, 3, 2]),  # of equal ones the newest
        ((1.0, None, None, None), 1, [4, 3, 1]),  # saved without a validation: not better
        ((float("nan"), 5.0, float("nan"), 6.0), 2, [4, 3, 2]),
    ],
)
def test_the_best_checkpoint_is_never_removed(
    tmp_path: Path, val_losses: tuple[float | None, ...], best: int, kept: list[int]
) -> None:
    losses(tmp_path, *val_losses)
    assert (tmp_path / "best").resolve() == tmp_path / store.step_folder_name(best)
    assert steps(tmp_path) == kept
    assert all(store.find_checkpoint_problem(folder) is None for folder in store.checkpoints_newest_first(tmp_path))


def test_without_a_validation_there_is_no_best_one(tmp_path: Path) -> None:
    saved(tmp_path, 1, 2, 3)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step_00000002", "step_00000003"]
