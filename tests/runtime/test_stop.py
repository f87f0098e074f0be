"""stop: which run it ends, what it marks and signals on this machine, and how long it waits.

Time passes only while stop waits.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from jobc.runtime.node import task
from jobc.runtime.run_folder.run import Run
from jobc.runtime.run_folder.stopping import signal_supervisors_here, write_stop_mark
from jobc.runtime.system.processes import process_start_time

from .sample_runs import make_run, node
from .stop_bed import ENDED, Stop, recorded


@pytest.fixture
def demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Stop:
    return Stop(tmp_path, monkeypatch, capsys)


# ---- which run


def test_the_live_run_is_stopped_and_how_it_ended_is_printed(demo: Stop) -> None:
    demo.set(engine := recorded("TERM"))
    demo.run("a", state__node_00=node())
    demo.run("b", state__node_00=node(**ENDED))
    lines = "stopping run a: it has 30 s to exit\nrun a: stopped by jobctl stop (exit 0)\n"
    assert demo() == (0, lines) and engine.sent == [("a", "TERM")] and demo.clock.now == 0


def test_two_live_runs_are_not_chosen_from(demo: Stop) -> None:
    demo.set(engine := recorded("TERM"))
    for name in "ab":
        os.utime(demo.run(name, state__node_00=node()).path / "artifact", (1, 1))
    code, error = demo()
    assert code == 1 and error.startswith("error: job demo has 2 live runs: b a\n  hint: ") and not engine.sent
    assert error.endswith("jobctl stop --run b\n")
    assert not list(demo.folder.glob("runs/demo/*/control"))
    assert demo("--run", "a")[0] == 0 and engine.sent == [("a", "TERM")]
    assert demo()[0] == 0 and engine.sent[1:] == [("b", "TERM")]


def test_a_run_that_is_not_live_is_not_stopped(demo: Stop) -> None:
    assert demo() == (1, f"error: job demo has no live run in {demo.folder}/runs/demo\n")
    run = demo.run(state__node_00=node(**ENDED))
    assert demo() == (1, f"error: job demo has no live run in {demo.folder}/runs/demo\n")
    assert demo("--run", "r") == (1, "error: run r is not live: done (exit 0)\n")
    assert demo("--run", "s")[1].startswith("error: job demo has no run s in ")
    assert not (run.path / "control").exists()


def test_a_run_of_another_user_is_refused_by_name_and_else_ignored(demo: Stop) -> None:
    demo.set(engine := recorded("TERM"))
    demo.run("mine", state__node_00=node())
    demo.run("theirs", state__node_00=node())
    demo.monkeypatch.setattr(Run, "is_mine", property(lambda run: run.id == "mine"))
    code, output = demo("--run", "theirs")
    assert code == 1 and "belongs to" in output and "only its owner can start, stop or remove it" in output
    assert demo()[0] == 0 and engine.sent == [("mine", "TERM")]


def test_in_the_artifact_of_a_run_it_is_that_run(demo: Stop, monkeypatch: pytest.MonkeyPatch) -> None:
    demo.set(engine := recorded("TERM"))
    runs = [demo.run(name, state__node_00=node()) for name in "ab"]
    own = runs[0].path / "artifact/0"
    (own / ".jobc").mkdir()
    (own / ".jobc/job.json").write_bytes((demo.artifact / ".jobc/job.json").read_bytes())
    monkeypatch.setattr(sys, "argv", [str(own / "jobctl")])
    assert demo()[0] == 0 and engine.sent == [("a", "TERM")]


def test_unknown_options_and_missing_values_are_one_message(demo: Stop) -> None:
    jobctl = demo.artifact / "jobctl"
    assert demo("--later") == (2, f"error: unknown option: --later\n  hint: {jobctl} stop --help\n")
    assert demo("--down") == (2, f"error: unknown option: --down\n  hint: {jobctl} stop --help\n")
    assert demo("--run") == (2, f"error: --run needs a value\n  hint: {jobctl} stop --help\n")


# ---- how long


def test_a_run_that_does_not_end_is_asked_then_killed_and_then_that_is_an_error(demo: Stop) -> None:
    demo.set(engine := recorded())
    demo.run(state__node_00=node())
    code, output = demo()
    assert code == 1 and [name for _, name in engine.sent] == ["TERM", "QUIT", "KILL"]
    assert output == (
        "stopping run r: it has 30 s to exit\nstill running after 40 s\nkilling run r\nerror: run r is still running\n"
        f"  hint: {demo.artifact}/jobctl status prints the run's nodes; run ps -o pid,stat,wchan:30,args on them\n"
    )
    assert 70 <= demo.clock.now < 71


@pytest.mark.parametrize(("ends_at", "ended_s"), [("QUIT", 0), ("KILL", 15)])
def test_now_does_not_ask(demo: Stop, ends_at: str, ended_s: float) -> None:
    demo.set(engine := recorded(ends_at))
    demo.run(state__node_00=node())
    assert demo("--now") == (0, "killing run r\nrun r: stopped by jobctl stop (exit 0)\n")
    assert engine.sent[0][1] == "QUIT" and engine.sent[-1][1] == ends_at
    assert ended_s <= demo.clock.now < ended_s + 1


def test_a_run_whose_files_go_to_a_bucket_has_twice_the_grace(demo: Stop) -> None:
    demo.set(recorded(), storage="object")
    demo.run(state__node_00=node())
    assert "it has 60 s to exit\nstill running after 70 s" in demo()[1]


def test_an_artifact_without_a_grace_is_damaged(demo: Stop) -> None:
    demo.set(engine := recorded("TERM"), grace_s=None)
    demo.run(state__node_00=node())
    assert "job.json does not describe a job" in demo()[1] and not engine.sent


# ---- the stop mark


@pytest.mark.parametrize("link", ["control", "control/STOP"])
def test_no_mark_is_written_through_a_link_and_nothing_is_signalled(demo: Stop, link: str) -> None:
    demo.set(engine := recorded("TERM"))
    run = demo.run(state__node_00=node(), **({} if link == "control" else {"control__SAVE": ""}))
    (demo.folder / "elsewhere").mkdir()
    (run.path / link).symlink_to(demo.folder / "elsewhere" / ("" if link == "control" else "file"))
    code, output = demo()
    assert code == 1 and output.startswith(f"error: cannot write the stop mark in {run.path}/control: "), output
    assert not list((demo.folder / "elsewhere").iterdir()) and not engine.sent


def test_a_mark_may_be_there_already(tmp_path: Path) -> None:
    write_stop_mark(tmp_path)
    os.utime(tmp_path / "control/STOP", (1, 1))
    write_stop_mark(tmp_path)
    assert (tmp_path / "control/STOP").stat().st_mtime > 1


# ---- this machine


@pytest.fixture
def process(request: pytest.FixtureRequest) -> Iterator[Callable[[str], subprocess.Popen[bytes]]]:
    started: list[subprocess.Popen[bytes]] = []

    def start(folder: str) -> subprocess.Popen[bytes]:
        started.append(subprocess.Popen(["sleep", "60"], env={"JOBC_RUN_DIR": folder, "A": "b"}))
        while b"A=b" not in Path(f"/proc/{started[-1].pid}/environ").read_bytes():
            time.sleep(0.001)  # exec has begun, and the kernel does not show the variables yet
        return started[-1]

    yield start
    for each in started:
        each.kill()
        each.wait()


def state_of(process: subprocess.Popen[bytes], **keys: object) -> str:
    return node(pid=process.pid, start_ticks=process_start_time(process.pid), **keys)


@pytest.mark.parametrize("folder", ["own", "another", ""])
def test_only_a_supervisor_of_the_run_is_signalled(
    tmp_path: Path, process: Callable[[str], subprocess.Popen[bytes]], folder: str
) -> None:
    run = make_run(tmp_path)
    sleeper = process(str({"own": run.path, "another": tmp_path, "": ""}[folder]))
    (run.path / "state/node_00").write_text(state_of(sleeper))
    assert signal_supervisors_here(run, "QUIT") == []
    if folder == "own":
        assert sleeper.wait(10) == -3
    else:
        assert sleeper.poll() is None
        with pytest.raises(subprocess.TimeoutExpired):
            sleeper.wait(0.1)


def test_of_several_nodes_here_one_may_be_meant(
    tmp_path: Path, process: Callable[[str], subprocess.Popen[bytes]]
) -> None:
    run = make_run(tmp_path)
    both = [process(str(run.path)) for _ in range(2)]
    for number, each in enumerate(both):
        (run.path / f"state/node_0{number}").write_text(state_of(each))
    signal_supervisors_here(run, "KILL", 1)
    assert both[1].wait(10) == -9 and both[0].poll() is None


@pytest.mark.parametrize(
    ("keys", "where"),
    [
        ({"host": "away"}, "on away"),
        ({"pid_namespace": 1}, f"in another container on {os.uname().nodename}"),
        ({"boot": "x"}, f"on another machine named {os.uname().nodename}, or before this one was restarted"),
        ({"start_ticks": 1}, ""),
        ({"ended": 5, "exit": 0}, ""),
    ],
)
def test_a_node_elsewhere_is_named_and_never_signalled(
    tmp_path: Path, process: Callable[[str], subprocess.Popen[bytes]], keys: dict[str, object], where: str
) -> None:
    run = make_run(tmp_path)
    sleeper = process(str(run.path))
    (run.path / "state/node_03").write_text(state_of(sleeper, **keys) if "start_ticks" not in keys else node(**keys))
    line = f"node 03 is {where}: run jobctl stop there, or wait until it finds the stop mark"
    assert signal_supervisors_here(run, "KILL") == ([line] if where else []) and sleeper.poll() is None


def test_a_host_signals_only_its_own_node(demo: Stop, process: Callable[[str], subprocess.Popen[bytes]]) -> None:
    run = demo.run()
    sleepers = [process(str(run.path)) for _ in range(2)]
    for number, each in enumerate(sleepers):
        (run.path / f"state/node_0{number}").write_text(state_of(each))
    (demo.artifact / "hosts.txt").write_text("a\nb\n")
    assert task.main([str(run.path), "0", "b", "signal", "QUIT"]) == 0
    assert sleepers[1].wait(10) == -3 and sleepers[0].poll() is None and not (run.path / "control").exists()
