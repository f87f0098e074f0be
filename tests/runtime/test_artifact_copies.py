"""Attempts that start from the same artifact: one copy, and a link for each further attempt."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from jobc.backends.slurm.engine.batch import attempt_artifact
from jobc.runtime.engines.artifact_location import Place
from jobc.runtime.engines.new_run import NewRun
from jobc.runtime.node.join_attempt import prepare_attempt, replace_folder_copy
from jobc.runtime.node.node import node_and_run_variables
from jobc.runtime.run_folder import artifact_copies
from jobc.runtime.run_folder.artifact_copies import (
    artifact_copy_of_attempt,
    copy_number_by_attempt,
    link_previous_copy_if_equal,
    newest_attempt_from,
)
from jobc.runtime.run_folder.run import Run
from jobc.runtime.run_folder.run_folder import RunFolder, write_small_file
from jobc.runtime.supervisor.lock_node import lock_node
from jobc.runtime.system.failure import Failure


@pytest.fixture
def artifact(tmp_path: Path) -> Path:
    folder = tmp_path / "compiled"
    (folder / ".jobc").mkdir(parents=True)
    (folder / ".jobc/job.json").write_text("{}")
    (folder / "launch.sh").write_text("echo hello\n")
    return folder


@pytest.fixture
def run(tmp_path: Path, artifact: Path) -> Path:
    """A run with attempt 0."""
    folder = tmp_path / "run"
    replace_folder_copy(artifact, folder / "artifact/0")
    (folder / "state").mkdir()
    (folder / "state/run").write_text("job=demo\n")
    return folder


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_symlink() or path.is_file()}


def test_attempts_with_the_same_files_link_to_the_folder_that_has_them(run: Path, artifact: Path) -> None:
    before = files(run)
    assert link_previous_copy_if_equal(run, 1, artifact) and link_previous_copy_if_equal(run, 2, artifact)
    assert files(run) - before == {"artifact/1", "artifact/2"}
    assert os.readlink(run / "artifact/2") == "0", "not to a link, which could be removed"
    assert copy_number_by_attempt(run) == {0: 0, 1: 0, 2: 0} and Run(run).attempt == 2
    assert artifact_copy_of_attempt(run, 2) == run / "artifact/0" and artifact_copy_of_attempt(run, 3) is None


def edit(folder: Path) -> None:
    (folder / "launch.sh").write_text("echo HELLO\n")  # of the same length


def add(folder: Path) -> None:
    (folder / ".jobc/more").write_text("")


def remove(folder: Path) -> None:
    (folder / "launch.sh").unlink()


def replace_by_link(folder: Path) -> None:
    (folder / "launch.sh").rename(folder.parent / "elsewhere")
    (folder / "launch.sh").symlink_to(folder.parent / "elsewhere")


def replace_by_folder(folder: Path) -> None:
    (folder / "launch.sh").unlink()
    (folder / "launch.sh").mkdir()


@pytest.mark.parametrize("change", [edit, add, remove, replace_by_link, replace_by_folder])
@pytest.mark.parametrize("side", ["compiled", "run/artifact/0"])
def test_a_changed_artifact_is_copied_again(
    run: Path, artifact: Path, side: str, change: Callable[[Path], None]
) -> None:
    change(run.parent / side)
    assert not link_previous_copy_if_equal(run, 1, artifact)
    prepare_attempt(run, 1, artifact, "", "demo", "")
    assert copy_number_by_attempt(run) == {0: 0, 1: 1} and files(run / "artifact/1") == files(artifact)
    assert link_previous_copy_if_equal(run, 2, artifact) == (not (artifact / "launch.sh").is_symlink())


def test_a_copy_of_another_user_is_copied_again(run: Path, artifact: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other user could change it after the comparison."""
    stat = os.stat

    def owned_by_another(path: Path) -> os.stat_result:
        fields = list(stat(path))
        fields[4] += 1
        return os.stat_result(fields)

    with monkeypatch.context() as patched:
        patched.setattr(artifact_copies.os, "stat", owned_by_another)
        assert not link_previous_copy_if_equal(run, 1, artifact)


def test_a_file_system_without_links_gets_copies(run: Path, artifact: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(artifact_copies.os, "symlink", refuse)
    prepare_attempt(run, 1, artifact, "", "demo", "")
    assert attempt_artifact(run, 0, 2) == run / "artifact/2"
    assert copy_number_by_attempt(run) == {0: 0, 1: 1, 2: 2} and files(run / "artifact/2") == files(artifact)


@pytest.mark.parametrize(
    "target", ["/", "..", "../state", "../artifact/0", "0/", "./0", "00", "1", "2", "9", "", "-1", "x"]
)
def test_any_other_link_is_no_attempt(run: Path, target: str) -> None:
    os.symlink(target or " ", run / "artifact/1")
    (run / "artifact/2").mkdir()
    assert copy_number_by_attempt(run) == {0: 0, 2: 2} and artifact_copy_of_attempt(run, 1) is None


def test_a_link_to_a_link_or_to_a_file_is_no_attempt(run: Path) -> None:
    (run / "artifact/1").symlink_to("0")
    (run / "artifact/2").symlink_to("1")
    (run / "artifact/3").write_text("")
    (run / "artifact/4").symlink_to("3")
    assert copy_number_by_attempt(run) == {0: 0, 1: 0}


def new_run(run: Path, attempt: int, artifact: Path) -> NewRun:
    place = Place.__new__(Place)
    place.artifact = artifact
    return NewRun(place, None, Run(run), attempt)  # type: ignore[arg-type]


def test_a_new_run_whose_random_id_exists_gets_another(
    run: Path, artifact: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    new = new_run(run, 0, artifact)
    new.place.job = SimpleNamespace(runs=run.parent)  # type: ignore[assignment]
    drawn = iter([b"aa", b"aa", b"bb"])
    monkeypatch.setattr(os, "urandom", lambda size: next(drawn))
    monkeypatch.setattr(time, "strftime", lambda *_: "20260101-000000")
    new.create_folder("")
    new.create_folder("")
    assert {path.name for path in run.parent.glob("2026*")} == {"20260101-000000-6161", "20260101-000000-6262"}


@pytest.mark.parametrize("is_changed", [False, True])
def test_of_two_that_start_an_attempt_one_wins(run: Path, artifact: Path, is_changed: bool) -> None:
    new_run(run, 1, artifact).copy_artifact()
    if is_changed:
        add(artifact)
    with pytest.raises(Failure, match=r"^another jobctl submit is already starting attempt 1 of run run"):
        new_run(run, 1, artifact).copy_artifact()


def test_a_start_that_fails_removes_its_link_and_no_more(run: Path, artifact: Path) -> None:
    with new_run(run, 1, artifact) as new:
        new.copy_artifact()
        assert (run / "artifact/1").is_symlink()
    assert copy_number_by_attempt(run) == {0: 0} and files(run / "artifact/0") == files(artifact)


def test_pods_that_start_again_have_one_copy(run: Path, artifact: Path) -> None:
    for _ in range(2):
        prepare_attempt(run, 1, artifact, "", "demo", "")
    assert copy_number_by_attempt(run) == {0: 0, 1: 0}


def test_a_requeued_job_keeps_the_artifact_of_its_first_attempt(run: Path, artifact: Path) -> None:
    edit(run / "artifact/0")
    assert attempt_artifact(run, 0, 1) == attempt_artifact(run, 0, 1) == run / "artifact/0"
    assert attempt_artifact(run, 1, 2) == run / "artifact/0" and copy_number_by_attempt(run) == {0: 0, 1: 0, 2: 0}


def test_by_hand_the_newest_attempt_of_a_copy_starts(run: Path, artifact: Path) -> None:
    link_previous_copy_if_equal(run, 1, artifact)
    replace_folder_copy(artifact, run / "artifact/2")
    link_previous_copy_if_equal(run, 3, artifact)
    assert newest_attempt_from(run / "artifact/0") == 1 and newest_attempt_from(run / "artifact/2") == 3
    assert node_and_run_variables(run / "artifact/0", ["0"], {})["JOBC_ATTEMPT"] == "1"
    started = {"JOBC_RUN_DIR": str(run), "JOBC_ATTEMPT": "0"}
    assert node_and_run_variables(run / "artifact/0", ["0"], started)["JOBC_ATTEMPT"] == "0", "not by hand"
    assert newest_attempt_from(artifact) is None and node_and_run_variables(artifact, ["0"], {})["JOBC_RUN_DIR"] == ""


def test_of_the_attempt_before_exit_codes_of_nodes_and_the_first_failure_stay(run: Path) -> None:
    before, other = RunFolder(run, 1), RunFolder(run, 0)
    for path in (
        before.rank_exit_file(2),
        before.rank_exit_file(3),
        before.rank_exit_file(4),
        before.node_exit_file(1),
        other.rank_exit_file(2),
    ):
        write_small_file(path, "75", {"reason": "x", "time_ns": 1})
    for path in (before.first_failure, before.first_stop_file, before.mpi_daemon, before.exits / "restart_1/go"):
        write_small_file(path, "69")
    os.close(lock_node(RunFolder(run, 2), 1, range(2, 4)))
    of_node_0 = {"1/rank_04", "1/stop", "1/mpi_daemon", "1/restart_1/go"}
    assert files(run / "exit") == {"0/rank_02", "1/node_01", "1/first", *of_node_0}
    os.close(lock_node(RunFolder(run, 2), 0, range(2)))
    assert files(run / "exit") == {"0/rank_02", "1/node_01", "1/first", "1/rank_04"}
