"""Watchdog thread in each rank: detects that the rank makes no progress and reports which rank holds up the others.

The watchdog sends no messages while training makes progress. A rank whose step, validation, save or part of the build
takes longer than half of the timeout reports its position (hang_store.py). Shortly before the timeout would end the
waiting ranks, each of them logs a warning that names the culprit, together with the stacks of its own threads. Its
final error names the culprit again. If a rank hangs while it holds the GIL, faulthandler's C thread writes the stacks.
Other writes release the GIL because the log may be on the disk that hangs.

No collective timeout stops a rank that is the only one, or ranks that all hang separately. Such a rank prints its phase
and stacks, and exits after ALONE times that timeout.

Disk I/O has no time limit: while one rank reads or writes a checkpoint, no rank exits. The rank that reads or writes
prints a warning, and repeats it each time the duration has doubled.
"""

import faulthandler
import math
import multiprocessing
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from torch.distributed import Store  # type: ignore[attr-defined]

from ..lifecycle.errors import PeerLost, RankHangs
from ..lifecycle.exit_rank import known_cause, print_error_once
from .hang_store import ANSWER_TICKS, RankStatus, StatusBoard, describe_step
from .phases import Phases

# words in gloo's error messages; "timeout caused" means that another message to the same rank timed out first
TIMED_OUT = re.compile("timed out|timeout caused", re.IGNORECASE)
STDERR = 2  # faulthandler takes a descriptor because it writes without the GIL
READING = ("data", "validation")  # phases in which a rank may wait for its data workers
AT_DISK = {"write": "writing the checkpoint", "read": "reading a checkpoint"}  # phases without a time limit
MOST_TICK_S = 1.0  # maximum time between polls
MOST_MARGIN_S = 8.0  # the search for the culprit starts this long before the timeout
LAST_S = 4.0  # time for a search that starts only after the timeout
ALONE = 6.0  # limit for work that no other rank waits for, in timeouts; only time distinguishes slow from hung
MOST_TICKS = 3  # maximum time that counts between two polls, in ticks
# Phases without a time limit. `save` is one of them because its messages have a timeout, and because gathering and
# copying a large state takes a long time.
ENDLESS = ("start", "save", "write", "read", "failed")


class StallClock:
    """Time without progress of one rank: spent_s. Time during which the process was suspended, or the polling thread
    was not running, does not count, because a suspended job is not hung.
    """

    def __init__(self, phases: Phases) -> None:
        self._phases, self._moved, self._looked = phases, phases.moved, phases.moved
        self.spent_s = 0.0

    def update(self, now: float, tick_s: float) -> None:
        """Update spent_s. now: result of time.perf_counter(); tick_s: intended seconds between polls"""
        moved = self._phases.moved
        self.spent_s = self.spent_s + min(now - self._looked, MOST_TICKS * tick_s) if moved == self._moved else 0.0
        self._moved, self._looked = moved, now

    def is_over(self, timeout_s: float) -> bool:
        """Return whether the rank had stalled for longer than timeout_s at the last poll, and has not moved since."""
        is_limited, has_moved = self._phases.phase not in ENDLESS, self._phases.moved != self._moved
        return self.spent_s > timeout_s and is_limited and not has_moved


class HangWatchdog:
    """Watches one rank while it builds and trains. It is a reentrant context manager, whose first exit stops the watch.

    names:        display names of all ranks, in rank order, such as rank 3 on node7.
    timeout_s:    initial timeout of one message between ranks.
    store:        store for the StatusBoard, or None if world_size is 1.
    on_tick:      called at each poll, in a separate thread because it may write to a hung disk.
    at_end:       called before a hung rank exits, to write the rank's remaining data.
    """

    def __init__(self, phases: Phases, rank: int, names: Sequence[str], timeout_s: float, store: Store | None) -> None:
        self.phases, self.names = phases, names
        self.on_tick: Callable[[], None] = lambda: None
        self.at_end: Callable[[], None] = lambda: None
        self.name, self.verdict = names[rank], ""  # verdict: which rank holds up the others, if known
        self._board = store and StatusBoard(store, rank, names, self.current_status, MOST_TICK_S)
        self._first_s = timeout_s
        self.use_timeout(timeout_s)
        self._is_first = True  # the initial timeout still applies
        self._no_progress = StallClock(phases)
        # when the phase of the last alarm began; how long that phase must last before the next alarm
        self._alarmed, self._again_s = 0.0, 0.0
        self._armed: tuple[float, float] | None = None
        self._ended = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, args=(target,), name=name, daemon=True)
            for name, target in (
                ("watch", self._check_progress),
                ("watch, on_tick", self._do_on_tick),
                ("watch, end", self._exit_when_hung),
            )
        ]

    def use_timeout(self, timeout_s: float) -> None:
        self.timeout_s, self._is_first = timeout_s, False
        self.tick_s = min(MOST_TICK_S, timeout_s / 30)
        self.alarm_s = timeout_s - min(MOST_MARGIN_S, timeout_s / 3)
        if self._board:
            self._board.tick_s = self.tick_s

    def current_status(self) -> RankStatus:
        return RankStatus(self.phases.place, self.phases.phase, time.perf_counter() - self.phases.since)

    def __enter__(self) -> "HangWatchdog":
        if not self._threads[0].is_alive():
            for thread in self._threads:
                thread.start()
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """If an exchange timed out, raise a PeerLost that names the culprit."""
        if self._ended.is_set():
            return
        self._ended.set()
        for thread in self._threads:
            thread.join(LAST_S)  # a disk may hang
        faulthandler.cancel_dump_traceback_later()
        lost = known_cause(error) if isinstance(error, RuntimeError) else None
        if error is not None and not isinstance(lost, PeerLost):
            self.phases.enter("failed")
            if self._board:
                self._board.set_reporting(True)  # until this process exits, which takes long if it waits for a disk
        if self._board and isinstance(lost, PeerLost) and TIMED_OUT.search(str(error)):
            details = [self._wait_for_verdict(self._board), "stacks of each rank: logs/rank_NN.log"]
            raise PeerLost(lost.title, details) from error

    def _wait_for_verdict(self, board: StatusBoard) -> str:
        """Wait for the verdict and return it. On a busy machine, it may arrive late."""
        was_asked = self._alarmed == self.phases.since
        if not was_asked:
            board.request_verdict()
        return board.wait_for_verdict(0 if was_asked else LAST_S) or self.verdict or board.verdict_without_answer

    def _run(self, look: Callable[[], None]) -> None:
        while not self._ended.wait(self.tick_s):
            look()

    def _do_on_tick(self) -> None:
        self.on_tick()

    def _check_progress(self) -> None:
        since, part_s = self.phases.since, time.perf_counter() - self.phases.part_since
        position = self.current_status()
        if position.phase == "start":
            faulthandler.cancel_dump_traceback_later()
            self._armed = None
            return
        self._schedule_dump(since)
        if since != self._alarmed:
            self.verdict = ""
        if self._board:
            self._board.set_reporting(part_s > self.timeout_s / 2)
        if position.seconds > (self._again_s if since == self._alarmed else self.alarm_s):
            self._alarmed, self._again_s = since, 2 * position.seconds if position.phase in AT_DISK else math.inf
            self._print_alarm(position, since)

    def _exit_when_hung(self) -> None:
        """Exit if the rank hangs. Runs in a thread that does not write because a write may hang."""
        self._no_progress.update(time.perf_counter(), self.tick_s)
        # a phase that runs for the first time may compile, as the first step does
        is_first = self._is_first or self.phases.phase not in self.phases.known
        timeout_s = max(self.timeout_s, self._first_s) if is_first else self.timeout_s
        if not self._no_progress.is_over(ALONE * timeout_s) or self._ended.is_set():
            return
        key = "init_timeout_s" if is_first and timeout_s == self._first_s else "step_timeout_s"
        limit = f"{ALONE:g} times process_group.{key}={timeout_s:g}"
        last_words = threading.Thread(target=self._print_hang, args=(limit,), daemon=True)
        last_words.start()
        last_words.join(self.timeout_s)  # gives a slow disk another timeout
        os._exit(RankHangs.code)

    def _print_hang(self, limit: str) -> None:
        print(_thread_stacks(), file=sys.stderr, flush=True)
        phase, step, spent_s = self.phases.phase, self.phases.place[0], self._no_progress.spent_s
        error = RankHangs(
            f"{self.name} has made no progress in the {phase} phase {describe_step(step)} for {spent_s:.0f} s",
            [self.verdict] if self._board and self.verdict else [],
            hint=f"the rank's stacks are above; the limit is {limit}",
        )
        print_error_once(error)
        self.at_end()

    def _schedule_dump(self, since: float) -> None:
        """Schedule faulthandler's dump, which does not need the GIL. Progress postpones the dump."""
        if (since, self.timeout_s) != self._armed:
            faulthandler.dump_traceback_later(self.timeout_s, file=STDERR)
        self._armed = since, self.timeout_s

    def _print_alarm(self, position: RankStatus, since: float) -> None:
        faulthandler.cancel_dump_traceback_later()
        doing = AT_DISK.get(position.phase, f"in the {position.phase} phase")
        message = f"{self.name} has been {doing} {describe_step(position.place[0])} for {position.seconds:.0f} s"
        if position.phase in AT_DISK:
            message += ", and continues; check its disk, because the other ranks are waiting for it"
        print(f"warning: {message}; its stacks:\n{_thread_stacks()}", file=sys.stderr, flush=True)
        if position.phase in AT_DISK:
            return
        if position.phase in READING:
            _dump_worker_stacks()
        if self._board:
            self._board.request_verdict()
            message = self._board.wait_for_verdict(ANSWER_TICKS * self.tick_s) or self._board.verdict_without_answer
            if self.phases.since != since:
                return  # the rank has made progress in the meantime
            print(f"warning: {message}", file=sys.stderr, flush=True)
        self.verdict = message


def _thread_stacks() -> str:
    """Return the stacks of all threads. faulthandler holds the GIL while it writes them, so it writes to memory."""
    with os.fdopen(os.memfd_create("stacks"), "r+b") as memory:
        faulthandler.dump_traceback(file=memory, all_threads=True)
        memory.seek(0)
        return memory.read().decode(errors="replace").rstrip("\n")


def _dump_worker_stacks() -> None:
    """Make data workers write their stacks to this rank's log, one at a time. Skip children that SIGQUIT would kill."""
    for child in multiprocessing.active_children():
        with suppress(OSError, ValueError):
            caught = re.search(r"^SigCgt:\s*(\w+)", Path(f"/proc/{child.pid}/status").read_text(), re.MULTILINE)
            if child.pid and caught and int(caught[1], 16) >> signal.SIGQUIT - 1 & 1:
                print(f"its child process {child.pid}, which reads data:", file=sys.stderr, flush=True)
                os.kill(child.pid, signal.SIGQUIT)
                time.sleep(0.1)
