"""The entries of `then`: each starts when the ranks of the one before have ended with 0 on all nodes."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from jobc.runtime.exit_codes import CRASHED, DONE, PREEMPTED
from jobc.runtime.ranks import then
from jobc.runtime.ranks.steps import NodeSteps
from jobc.runtime.ranks.then import run_commands, skip_ended_commands
from jobc.runtime.run_folder.run_folder import RunFolder, read_small_file, write_small_file
from jobc.runtime.supervisor.links import step_file_names
from jobc.runtime.supervisor.verdict import judge_node
from jobc.runtime.system.failure import Failure
from jobc.tests.runtime.test_steps import made, recorded


class Replaced(Exception):
    """Raised instead of an exec."""


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunFolder:
    def replace(name: str, words: list[str]) -> None:
        raise Replaced(*words)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("JOBC_PROCS", "1")
    monkeypatch.setenv("JOBC_THEN", "")  # so that it is restored, whoever sets it
    monkeypatch.delenv("JOBC_THEN")
    monkeypatch.setattr(then.os, "execvp", replace)
    run = RunFolder(tmp_path / "run", 0)
    run.steps.mkdir(parents=True)
    return run


def launcher(run: RunFolder, node: int, code: int = 0, signalled: str = "", status: int = 0) -> list[str]:
    """Return a launcher whose only rank leaves its files, and which prints what it runs."""
    state, end = run.rank_state_file(node), run.rank_exit_file(node)
    state.parent.mkdir(exist_ok=True)
    script = (
        f"printf 'attempt=0\\npid=1\\nsignalled={signalled}\\n' >{state};"
        f" printf '{code}\\nreason=it\\ntime_ns=1\\n' >{end}; echo ${{JOBC_THEN-command}} >>said; exit {status}"
    )
    return ["bash", "-c", script]


def ran() -> list[str]:
    return Path("said").read_text().splitlines() if Path("said").exists() else []


def steps_of(run: RunFolder, node: int, nodes: int, *actions: Callable[[], object]) -> NodeSteps:
    return made(run, node, nodes, *actions)


def test_each_entry_runs_once_and_the_last_one_replaces_the_process(
    run: RunFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    words = launcher(run, 0)
    with pytest.raises(Replaced) as end:
        run_commands(run, steps_of(run, 0, 1), words, ["a", "b"])
    assert ran() == ["command", "a"] and list(end.value.args) == words
    assert recorded(run) == {"ended_1_0", "then_1", "ended_2_0", "then_2"}
    assert read_small_file(run.ended_commands_file) == ("", {"count": "2"})
    assert capsys.readouterr().out == "jobc: then 1 of 2: a\njobc: then 2 of 2: b\n"
    assert not run.rank_exit_file(0).exists() and not run.rank_state_file(0).exists()  # of a


def test_node_0_waits_for_the_ranks_of_all_nodes(run: RunFolder) -> None:
    def end_there() -> None:
        assert "then_1" not in recorded(run) and ran() == ["command"]
        (run.steps / "ended_1_1").touch()

    with pytest.raises(Replaced):
        run_commands(run, steps_of(run, 0, 2, end_there), launcher(run, 0), ["a"])


def test_another_node_waits_for_node_0(run: RunFolder) -> None:
    def go_on() -> None:
        assert "ended_1_1" in recorded(run)
        (run.steps / "then_1").touch()

    with pytest.raises(Replaced):
        run_commands(run, steps_of(run, 1, 2, go_on), launcher(run, 1), ["a"])
    assert not run.ended_commands_file.exists()


@pytest.mark.parametrize(("code", "status", "expected"), [(3, 1, 1), (75, 0, 0), (1, 0, 0)])
def test_a_command_that_fails_or_is_stopped_ends_all(run: RunFolder, code: int, status: int, expected: int) -> None:
    assert run_commands(run, steps_of(run, 0, 1), launcher(run, 0, code, "", status), ["a"]) == expected
    assert ran() == ["command"] and run.rank_exit_file(0).exists() and not run.ended_commands_file.exists()


def test_a_launcher_that_was_killed_is_a_crash(run: RunFolder) -> None:
    assert run_commands(run, steps_of(run, 0, 1), ["bash", "-c", "kill -9 $$"], ["a"]) == CRASHED


@pytest.mark.parametrize(("stopped_by_user", "code"), [(False, PREEMPTED), (True, DONE)])
def test_ranks_that_save_and_exit_with_0_when_stopped_have_not_ended_the_command(
    run: RunFolder, stopped_by_user: bool, code: int
) -> None:
    with pytest.raises(Failure, match="then did not run, because the ranks were stopped") as end:
        run_commands(run, steps_of(run, 0, 1), launcher(run, 0, 0, "SIGTERM"), ["a"])
    assert end.value.code == PREEMPTED and not run.ended_commands_file.exists()
    if stopped_by_user:
        run.stop_mark.parent.mkdir()
        run.stop_mark.touch()
    assert judge_node(run, 0, range(1), PREEMPTED, b"", True, False).code == code


def test_a_notice_does_not_end_the_command(run: RunFolder) -> None:
    with pytest.raises(Replaced):
        run_commands(run, steps_of(run, 0, 1), launcher(run, 0, 0, "SIGUSR1"), ["a"])


def test_a_stop_that_the_ranks_did_not_get_ends_it_before_the_next_entry(run: RunFolder) -> None:
    run.stop_mark.parent.mkdir()
    run.stop_mark.touch()
    with pytest.raises(Failure) as end:
        run_commands(run, steps_of(run, 0, 1, lambda: [signal.SIGTERM]), launcher(run, 0), ["a"])
    assert end.value.code == PREEMPTED and not run.ended_commands_file.exists()


@pytest.mark.parametrize(("count", "entries", "skipped"), [(0, 2, []), (1, 2, ["command"]), (2, 1, ["command"])])
def test_a_resumed_run_skips_what_has_ended(run: RunFolder, count: int, entries: int, skipped: list[str]) -> None:
    write_small_file(run.ended_commands_file, keys={"count": count})
    skip_ended_commands(run, steps_of(run, 1, 2), entries)
    assert recorded(run) == set()  # node 0 tells the others
    steps = steps_of(run, 0, 1)
    skip_ended_commands(run, steps, entries)
    with pytest.raises(Replaced):
        run_commands(run, steps, launcher(run, 0), ["a", "b"][:entries])
    assert [*skipped, *ran()] == ["command", "a"][:entries]


def test_a_resume_tells_the_others_what_to_skip_before_they_begin() -> None:
    assert step_file_names(0, 2) == ("then_1", "then_2", "begun_0", "before", "go")
    assert step_file_names(3, 2) == ("ended_1_3", "ended_2_3", "begun_3", "ready_3")
