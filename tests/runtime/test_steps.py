"""The lines of before and per_node: in order, once, and no rank starts before the other nodes have run theirs."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from jobc.runtime.exit_codes import CRASHED, DATA_BROKEN, DONE, INTERRUPTED, PREEMPTED, RENDEZVOUS_FAILED
from jobc.runtime.ranks import steps
from jobc.runtime.ranks.steps import NodeSteps
from jobc.runtime.run_folder.run_folder import RunFolder, write_small_file
from jobc.runtime.supervisor.run_after_lines import job_exit_code
from jobc.runtime.supervisor.verdict import judge_node
from jobc.runtime.system.failure import Failure


class Signals:
    """The signals of a process, and what happens elsewhere while it waits: one action for each wait, in order."""

    def __init__(self, *actions: Callable[[], object]) -> None:
        self.actions = list(actions)

    def wait(self, timeout_s: float, *_: int) -> tuple[list[int], list[int]]:
        if timeout_s > 1:  # for bash
            time.sleep(0.002)
            return [], []
        result = self.actions.pop(0)()
        return (result if isinstance(result, list) else []), []


def made(run: RunFolder, node: int, nodes: int, *actions: Callable[[], object], timeout_s: float = 60) -> NodeSteps:
    run.steps.mkdir(parents=True, exist_ok=True)
    return NodeSteps(run, node, nodes, timeout_s, Signals(*actions))  # type: ignore[arg-type]


def recorded(run: RunFolder) -> set[str]:
    return set(os.listdir(run.steps))


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunFolder:
    monkeypatch.chdir(tmp_path)
    return RunFolder(tmp_path / "run", 0)


def test_the_lines_run_once_and_in_order(run: RunFolder) -> None:
    for _ in range(2):  # as for ranks that start again in place
        made(run, 0, 1).run("echo before >>said", "echo staged >>said")
    assert Path("said").read_text() == "before\nstaged\n"
    assert recorded(run) == {"begun_0", "before", "ready_0", "go"}


def test_another_node_waits_for_before_and_for_all_nodes(run: RunFolder, capfd: pytest.CaptureFixture[str]) -> None:
    def is_staged() -> bool:
        return Path("said").exists()

    def touch(name: str, staged: bool) -> Callable[[], None]:
        def action() -> None:
            assert is_staged() == staged, name
            (run.steps / name).touch()

        return action

    made(run, 1, 3, touch("begun_0", False), touch("before", False), touch("go", True)).run("exit 3", "echo 1 >said")
    assert recorded(run) >= {"begun_1", "ready_1"}


def test_node_0_lets_the_ranks_start_when_all_nodes_are_ready(run: RunFolder) -> None:
    for name in ("begun_1", "begun_2", "ready_2"):
        run.steps.mkdir(parents=True, exist_ok=True)
        (run.steps / name).touch()

    def become_ready() -> None:
        assert "go" not in recorded(run)
        (run.steps / "ready_1").touch()

    made(run, 0, 3, become_ready).run("", "true")
    assert "go" in recorded(run)


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        ("true\nls /nonexistent\ntouch not_reached", "before failed (exit 2): ls /nonexistent"),
        ("false # a comment", "before failed (exit 1): false"),
        ("no-such-command", "before failed (exit 127): no-such-command"),
        ("exit 3", "before exited with 3: a line calls exit"),
        ("if true", "before exited with 2: a line is not valid bash, or calls exit 2"),
        ("kill -9 $$", "before was killed by SIGKILL"),
    ],
)
def test_a_line_that_fails_ends_the_start(run: RunFolder, lines: str, why: str) -> None:
    with pytest.raises(Failure) as end:
        made(run, 0, 1).run(lines, "touch not_reached")
    assert (end.value.code, str(end.value)) == (DATA_BROKEN, why)
    assert not Path("not_reached").exists() and "before" not in recorded(run)
    assert judge_node(run, 0, range(1), DATA_BROKEN, f"jobc: {why}\n".encode(), False, False) == (
        DATA_BROKEN,
        None,
        why,
    )


@pytest.mark.parametrize("lines", ["false || true", "[ -d /nonexistent ] && false", "if false; then :; fi", "# only"])
def test_a_command_that_may_fail_does_not_end_it(run: RunFolder, lines: str) -> None:
    made(run, 0, 1).run(lines, "")
    assert "before" in recorded(run)


def test_a_process_in_the_background_keeps_nobody_waiting(run: RunFolder) -> None:
    began = time.monotonic()
    made(run, 0, 1).run("sleep 5 &", "")
    assert time.monotonic() - began < 4


@pytest.mark.parametrize(("node", "missing"), [(0, "nodes 1, 2"), (1, "node 0")])
def test_a_node_that_does_not_begin_ends_the_wait(
    run: RunFolder, monkeypatch: pytest.MonkeyPatch, node: int, missing: str
) -> None:
    monkeypatch.setattr(steps, "SILENT_S", -1.0)
    with pytest.raises(Failure, match=f"^{missing} did not begin within 0 s$") as end:
        made(run, node, 3, lambda: None, timeout_s=0).run("true", "")
    assert end.value.code == RENDEZVOUS_FAILED


def test_a_stop_ends_the_wait(run: RunFolder) -> None:
    with pytest.raises(Failure) as end:
        made(run, 1, 2, lambda: [signal.SIGUSR1], lambda: [signal.SIGTERM]).run("true", "")
    assert end.value.code == PREEMPTED


def test_a_wait_names_the_node_that_is_missing(
    run: RunFolder, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(steps, "SILENT_S", 0.0)
    run.steps.mkdir(parents=True)
    for name in ("begun_0", "before"):
        (run.steps / name).touch()
    made(run, 1, 2, (run.steps / "go").touch).run("true", "true")
    assert "jobc: waiting for node 0 to finish per_node (0 s)\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("own", "first", "others", "code"),
    [
        (DONE, None, [DONE], DONE),
        (DONE, None, [CRASHED], CRASHED),
        (PREEMPTED, DATA_BROKEN, [], DATA_BROKEN),
        (INTERRUPTED, CRASHED, [], INTERRUPTED),
        (DONE, None, [7], DONE),  # somebody else wrote it
    ],
)
def test_after_gets_the_worst_code_of_the_nodes(
    run: RunFolder, own: int, first: int | None, others: list[int], code: int
) -> None:
    if first is not None:
        write_small_file(run.first_failure, str(first), {"node": 1})
    for node, other in enumerate(others, 1):
        write_small_file(run.node_exit_file(node), str(other))
    assert job_exit_code(run, own) == code
