"""A task of srun waits for task 0 of its node, which runs the lines of before first, but not after its end."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from jobc.runtime.exit_codes import RENDEZVOUS_FAILED
from jobc.runtime.ranks import tasks
from jobc.runtime.run_folder.run_folder import RunFolder, write_small_file
from jobc.runtime.system.processes import identify_machine, process_start_time


class Signals:
    """The signals of a process: none. Each wait calls what happens meanwhile."""

    def __init__(self, *actions: object) -> None:
        self.actions = list(actions)

    def wait(self, timeout_s: float, *_: int) -> tuple[list[int], list[int]]:
        if self.actions:
            self.actions.pop(0)()  # type: ignore[operator]
        return [], []


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunFolder:
    for name, value in {"RUN_DIR": str(tmp_path), "ATTEMPT": "1", "NODE_RANK": "0", "JOB_ID": "7"}.items():
        monkeypatch.setenv(f"JOBC_{name}", value)
    monkeypatch.setattr(tasks, "LOOK_S", 0.0)
    monkeypatch.setattr(tasks.processes, "become_subreaper", lambda: None)
    return RunFolder(tmp_path, 1)


@pytest.fixture
def supervisor() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "60"]) as process:
        yield process
        process.kill()


def record(run: RunFolder, pid: int, attempt: int) -> None:
    """Write the state of the node's supervisor."""
    run.node_state_file(0).parent.mkdir(exist_ok=True)
    keys = {**identify_machine(), "pid": pid, "start_ticks": process_start_time(pid), "attempt": attempt}
    write_small_file(run.node_state_file(0), keys=keys)


def wait(monkeypatch: pytest.MonkeyPatch, timeout_s: float, *actions: object) -> int:
    monkeypatch.setattr(tasks, "SignalQueue", lambda _: Signals(*actions))
    return tasks.run_task(["true"], 3, timeout_s)


def test_a_task_ends_when_task_0_is_killed_during_before(
    run: RunFolder,
    supervisor: subprocess.Popen[bytes],
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    def kill() -> None:
        supervisor.kill()
        supervisor.wait()

    record(run, supervisor.pid, 1)
    assert wait(monkeypatch, 0, *[partial(time.sleep, 0.01)] * 3, kill) == RENDEZVOUS_FAILED
    assert capfd.readouterr().err == "jobc: task 3: task 0 of this node was killed before it started the ranks\n"


def test_a_task_waits_a_limited_time_for_task_0_to_start(
    run: RunFolder,
    supervisor: subprocess.Popen[bytes],
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    record(run, supervisor.pid, 0)  # of the attempt before
    assert wait(monkeypatch, 0.01, partial(time.sleep, 0.02)) == RENDEZVOUS_FAILED
    assert capfd.readouterr().err == "jobc: task 3: task 0 of this node has not started the ranks\n"


def test_a_task_ends_when_its_node_has_ended(run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    def end() -> None:
        run.node_exit_file(0).parent.mkdir(parents=True)
        run.node_exit_file(0).touch()

    assert wait(monkeypatch, 60, end) == RENDEZVOUS_FAILED
