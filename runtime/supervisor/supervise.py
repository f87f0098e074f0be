"""Supervise a node: start the launcher, forward stop signals to ranks, stop all processes, and report why they ended.

Usage: jobctl supervise [--max-restarts=N [--steps=M]] -- LAUNCHER ARGUMENTS…     M: entries of `then`
In:    the JOBC_ variables from node.py; JOBC_TIME_LIMIT_S if no scheduler enforces the time limit; in a container, also
       JOBC_STARTER, the `PID START_TICKS` of the outside process that started the container (container.py).
Out:   state/node_NN, logs/node_NN.log, exit/ATTEMPT/node_NN, and the node's exit code (exit_codes.py).

Signals: SIGTERM SIGHUP  the ranks save and exit within JOBC_GRACE_S; otherwise, they are killed
         SIGINT          the same, but the run is not requeued: jobc writes the stop mark and exits with 130
         SIGUSR1 SIGUSR2 are forwarded to the ranks
         SIGQUIT         everything is killed immediately
Repeats within five seconds count as one signal; a later SIGTERM, SIGHUP or SIGINT kills the ranks. Signals are sent to
the rank wrappers, never to the launcher, because torchrun mishandles repeats.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

from .. import exit_codes
from ..run_folder.run_folder import (
    NodeLog,
    RunFolder,
    parse_count,
    read_small_file,
    reserve_small_file,
    write_small_file,
)
from ..run_folder.stopping import write_stop_mark
from ..run_folder.written_files import FilesWrittenByProgram
from ..system import processes
from ..system.failure import Failure, print_failure
from ..system.processes import SignalQueue
from .hang_watch import HangWatch
from .lock_node import lock_node
from .node_ending import WATCHFUL_S, NodeEnding
from .node_output import NodeOutput, run_header_lines, warn_about_few_cores
from .peers import PeerNodes
from .verdict import (
    RankEnd,
    RankSnapshot,
    describe_failed_rank,
    end_from_exit_file,
    find_unplanned_ranks,
    has_rank_ended_first,
    resolve_end_cause,
    take_rank_snapshot,
)

if TYPE_CHECKING:
    from .restarts import Restarts

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
STOPPING = {*STOP_SIGNALS, signal.SIGQUIT}
NOTICES = (signal.SIGUSR1, signal.SIGUSR2)  # the program defines what they mean, so they never lead to a kill
REPEAT_S = 5.0
CALM_S = 1.0  # pause between checks of the run folder, or WATCHFUL_S while ranks start or stop
LAUNCHER_GRACE_S = 5.0  # time for the launcher to exit after all its ranks have exited


def main(argv: list[str]) -> int:
    """Supervise the node until its ranks have ended for good, and return the exit code."""
    options, launcher = argv[: argv.index("--")], argv[argv.index("--") + 1 :]
    most, *entries = (int(option.partition("=")[2]) for option in options or ["--max-restarts=0"])
    then, after = (entries[0] if entries else None), os.environ.pop("JOBC_AFTER", "")
    began = time.monotonic()
    hangup_ignored = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN  # True under nohup
    caught = {*STOP_SIGNALS, *NOTICES, signal.SIGQUIT, signal.SIGCHLD}
    signals = SignalQueue(caught - {signal.SIGHUP} if hangup_ignored else caught)
    try:
        run_folder = RunFolder.from_environment()
        node, nodes = int(os.environ["JOBC_NODE_RANK"]), int(os.environ["JOBC_NODES"])
        restarts = None
        if most:
            from .restarts import Restarts  # packed only in jobs with lifecycle.max_restarts

            restarts = Restarts(run_folder, node, nodes, most, lambda s: STOPPING.isdisjoint(signals.wait(s)[0]))
        written = FilesWrittenByProgram(run_folder.code)
        starter = [int(word) for word in os.environ.pop("JOBC_STARTER", "").split()]
        code = None
        while code is None:
            code = Supervisor(run_folder, restarts, written, then, after, starter, began).run(launcher, signals)
        return code
    except Failure as failure:
        print_failure(failure)
    except OSError as error:
        print(f"error: cannot write to the run folder: {error}", file=sys.stderr)
    return exit_codes.CRASHED


class Supervisor:
    """One node in one attempt, from one start of its ranks to their end.

    then: number of entries of `then`, or None if the launcher does not begin with steps.py.
    after: lines of `after`, or "".
    starter: PID and start ticks of the process that started the container, or [] without a container.
    began: when this node began, in monotonic seconds.
    """

    def __init__(
        self,
        run_folder: RunFolder,
        restarts: Restarts | None,
        written: FilesWrittenByProgram,
        then: int | None,
        after: str,
        starter: list[int],
        began: float,
    ) -> None:
        self.run_folder, self.restarts, self.written, self.starter = run_folder, restarts, written, starter
        self.then, self.after = then, after
        self.node = int(os.environ["JOBC_NODE_RANK"])
        procs = int(os.environ["JOBC_PROCS"])
        self.ranks = range(self.node * procs, (self.node + 1) * procs)
        self.all_ranks = list(self.ranks)  # including unplanned ranks
        self.grace_s = int(os.environ["JOBC_GRACE_S"])
        self.time_limit_s = int(os.environ.get("JOBC_TIME_LIMIT_S") or 0)

        self.lock = lock_node(run_folder, self.node, self.ranks)  # held until this process and the keeper have ended
        nodes = int(os.environ["JOBC_NODES"])
        self.peers = PeerNodes(run_folder, self.node, nodes, os.environ.get("JOBC_HEAD_ADDR", ""))
        if self.peers.links:
            self.peers.links.then = then
        self.output = NodeOutput(NodeLog(run_folder, self.node, timed=nodes > 1), sys.stdout.fileno())
        self.state: dict[str, object] = {
            **processes.identify_this_process(),
            "attempt": run_folder.attempt,
            "first_rank": self.ranks[0],
            "started": int(time.time()),
        }
        write_small_file(run_folder.node_state_file(self.node), keys=self.state)
        written.begin_count(run_folder.node_state_file(self.node).stat().st_ctime)
        for file in (run_folder.node_state_file(self.node), run_folder.node_exit_file(self.node)):
            reserve_small_file(file)

        self.keeper = 0
        self.asked: dict[int, float] = {}  # signal for the ranks -> when requested, monotonic seconds
        self.sent: set[tuple[int, int]] = set()  # (signal, PID of a rank wrapper)
        self.interrupted = False  # by Ctrl-C
        self.killed = False  # whether this process has killed the ranks
        self.failures: dict[int, RankEnd] = {}  # failed ranks, with the reason as text
        self.hang_watch = HangWatch(run_folder, self.ranks, time.monotonic())
        self.told = False  # asked to stop for a reason other than a failed peer
        self.at_once = False  # asked to stop by SIGQUIT
        self.stop_signal_at = float("inf")
        self.kill_at = float("inf")
        self.time_is_up_at = began + self.time_limit_s if self.time_limit_s else float("inf")
        self.limit_at = self.time_is_up_at  # time limit of the ranks; infinity once it has passed

    def run(self, launcher: list[str], signals: SignalQueue) -> int | None:
        """Run the launcher until it exits. Return the node's exit code, or None to restart the ranks."""
        if self.node == 0:
            start = launcher if self.then is None else launcher[launcher.index("--") + 1 :]
            alone = "--tasks" in start[: [*start, "--"].index("--")]  # srun gives each rank its cores
            warning = warn_about_few_cores(os.environ, 1 if alone else len(self.ranks), len(os.sched_getaffinity(0)))
            for line in (*run_header_lines(os.environ), *filter(None, [warning])):
                self.output.print_jobc_line(line)
        output, write_end = os.pipe()
        # a launcher reports every failed rank at length, so its stderr goes to a log; the supervisor reports the cause
        errors = self.run_folder.open_log(self.run_folder.launcher_log_file(self.node), "launcher")
        processes.become_subreaper()
        self.keeper = processes.start_under_keeper(launcher, write_end, errors)
        os.close(write_end)
        os.close(errors)
        self.peers.start_links()
        status = self._handle_events(output, signals)
        if not self.asked and self._were_ranks_preempted():  # stopped between two checks, while other nodes still run
            self.told = True
            self.peers.announce_stop("a rank was stopped")
        processes.kill_descendants(os.getpid())  # left over if the keeper was killed
        self.output.copy_until_end(output)
        code = NodeEnding(self, signals).judge_and_report(status)
        if code is None:  # the next start opens new links
            self.output.close()
            os.close(self.lock)
        return code

    def _handle_events(self, output: int, signals: SignalQueue) -> int:
        """Handle signals, output and deadlines until the launcher and its descendants have ended. Return its status."""
        descriptors = [output]
        while True:
            arrived, readable = signals.wait(self._pause_s(), *descriptors)
            if readable and not self.output.copy_chunk(output):
                descriptors.clear()
            for number in arrived:
                self._on_signal(number)
            for pid, status in processes.reap_children():
                if pid == self.keeper:
                    return status
            self._signal_ranks()
            self._check_peers()
            self._check_starter()
            self._check_deadlines()
            self._check_for_hang()
            self.output.write_pending()

    def _on_signal(self, number: int) -> None:
        now = time.monotonic()
        if number == signal.SIGQUIT:
            self.told = self.at_once = True
            self._kill_processes("SIGQUIT")
        elif number in NOTICES:
            if now - self.asked.get(number, -REPEAT_S) >= REPEAT_S:
                self.sent = {(sent, pid) for sent, pid in self.sent if sent != number}
                self.asked[number] = now
        elif number in STOP_SIGNALS:
            self.told = True
            if number == signal.SIGINT:
                self.interrupted = True
                self.mark_stopped()
            if now - self.stop_signal_at > REPEAT_S:
                self._kill_processes(f"a second {_signal_name(number)}")
            elif not self._is_stopping():
                self._ask_to_stop(signal.SIGINT if number == signal.SIGINT else signal.SIGTERM, _signal_name(number))
                self.peers.announce_stop(_signal_name(number))
            self.stop_signal_at = min(self.stop_signal_at, now)

    def mark_stopped(self) -> None:
        try:
            write_stop_mark(self.run_folder.path)
        except Failure as failure:
            self.output.print_jobc_line(failure.title)

    def _ask_to_stop(self, number: int, why: str) -> None:
        """Ask the ranks to save and exit. `number` is SIGTERM even for SIGHUP because few programs save on SIGHUP."""
        name = signal.Signals(number).name
        self.output.print_jobc_line(f"{why}: sending {name} to the ranks, which have {self.grace_s} s to exit")
        self._update_ranks()
        self.asked[number] = time.monotonic()
        self.kill_at = self.asked[number] + self.grace_s

    def _is_stopping(self) -> bool:
        return any(number in STOP_SIGNALS for number in self.asked)

    def _signal_ranks(self) -> None:
        """Send each requested signal once to every rank wrapper, including wrappers that start later."""
        if self.asked:
            for state in filter(None, [*map(self._read_rank_state, self.all_ranks), self._read_steps_process()]):
                pid, ticks = parse_count(state.get("pid")), parse_count(state.get("start_ticks"))
                for number in self.asked:
                    if (number, pid) not in self.sent:
                        self.sent.add((number, pid))
                        processes.signal_process(pid, ticks, number)
        elif self._were_ranks_preempted():
            self.told = True
            self._ask_to_stop(signal.SIGTERM, "a rank was stopped")
            self.peers.announce_stop("a rank was stopped")

    def _read_rank_state(self, rank: int) -> dict[str, str] | None:
        """Return the state that a rank's wrapper wrote in this attempt, or None if the rank has not started."""
        return self.run_folder.keys_of_attempt(self.run_folder.rank_state_file(rank))

    def _read_steps_process(self) -> dict[str, str] | None:
        """Return the process running the `before` or `per_node` lines on this node, or None if there is none."""
        state = None if self.then is None else read_small_file(self.run_folder.steps_process_file(self.node))
        return state and state[1]

    def _were_ranks_preempted(self) -> bool:
        return has_rank_ended_first(
            lambda: self._snapshot_rank_outcomes(self.ranks), lambda: self._snapshot_rank_outcomes(self._update_ranks())
        )

    def _snapshot_rank_outcomes(self, ranks: Iterable[int]) -> list[RankSnapshot]:
        return [take_rank_snapshot(self.run_folder, rank) for rank in ranks]

    def _update_ranks(self) -> list[int]:
        """Return this node's ranks, including unplanned ones that its launcher has started."""
        self.all_ranks = [*self.ranks, *find_unplanned_ranks(self.run_folder, self.node, self.ranks)]
        return self.all_ranks

    def _check_peers(self) -> None:
        self.peers.touch_state_file()
        self._announce_failures()
        if not self._is_stopping() and (trouble := self.peers.reason_to_end()):
            self._ask_to_stop(signal.SIGTERM, trouble)
            if not self.run_folder.stop_mark.exists() and not self._has_rank_started():
                self.kill_at = time.monotonic() + LAUNCHER_GRACE_S  # it has nothing to save, and only waits

    def _check_starter(self) -> None:
        """Stop if the process that started the container is gone: a container outlives a killed `docker run`."""
        if self.starter and not self._is_stopping() and not processes.is_running(*self.starter):
            reason = "the process that started the container has exited"
            self.peers.announce_failure(exit_codes.PEER_LOST, reason)
            self._ask_to_stop(signal.SIGTERM, reason)

    def _announce_failures(self) -> None:
        """Announce failed ranks to the peers immediately, before the launcher has stopped this node's other ranks."""
        if not self.peers.others:
            return
        for end in filter(None, (end_from_exit_file(self.run_folder, rank) for rank in self.ranks)):
            if end.rank not in self.failures:
                cause = resolve_end_cause(self.run_folder, end)
                self.failures[end.rank] = cause._replace(reason=describe_failed_rank(self.run_folder, cause))
            cause = self.failures[end.rank]
            self.peers.announce_failure(cause.code, cause.reason, cause.rank, cause.time_ns)

    def _check_deadlines(self) -> None:
        now = time.monotonic()
        if now > self.limit_at:
            self.limit_at = float("inf")
            self.told = True
            if not self._is_stopping():
                self._ask_to_stop(signal.SIGTERM, f"time limit of {self.time_limit_s} s reached")
        if now > self.kill_at:
            self._kill_processes(self._describe_late_processes())
        elif self._is_stopping() and now + LAUNCHER_GRACE_S < self.kill_at and self._have_ranks_ended():
            self.kill_at = now + LAUNCHER_GRACE_S  # torchrun waits for other nodes' agents, up to 300 s

    def _describe_late_processes(self) -> str:
        """Return why this node's processes are killed once kill_at has passed."""
        if self._is_rank_running():
            return f"not exited after {self.grace_s} s"
        return "the ranks have exited, but the launcher has not" if self._has_rank_started() else "no rank has started"

    def _check_for_hang(self) -> None:
        """Report a suspected hang once, on the console and in the state file, where status finds it."""
        if self.hang_watch.check_ranks(time.monotonic()):
            hang = self.hang_watch.hang
            if hang:
                self.output.print_jobc_line(str(hang))
            keys = {**self.state, **(hang.state_keys() if hang else {})}
            with contextlib.suppress(OSError):
                write_small_file(self.run_folder.node_state_file(self.node), keys=keys)

    def _has_rank_started(self) -> bool:
        return any(self._read_rank_state(rank) for rank in self.ranks)

    def _is_rank_running(self) -> bool:
        ranks = filter(self._read_rank_state, self._update_ranks())
        return any(read_small_file(self.run_folder.rank_exit_file(rank)) is None for rank in ranks)

    def _have_ranks_ended(self) -> bool:
        return all(read_small_file(self.run_folder.rank_exit_file(rank)) for rank in self.all_ranks)

    def _kill_processes(self, why: str) -> None:
        self.kill_at = float("inf")
        self.killed = True
        lost = "; work since the last checkpoint is lost" if self._is_rank_running() else ""
        self.output.print_jobc_line(f"{why}: killing all processes on this node{lost}")
        for pid in processes.kill_descendants(self.keeper):
            self.output.print_jobc_line(f"cannot kill process {pid}: it hangs in the kernel")

    def _pause_s(self) -> float:
        if self.output.has_pending_output:
            return 0.05
        changing = self._is_stopping() or time.time() - float(str(self.state["started"])) < 10
        deadlines = min(self.kill_at, self.limit_at) - time.monotonic()
        return max(0, min(WATCHFUL_S if changing else CALM_S, deadlines))


def _signal_name(number: int) -> str:
    return "Ctrl-C" if number == signal.SIGINT else signal.Signals(number).name
