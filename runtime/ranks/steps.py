"""Run the lines of `before` and `per_node`, wait until the other nodes have done so, and then exec the launcher.

Usage: jobctl steps BEFORE PER_NODE SECONDS [THEN…] -- COMMAND…
         BEFORE, PER_NODE: lines of bash, or "" if the job has none.
         SECONDS: how long to wait until all nodes have begun. After that, the supervisors detect lost nodes (peers.py).
         THEN: each entry of `then` (then.py).
Out:   in exit/ATTEMPT/steps/, begun_N and ready_N from node N, and `before` and `go` from node 0; links.py copies these
       files to nodes that do not share the run folder. If a line fails, the exit code is 65, and one line on stderr
       reports this; if a node does not begin, the exit code is 71.

    node 0      before -> per_node -> all nodes are ready -> go
    other node  until `before` -> per_node -> ready -> until `go`

A restart in place does not run the lines again, because the files already exist.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from .. import exit_codes
from ..run_folder.run_folder import RunFolder, write_small_file
from ..system import processes
from ..system.failure import Failure
from ..system.processes import SignalQueue
from .bash_lines import BashLines

LOOK_S = 0.5  # pause between checks of the files
SILENT_S, MORE_SILENT_S = 10.0, 60.0  # time until a wait is first reported, and then between reports
MOST_NAMED = 4  # maximum number of nodes in such a report
STOPS = (signal.SIGTERM, signal.SIGINT)
CAUGHT = (*STOPS, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGCHLD)  # the supervisor sends some


def main(argv: list[str]) -> int:
    (before, per_node, timeout_s, *entries), command = argv[: argv.index("--")], argv[argv.index("--") + 1 :]
    run, node, nodes = RunFolder.from_environment(), int(os.environ["JOBC_NODE_RANK"]), int(os.environ["JOBC_NODES"])
    steps = NodeSteps(run, node, nodes, float(timeout_s), SignalQueue(CAUGHT))
    try:
        if entries:
            from .then import run_commands, skip_ended_commands  # imported here because then.py imports this module

            skip_ended_commands(run, steps, len(entries))
        with steps.recorded_as_running():
            steps.run(before, per_node)
        if entries:
            return run_commands(run, steps, command, entries)
        os.execvp(command[0], command)
    except Failure as end:
        print(f"jobc: {end}", file=sys.stderr)
        return end.code
    except OSError as error:
        print(f"jobc: cannot write to the run folder, or start {command[0]}: {error}", file=sys.stderr)
        return exit_codes.CRASHED


class NodeSteps:
    """One node's steps. timeout_s: how long to wait until all nodes have begun."""

    def __init__(self, run: RunFolder, node: int, nodes: int, timeout_s: float, signals: SignalQueue) -> None:
        self.folder, self.process_file = run.steps, run.steps_process_file(node)
        self.node, self.nodes, self.timeout_s, self.signals = node, nodes, timeout_s, signals
        self.began = time.monotonic()

    @contextlib.contextmanager
    def recorded_as_running(self) -> Iterator[None]:
        """Record this process while it runs steps, so that the supervisor can signal it.

        The supervisor never signals a launcher.
        """
        ticks = processes.process_start_time(os.getpid())
        write_small_file(self.process_file, keys={"pid": os.getpid(), "start_ticks": ticks})
        try:
            yield
        finally:
            self.process_file.unlink()

    def run(self, before: str, per_node: str) -> None:
        """Run the lines, and return when the ranks may start. Raises Failure, OSError."""
        self.write_file(f"begun_{self.node}")
        if before and self.node == 0 and not self.file_exists("before"):
            self._run_lines("before", before)
            self.write_file("before")
        needed = range(self.nodes if self.node == 0 else 1)
        self.wait_for_nodes(lambda: self.missing_nodes("begun", needed), "", self.timeout_s)
        if before:
            self.wait_for_nodes(lambda: [] if self.file_exists("before") else [0], "before")
        if per_node and not self.file_exists("go"):
            self._run_lines("per_node", per_node)
            self.write_file(f"ready_{self.node}")
            if self.node == 0:
                self.wait_for_nodes(lambda: self.missing_nodes("ready", range(self.nodes)), "per_node")
                self.write_file("go")
            self.wait_for_nodes(lambda: [] if self.file_exists("go") else [0], "per_node")

    def _run_lines(self, key: str, lines: str) -> None:
        print(f"jobc: {key}", flush=True)
        began, bash = time.monotonic(), BashLines(key, lines)
        while True:
            arrived, _ = self.signals.wait(3600)
            if any(number in STOPS for number in arrived):
                bash.terminate()
                while bash.pid not in (pid for pid, _ in processes.reap_children()):
                    self.signals.wait(3600)  # after the grace period, the supervisor kills both bash and this process
                raise Failure(f"{key} was stopped", code=exit_codes.PREEMPTED)
            for pid, status in processes.reap_children():
                if pid == bash.pid:
                    if why := bash.failure_reason(status):
                        raise Failure(why, code=exit_codes.DATA_BROKEN)
                    print(f"jobc: {key} took {time.monotonic() - began:.1f} s", flush=True)
                    return

    def missing_nodes(self, word: str, nodes: Iterable[int]) -> list[int]:
        """Return which nodes have not written the file. Without a shared folder, only node 0 and this one count."""
        names = set(os.listdir(self.folder))
        return [node for node in nodes if f"{word}_{node}" not in names]

    def wait_for_nodes(self, get_missing: Callable[[], list[int]], key: str, timeout_s: float = float("inf")) -> None:
        """Wait until no node is missing, and print which ones are.

        key: the key whose lines the missing nodes are running, or "" if they have not begun.
        """
        began, silent_s = time.monotonic(), SILENT_S
        while missing := get_missing():
            if any(number in STOPS for number in self.signals.wait(LOOK_S)[0]):
                raise Failure("stopped while waiting for other nodes", code=exit_codes.PREEMPTED)
            waited_s = time.monotonic() - began
            if time.monotonic() - self.began > timeout_s and waited_s > SILENT_S:
                why = f"{_format_nodes(missing)} did not begin within {timeout_s:.0f} s"
                raise Failure(why, code=exit_codes.RENDEZVOUS_FAILED)
            if waited_s >= silent_s:
                action = f"to finish {key}" if key else "to begin"
                print(f"jobc: waiting for {_format_nodes(missing)} {action} ({waited_s:.0f} s)", flush=True)
                silent_s += MORE_SILENT_S

    def file_exists(self, name: str) -> bool:
        os.listdir(self.folder)  # makes a network file system refresh its cache
        return Path(self.folder, name).exists()

    def write_file(self, name: str) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        Path(self.folder, name).touch()


def _format_nodes(nodes: list[int]) -> str:
    more = f" and {len(nodes) - MOST_NAMED} more" if len(nodes) > MOST_NAMED else ""
    return f"node{'s' * (len(nodes) > 1)} {', '.join(map(str, nodes[:MOST_NAMED]))}{more}"
