"""A run is identified by its folder, and its process by kernel and PID namespace. Equal names are not enough."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from jobc.tests.packed import change_program, module_of

from .users import TIMEOUT_S, SharedJob

PROGRAM = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(75))
run = os.environ["JOBC_RUN_DIR"]
while os.path.exists(run + "/../../../wait"):
    open(run + "/../../../up", "w").close()
    time.sleep(0.05)
print("trained")
"""


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def wait_until_up(job: SharedJob, name: str) -> None:
    wait_for((job.folder / "up").exists)
    wait_for((job.runs / name / "state/node_00").exists)


@pytest.fixture
def in_container(shared_job: SharedJob) -> Iterator[SharedJob]:
    """Create a live run `a` in another PID namespace with this host name."""
    (shared_job.folder / "wait").touch()
    process = shared_job.start("submit", "--run-id", "a", container=True)
    wait_until_up(shared_job, "a")
    yield shared_job
    process.kill()
    process.communicate()


@pytest.fixture
def finished(shared_job: SharedJob) -> SharedJob:
    assert shared_job.call("submit", "--run-id", "a").code == 0
    return shared_job


def edit_state(run: Path, **changes: str) -> None:
    """Change keys of the state file of node 0; an empty value removes the key. Keeps its time."""
    file = run / "state/node_00"
    seen = file.stat()
    keys = dict(line.split("=", 1) for line in file.read_text().splitlines()) | changes
    file.write_text("".join(f"{key}={value}\n" for key, value in keys.items() if value))
    os.utime(file, ns=(seen.st_atime_ns, seen.st_mtime_ns))


def set_age(run: Path, seconds: float) -> None:
    os.utime(run / "state/node_00", (time.time() - seconds,) * 2)


def statuses(job: SharedJob) -> dict[str, str]:
    return dict(line.split(None, 1) for line in job.call("status", "--all").output.splitlines())


# ---- the process of a run


def test_a_run_in_another_pid_namespace_is_live_and_stays(in_container: SharedJob) -> None:
    set_age(in_container.runs / "a", 3600)  # it is locked, so its silence does not matter
    assert statuses(in_container)["a"] == "live"
    done = in_container.call("clean", "--keep", "0", "--yes")
    assert done.code == 0 and "run a is kept: it is live, node 00 in another container on" in done.output
    assert in_container.names() == ["a"]


def test_a_run_in_another_pid_namespace_is_not_resumed(in_container: SharedJob) -> None:
    done = in_container.call("submit", "--resume", "a")
    assert done.code == 1 and "run a is live, node 00 in another container on" in done.output
    assert sorted(path.name for path in (in_container.runs / "a/artifact").iterdir()) == ["0"]


def test_a_run_outside_is_live_in_a_container(shared_job: SharedJob) -> None:
    (shared_job.folder / "wait").touch()
    process = shared_job.start("submit", "--run-id", "a")
    wait_until_up(shared_job, "a")
    done = shared_job.call_in_container("clean", "--keep", "0", "--yes")
    assert done.code == 0 and "run a is kept: it is live" in done.output
    (shared_job.folder / "wait").unlink()
    assert process.communicate(timeout=TIMEOUT_S) and process.returncode == 0


def test_stop_reaches_a_run_in_another_pid_namespace(in_container: SharedJob) -> None:
    done = in_container.call("stop", "--run", "a")
    assert done.code == 0 and "stopped by jobctl stop" in done.output


def test_a_run_whose_container_was_killed_is_dead_at_once(shared_job: SharedJob) -> None:
    (shared_job.folder / "wait").touch()
    process = shared_job.start("submit", "--run-id", "a", container=True)
    wait_until_up(shared_job, "a")
    process.kill()
    process.communicate()
    wait_for(lambda: statuses(shared_job)["a"].startswith("failed: its supervisor was killed"))
    assert shared_job.call("clean", "--keep", "0", "--yes").code == 0 and shared_job.names() == []


OTHER_BOOT = "00000000-0000-4000-8000-000000000000"


def test_a_run_of_another_boot_is_live_while_its_heart_beats(finished: SharedJob) -> None:
    edit_state(finished.runs / "a", boot=OTHER_BOOT, ended="")
    set_age(finished.runs / "a", 0)
    done = finished.call("clean", "--keep", "0", "--yes")
    assert "run a is kept: it is live, node 00 on another machine named" in done.output
    assert finished.call("submit", "--resume", "a").code == 1


def test_a_run_of_another_boot_that_is_silent_is_resumed_and_not_removed(finished: SharedJob) -> None:
    edit_state(finished.runs / "a", boot=OTHER_BOOT, ended="")
    set_age(finished.runs / "a", 600)
    assert statuses(finished)["a"].startswith("failed: its supervisor was killed")
    done = finished.call("clean", "--keep", "0", "--yes")
    assert "node 00 on another machine named" in done.output and finished.names() == ["a"]
    assert finished.call("submit", "--resume", "a").code == 0


def test_a_reused_pid_is_not_the_supervisor(finished: SharedJob) -> None:
    edit_state(finished.runs / "a", pid=str(os.getpid()), ended="", exit="")
    assert statuses(finished)["a"].startswith("failed: its supervisor was killed")


@pytest.mark.parametrize("keys", [("boot", "pid_namespace"), ("boot", "pid_namespace", "start_ticks")])
def test_a_state_file_of_an_older_jobc_is_read(finished: SharedJob, keys: tuple[str, ...]) -> None:
    edit_state(finished.runs / "a", ended="", exit="", **dict.fromkeys(keys, ""))
    assert statuses(finished)["a"].startswith("failed: its supervisor was killed")
    lock = finished.runs / "a/state/node_00.lock"
    with subprocess.Popen(["flock", "--no-fork", lock, "sleep", "60"]) as holder:
        wait_for(lambda: statuses(finished)["a"] == "live")
        holder.kill()


def test_other_users_cannot_open_the_lock_of_a_run(finished: SharedJob) -> None:
    assert (finished.runs / "a/state/node_00.lock").stat().st_mode & 0o777 == 0o600


def test_a_glance_at_the_lock_does_not_refuse_a_start(finished: SharedJob) -> None:
    lock = finished.runs / "a/state/node_00.lock"
    with subprocess.Popen(["flock", "--no-fork", "--shared", lock, "sleep", "0.7"]):
        assert finished.call("submit", "--resume", "a").code == 0


def test_a_copy_of_a_run_is_not_live_with_it(in_container: SharedJob) -> None:
    shutil.copytree(in_container.runs / "a", in_container.runs / "b", symlinks=True)
    assert statuses(in_container)["a"] == "live" and statuses(in_container)["b"].startswith("failed")


# ---- a run that was never completed


COPIES, NEW_RUN = (f"jobc_runtime/{path}.py" for path in ("run_folder/artifact_copies", "engines/new_run"))
MOMENTS = {"shutil.copytree(": COPIES, "os.chmod(path": COPIES, '_write_keys(self.run.path / "state/run"': NEW_RUN}


def call_killed(job: SharedJob, moment: str, *words: str) -> None:
    """Call jobctl submit, and kill it before it executes the line with that text."""
    program = job.artifact / "jobctl"
    whole = program.read_bytes()
    text = module_of(program, MOMENTS[moment])
    line = next(line for line in text.splitlines() if moment in line)
    indent = line[: len(line) - len(line.lstrip())]
    change_program(program, {MOMENTS[moment]: text.replace(line, f"{indent}os.kill(os.getpid(), 9)\n{line}")})
    done = job.call("submit", *words)
    program.write_bytes(whole)
    assert done.code == -9, done.output


@pytest.mark.parametrize("moment", MOMENTS)
def test_the_id_of_a_run_whose_making_was_killed_is_free(shared_job: SharedJob, moment: str) -> None:
    call_killed(shared_job, moment, "--run-id", "a")
    done = shared_job.call("submit", "--resume", "a")
    assert done.code == 1 and "jobctl submit --run-id a creates the run again" in done.output
    assert shared_job.call("submit", "--run-id", "a").code == 0
    assert shared_job.names() == ["a"] and statuses(shared_job)["a"] == "done (exit 0)"


@pytest.mark.parametrize("moment", [*MOMENTS][:2])
def test_a_resume_that_was_killed_is_resumed(finished: SharedJob, moment: str) -> None:
    call_killed(finished, moment, "--resume", "a")
    assert finished.call("submit", "--resume", "a").code == 0


def test_a_folder_that_is_not_a_run_is_not_replaced(shared_job: SharedJob) -> None:
    (shared_job.runs / "a").mkdir()
    (shared_job.runs / "a/notes").write_text("mine")
    done = shared_job.call("submit", "--run-id", "a")
    assert done.code == 1 and "choose another --run-id" in done.output
    assert (shared_job.runs / "a/notes").read_text() == "mine"


def test_a_resume_without_permission_says_so(shared_job: SharedJob) -> None:
    assert shared_job.call_as_neighbour("submit", "--run-id", "a").code == 0
    (shared_job.runs / "a/artifact").chmod(0o555)
    done = shared_job.call_as_neighbour("submit", "--resume", "a")
    assert done.code == 1 and "Permission denied" in done.output and "by another" not in done.output


# ---- leftovers in the environment of submit


def test_an_exported_function_in_posix_mode_stops_no_start(shared_job: SharedJob) -> None:
    done = shared_job.call("submit", **{"POSIXLY_CORRECT": "1", "BASH_FUNC_exec%%": "() { :; }"})
    assert done.code == 0 and "trained" in done.output


@pytest.mark.parametrize("starter", ["1 2", "x"])
def test_a_node_outside_a_container_has_no_process_that_started_the_container(
    shared_job: SharedJob, starter: str
) -> None:
    done = shared_job.call("submit", JOBC_STARTER=starter)
    assert done.code == 0 and "container" not in done.output and "Traceback" not in done.output
