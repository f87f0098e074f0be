"""A supervisor's last record is on disk before it waits: a kill during any of its waits loses nothing.

It waits for peers to learn of the end, for the other nodes before a restart in place, and for a console that nobody
reads.
"""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from jobc.runtime.engines.engine import Engine, Job, State
from jobc.runtime.run_folder.run import Run
from jobc.runtime.run_folder.run_folder import LossyLog
from jobc.runtime.supervisor.verdict import RankSnapshot, has_rank_ended_first
from jobc.tests.packed import write_program

ENDINGS = [signal.SIGTERM, signal.SIGKILL, signal.SIGQUIT]


def status_of(run: Path) -> State:
    """Return the state that jobctl status would report."""
    return Engine(Job("job", run, run.parent, {})).state(Run(run))


class Node:
    """A supervisor of one node in an attempt with two nodes. Its peer never starts; its ranks run a shell script."""

    def __init__(self, folder: Path, script: str, *options: str, node: int = 0, nodes: int = 2, procs: int = 1) -> None:
        self.run, self.node = folder / "run", node
        (self.run / "state").mkdir(parents=True, exist_ok=True)
        (self.run / "control").mkdir(exist_ok=True)
        program = [sys.executable, "-I", "-S", str(write_program(folder))]
        launch = [*program, "spawn", "--", *program, "rank", "--", "bash", "-c", script]
        if node:
            launch = [*program, "rank", "--", "bash", "-c", script]
        self.output = folder / f"console_{node}"
        keys = {
            "RUN_DIR": self.run, "ATTEMPT": 0, "NODE_RANK": node, "NODES": nodes, "PROCS": procs, "GRACE_S": 5,
            "HEAD_ADDR": "127.0.0.1", "HEAD_PORT": 1, "RUN_ID": "run", "JOB_NAME": "demo", "NODE_LIST": "here",
        }  # fmt: skip
        self.environment = {**os.environ, **{f"JOBC_{key}": str(value) for key, value in keys.items()}}
        self.environment |= {"RANK": str(node * procs)}
        self.words = [*program, "supervise", *options, "--", *launch]
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, stdout: int | None = None) -> subprocess.Popen[bytes]:
        with self.output.open("ab") as console:
            self.process = subprocess.Popen(
                self.words, env=self.environment, stdout=console if stdout is None else stdout,
                stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
        return self.process

    @property
    def state(self) -> dict[str, str]:
        file = self.run / f"state/node_{self.node:02}"
        return dict(line.split("=", 1) for line in file.read_text().splitlines()) if file.exists() else {}

    @property
    def status(self) -> str:
        """Return this node's state as a verb sees it: up, ended, dead."""
        return Run(self.run).statuses()[self.node]

    def wait(self, condition: Callable[[], object]) -> None:
        deadline = time.monotonic() + 30
        while not condition():
            assert time.monotonic() < deadline, (self.state, self.output.read_text())
            time.sleep(0.02)

    def end(self) -> None:
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()


@pytest.fixture
def make_node(tmp_path: Path) -> Iterator[Callable[..., Node]]:
    nodes: list[Node] = []

    def make(script: str, *options: str, node: int = 0, nodes_of_job: int = 2) -> Node:
        nodes.append(Node(tmp_path, script, *options, node=node, nodes=nodes_of_job))
        return nodes[-1]

    yield make
    for node in nodes:
        node.end()


@pytest.mark.parametrize("node", [0, 1])
@pytest.mark.parametrize("number", ENDINGS)
def test_the_end_is_on_disk_while_the_supervisor_waits_for_its_peer(
    make_node: Callable[..., Node], number: int, node: int
) -> None:
    waiting = make_node("exit 65", node=node)
    process = waiting.start()
    waiting.wait(lambda: "ended" in waiting.state)
    assert process.poll() is None and waiting.state["lingers"] == "yes"
    process.send_signal(number)
    if number != signal.SIGTERM:
        process.wait(20)
    assert (waiting.state["exit"], waiting.state["reason"]) == ("65", f"rank {node}: exit status 65")
    assert (waiting.run / f"exit/0/node_{node:02}").read_text().startswith("65\n")
    assert waiting.status == "ended" and not Run(waiting.run).is_live()


def test_a_kill_before_a_restart_in_place_leaves_the_exit_code(make_node: Callable[..., Node]) -> None:
    waiting = make_node("exit 1", "--max-restarts=1")
    process = waiting.start()
    waiting.wait((waiting.run / "exit/0/restart_1/node_00").exists)
    assert waiting.status == "up"
    process.kill()
    process.wait()
    assert waiting.status == "ended"
    assert status_of(waiting.run)[2:] == (1, "rank 0: exit status 1")


def test_a_console_that_nobody_reads_does_not_delay_the_record(make_node: Callable[..., Node]) -> None:
    read_end, write_end = os.pipe()
    try:
        silent = make_node("head -c 300000 /dev/zero | tr '\\0' x", nodes_of_job=1)
        process = silent.start(write_end)
        silent.wait(lambda: "ended" in silent.state)
        assert process.poll() is None
        process.kill()
        assert silent.state["exit"] == "0"
    finally:
        os.close(read_end)
        os.close(write_end)


def test_the_next_supervisor_waits_for_one_that_lingers(make_node: Callable[..., Node]) -> None:
    first = make_node("exit 65")
    first.start()
    first.wait(lambda: "ended" in first.state)
    old = first.state["pid"]
    second = make_node("sleep 60")
    process = second.start()
    time.sleep(0.5)
    assert process.poll() is None and second.state["pid"] == old
    first.end()
    second.wait(lambda: second.state["pid"] != old)
    assert "ended" not in second.state


def test_a_supervisor_at_work_is_not_waited_for(make_node: Callable[..., Node]) -> None:
    first = make_node("sleep 60")
    first.start()
    first.wait(lambda: first.state)
    second = make_node("true")
    assert second.start().wait(20) == 1
    assert "has a supervisor" in second.output.read_text()


def test_a_node_does_not_wait_for_a_node_0_that_has_ended(make_node: Callable[..., Node]) -> None:
    """They share the run folder, so node 0 can read there what this node has to report."""
    (head, other) = make_node("exit 1"), make_node("exit 1", node=1)
    head.start()
    head.wait(lambda: "ended" in head.state)
    head.end()
    began = time.monotonic()
    assert other.start().wait(20) == 1
    assert time.monotonic() - began < 15
    assert "lingers" not in other.state


# ---- the first cause wins


FAILED, STOPPED = RankSnapshot(65, False), RankSnapshot(75, False)
RUNS, GONE = RankSnapshot(None, False), RankSnapshot(None, True)


@pytest.mark.parametrize("cause", [FAILED, GONE], ids=["its code", "its wrapper killed"])
@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_a_rank_that_its_launcher_ended_is_not_a_stop(cause: RankSnapshot, order: tuple[int, ...]) -> None:
    """Every interleaving of reads with: rank 0 fails, then the launcher ends ranks 1 and 2."""
    events = [(0, cause), (1, STOPPED), (2, STOPPED)]
    for moments in itertools.combinations_with_replacement(range(7), 3):
        assert not has_rank_ended_first(*reader([RUNS] * 3, dict(zip(range(3), moments, strict=True)), events, order))


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_a_rank_that_ended_by_itself_is_a_stop(order: tuple[int, ...]) -> None:
    assert has_rank_ended_first(*reader([RUNS, STOPPED, RUNS], {}, [], order))


def test_ranks_that_run_or_are_done_are_no_stop() -> None:
    assert not has_rank_ended_first(lambda: [RUNS, RankSnapshot(0, False)], lambda: [RUNS, RankSnapshot(0, False)])


def reader(
    ranks: list[RankSnapshot], moments: dict[int, int], events: list[tuple[int, RankSnapshot]], order: tuple[int, ...]
) -> list[Callable[[], list[RankSnapshot]]]:
    """Return two functions that read `ranks` one after the other in `order`; event i happens before read moments[i]."""
    ranks, reads, happened = list(ranks), itertools.count(), set()

    def look() -> list[RankSnapshot]:
        seen = []
        for rank in order:
            now = next(reads)
            for index, (of, state) in enumerate(events):
                if index not in happened and moments[index] <= now:
                    happened.add(index)
                    ranks[of] = state
            seen.append(ranks[rank])
        return seen

    return [look, look]


LAUNCHER = """
import os, subprocess, sys, time
ranks = [subprocess.Popen(sys.argv[1:], env={**os.environ, "RANK": str(rank)}) for rank in range(4)]
ranks[3].wait()
for rank in ranks[:3]:
    rank.terminate()
for rank in ranks:
    rank.wait()
sys.exit(1)
"""


def test_the_code_of_a_rank_beyond_the_plan_wins(tmp_path: Path) -> None:
    """An edited launcher file starts 4 ranks instead of 2; rank 3 fails, and the launcher ends the others for it."""
    node = Node(tmp_path, "", nodes=1, procs=2)
    python = [sys.executable, "-I", "-S"]
    program = [*python, str(write_program(tmp_path))]
    script = f'touch "{tmp_path}/up.$RANK"; until [ -e "{tmp_path}/up.3" ]; do sleep 0.1; done; '
    script += '[ $RANK != 3 ] || { while [ $(ls "$0" | grep -c ^up) -lt 4 ]; do sleep 0.1; done; exit 65; }; sleep 60'
    rank = [*program, "rank", "--", "bash", "-c", script, str(tmp_path)]
    node.words = [*program, "supervise", "--", *python, "-c", LAUNCHER, *rank]
    assert node.start().wait(60) == 65, node.output.read_text()
    assert node.state["reason"] == "rank 3: exit status 65"


@pytest.mark.parametrize(("script", "lost"), [("exit 0", ""), ("sleep 60", "; work since the last checkpoint is lost")])
def test_a_kill_loses_work_only_if_a_rank_of_the_node_is_running(tmp_path: Path, script: str, lost: str) -> None:
    """A launcher may wait for other nodes after its own ranks have ended."""
    node = Node(tmp_path, "", nodes=1)
    python = [sys.executable, "-I", "-S"]
    rank = [*python, str(write_program(tmp_path)), "rank", "--", "bash", "-c", script]
    launcher = "import subprocess, sys, time; subprocess.run(sys.argv[1:]); time.sleep(60)"
    node.words = [*node.words[: node.words.index("--") + 1], *python, "-c", launcher, *rank]
    process = node.start()
    node.wait((node.run / ("state/rank_00" if lost else "exit/0/rank_00")).exists)
    process.send_signal(signal.SIGQUIT)
    process.wait(20)
    assert f"SIGQUIT: killing all processes on this node{lost}\n" in node.output.read_text()


# ---- a full disk


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(folder)], check=True)
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


@pytest.mark.parametrize("code", [0, 65])
def test_the_exit_code_wins_when_the_disk_fills_while_a_program_prints(small_disk: Path, code: int) -> None:
    script = (
        f"head -c 3000000 /dev/zero | tr '\\0' x; dd if=/dev/zero of={small_disk}/rest bs=64; echo last; exit {code}"
    )
    node = Node(small_disk, script, nodes=1)
    read_end, write_end = os.pipe()
    process = node.start(write_end)
    os.close(write_end)
    with os.fdopen(read_end, "rb") as console:
        printed = console.read()
    assert process.wait(30) == code, printed[-1000:]
    assert printed.count(b"x") > 2_900_000 and b"last" in printed
    assert printed.count(b"cannot write logs/node_00.log: No space left on device") == 1
    assert node.state["exit"] == str(code) and "ended" in node.state
    assert status_of(node.run).text.startswith("done (exit 0)" if code == 0 else "failed (exit 65")
    hidden = {file.name for file in node.run.rglob(".*") if file.is_file()}
    assert not {name for name in hidden if name.endswith(".reserved")}


def test_a_log_continues_when_there_is_room_again(tmp_path: Path) -> None:
    log = os.open(tmp_path / "log", os.O_RDWR | os.O_CREAT | os.O_APPEND)
    full = os.open("/dev/full", os.O_WRONLY)
    lossy = LossyLog(full)
    assert [lossy.write(b"one\n"), lossy.write(b"two\n")] == ["No space left on device", ""]
    os.dup2(log, full)
    lossy.write(b"three\n")
    content = (tmp_path / "log").read_text()
    assert content == "\njobc: dropped 8 bytes of output here: No space left on device\nthree\n"
    os.close(full)
    os.close(log)
