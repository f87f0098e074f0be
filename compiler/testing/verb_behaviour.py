"""Test a job's verbs: jobctl status must print the job's state, and jobctl preflight must check the nodes, not the
submit host.

In:  a backend's artifacts, which run with stand-ins for its engine.
Out: the problems, as one sentence each. There are none if everything works.
"""

import json
import re
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import combinations
from pathlib import Path
from typing import Any

from ..pipeline.compile import write_compiled_job
from ..pipeline.types import CompiledJob
from ..plan.runtime_vars import Scope
from .run_artifact import Process, ReceivedByRank, run_verb, start_verb

WAIT = """import os, pathlib, time
run = pathlib.Path(os.environ["JOBC_RUN_DIR"])
(run / f"started_{os.environ['RANK']}").touch()
until = time.monotonic() + 120
while not (run / "release").exists() and time.monotonic() < until:
    time.sleep(0.05)
"""
PATIENCE_S = 120.0  # timeout for an engine to start, end or dequeue a job
SETTLE_S = 60.0  # timeout for jobctl status to print the new state


class SubmittedJob:
    """One submitted job whose ranks are waiting for release(); its command is `wait.py`."""

    def __init__(self, compiled: CompiledJob, project: Path, environment: Mapping[str, str]) -> None:
        project.mkdir(parents=True, exist_ok=True)
        (project / "wait.py").write_text(WAIT, encoding="utf-8")
        self.compiled, self.project, self.environment = compiled, project, environment
        self.artifact = write_compiled_job(compiled, project / "artifacts")
        self.output = project / "submit.log"
        self.submit: Process = start_verb(self.artifact, "submit", project, environment, self.output)

    @property
    def submit_returned(self) -> bool:
        """Return whether jobctl submit has returned. With a queue, it does so while the job is queued or running."""
        return self.submit.poll() is not None

    def status_line(self) -> str:
        """Return the first line of jobctl status without names and numbers, which may differ for the same state."""
        done = run_verb(self.artifact, "status", self.project, self.environment)
        line = (done.stdout or done.stderr).partition("\n")[0]
        for run in self.run_folders():
            line = line.replace(run.name, "RUN")
        return re.sub(r"\d+", "N", line.replace(self.compiled.plan.name, "JOB"))

    def settled_status(self, *earlier: str) -> str:
        """Return the status once it has changed and has been stable for a second, or the last one after a timeout."""
        until = time.monotonic() + SETTLE_S
        line = self.status_line()
        while time.monotonic() < until:
            time.sleep(1)
            line, last = self.status_line(), line
            if line == last and line not in earlier:
                break
        return line

    def run_folders(self) -> list[Path]:
        return [file.parents[1] for file in self.project.glob("runs/*/*/state/run")]

    def wait_until_started(self) -> None:
        ranks = self.compiled.plan.topology.world_size
        self._wait_until(lambda: len([*self.project.glob("runs/*/*/started_*")]) == ranks, "its ranks did not start")

    def wait_until_submitted(self) -> None:
        self._wait_until(lambda: self.submit_returned, "jobctl submit did not return for a job that stays in the queue")

    def release(self) -> None:
        """Let the ranks exit with 0, and wait until all nodes have ended."""
        for file in self.project.glob("runs/*/*/started_*"):
            (file.parent / "release").touch()
        self.wait_until_ended()

    def wait_until_ended(self) -> None:
        nodes = self.compiled.plan.topology.nodes
        self._wait_until(
            lambda: sum("\nended=" in text for text in self._node_files()) == nodes, "its nodes did not end"
        )

    def stop(self) -> None:
        run_verb(self.artifact, "stop", self.project, self.environment)

    def _node_files(self) -> Iterator[str]:
        for file in self.project.glob("runs/*/*/state/node_*"):
            if file.name.removeprefix("node_").isdigit():
                yield file.read_text(encoding="utf-8", errors="replace")

    def _wait_until(self, condition: Callable[[], bool], problem: str) -> None:
        until = time.monotonic() + PATIENCE_S
        while not condition():
            printed = self.output.read_text(encoding="utf-8", errors="replace")
            assert time.monotonic() < until, f"{problem} within {PATIENCE_S:g} s; jobctl submit printed: {printed}"
            time.sleep(0.1)


@contextmanager
def submitted_job(compiled: CompiledJob, project: Path, environment: Mapping[str, str]) -> Iterator[SubmittedJob]:
    """Submit a job and yield its SubmittedJob. The job is always stopped at the end of the block."""
    trial = SubmittedJob(compiled, project, environment)
    try:
        yield trial
    finally:
        if trial.submit.poll() is None or trial.run_folders():
            trial.stop()
        trial.submit.terminate()
        trial.submit.wait(PATIENCE_S)


def find_indistinguishable_states(states: Mapping[str, str]) -> list[str]:
    """Return a problem for each pair of states with the same output of jobctl status. states: state -> its line"""
    pairs = [pair for pair in combinations(states, 2) if set(pair) != {"stopped", "stopped in the queue"}]
    equal = [(first, second) for first, second in pairs if states[first] == states[second]]
    title = "jobctl status prints the same line for"
    return [f"{title} {first} and {second}: {states[first]!r}" for first, second in equal]


# ---- preflight


LOOK = """import json, os, sys
look = {{"node": int(os.environ["JOBC_NODE_RANK"]), "host": os.uname().nodename, "variables": [*os.environ]}}
with open({folder!r} + f"/{{os.uname().nodename}}-{{os.getpid()}}.json", "w") as file:
    json.dump(look, file)
"""


class RecordingPython:
    """A Python interpreter that records where it runs a node's checks.

    command: value for the key python.interpreter.
    seen: the project folder as the nodes see it.
    """

    def __init__(self, project: Path, seen: Path) -> None:
        self.folder = project / "witness"
        self.folder.mkdir(parents=True)
        (self.folder / "look.py").write_text(LOOK.format(folder=str(seen / "witness")), encoding="utf-8")
        python, look = shlex.quote(sys.executable), shlex.quote(str(seen / "witness" / "look.py"))
        checks = '*"/jobctl launch "*" preflight"'  # launch.sh 0 preflight
        text = f'#!/bin/sh\ncase "$*" in {checks}) {python} -I {look} ;; esac\nexec {python} "$@"\n'
        (self.folder / "python").write_text(text, encoding="utf-8")
        (self.folder / "python").chmod(0o755)
        self.command = str(seen / "witness" / "python")

    def checked_nodes(self) -> list[dict[str, Any]]:
        """Return the records that LOOK wrote: node, host, and the names of the checks' environment variables."""
        return [json.loads(file.read_text(encoding="utf-8")) for file in sorted(self.folder.glob("*.json"))]


def find_preflight_problems(
    compiled: CompiledJob, checked: Sequence[dict[str, Any]], received: Sequence[ReceivedByRank], here: str
) -> list[str]:
    """Return evidence that preflight checked the submit host instead of the nodes.

    here: name of the submit host.
    received: what the ranks received.
    """
    nodes = range(compiled.plan.topology.nodes)
    unseen = [node for node in nodes if node not in {check["node"] for check in checked}]
    if unseen:
        return [f"jobctl preflight ran no checks for node {', '.join(map(str, unseen))} of {len(nodes)}"]
    problems = []
    if here in {check["host"] for check in checked} and here not in {rank.host for rank in received}:
        problems.append(f"jobctl preflight ran its checks on the submit host {here}, where no rank runs")
    # the engine's variables that exist only inside a job, such as SLURM_NODEID
    spellings = [spelling for spelling in compiled.backend.spellings.values() if spelling.scope is not Scope.SUBMIT]
    names = {name for spelling in spellings for name in re.findall(r"\$[{(]?([A-Z][A-Z0-9_]*)", spelling.text)}
    engine = {name for name in names if any(name in rank.env for rank in received) and not name.startswith("JOBC_")}
    for check in checked:
        if engine and engine.isdisjoint(check["variables"]):
            title = f"jobctl preflight ran the checks of node {check['node']} outside a job of the engine"
            problems.append(f"{title}: the ranks have {', '.join(sorted(engine))}, but the checks did not")
    return problems
