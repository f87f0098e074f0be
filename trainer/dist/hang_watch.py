"""Watchdog thread in each rank: detects when the rank makes no progress and reports which rank holds up the others.

Nothing is sent while training goes on. A rank whose step, validation, save or part of the build lasts longer than half
of the timeout says so on the board (board.py). Shortly before the timeout, when the ranks that wait would end, the
culprit is named, in a warning and again in their last words, and each writes the stacks of its threads to its log. A
rank that hangs with Python's lock held has them written by faulthandler's own thread. Else nothing holds that lock
while it writes: the log may lie on the disk that hangs.

A rank that no collective timeout stops, because it is alone or all ranks hang separately, exits after ALONE
times that timeout: it says what it has been at, with its stacks.

A disk may take as long as it needs: while one rank writes a checkpoint, or reads one, nobody ends, but it says so, and
again each time that it has lasted twice as long.
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

from .hang_store import ANSWER_TICKS, StatusBoard, RankStatus, of_step
from ..lifecycle.errors import Hangs, PeerLost
from ..lifecycle.exit_rank import known_cause, print_error_once
from .stall_clock import NoProgress
from .phases import Phases

# gloo's words; the second ones are of a message whose time is not over yet, when another one's to the same rank is
TIMED_OUT = re.compile("timed out|timeout caused", re.IGNORECASE)
STDERR = 2  # faulthandler wants a descriptor: it writes without Python's lock
READING = ("data", "validation")  # where a rank may wait for its workers
AT_DISK = {"write": "writing since the end", "read": "reading"}  # what a rank does in a phase without an end in time
MOST_TICK_S = 1.0  # between two looks
MOST_MARGIN_S = 8.0  # before the timeout: when the culprit is looked for
LAST_S = 4.0  # to find the culprit after the timeout, where it was not looked for before
ALONE = 6.0  # timeouts that a rank has for what no other waits for: nothing but time tells slow from never


class HangWatchdog:
    """Watch one rank while it builds and trains. A reentrant context; the first exit ends it.

    names         what people call each rank, by rank: rank 3 on node7
    timeout_s     of one message between ranks, as of now
    store         for the board; None for a world of one
    on_tick       called as often as it looks, in a thread of its own: it may write to the disk that hangs
    at_end        called when this rank hangs, before it ends: writes what there is still to write; may be set later
    """

    def __init__(
        self,
        phases: Phases,
        rank: int,
        names: Sequence[str],
        timeout_s: float,
        store: Store | None,
        on_tick: Callable[[], None] = lambda: None,
    ) -> None:
        self.phases = phases
        self.names, self.on_tick = names, on_tick
        self.name, self.words = names[rank], ""  # words: who holds up the others, when somebody does
        self._board = store and StatusBoard(store, rank, names, self.where, MOST_TICK_S)
        self._first_s = timeout_s
        self.use_timeout(timeout_s)
        self._is_first = True  # that timeout, still
        self.at_end: Callable[[], None] = lambda: None
        self._no_progress = NoProgress(phases)
        self._alarmed, self._again_s = 0.0, 0.0  # since when the phase lasted of the last alarm, when to repeat it
        self._armed: tuple[float, float] | None = None
        self._ended = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, args=(target,), name=name, daemon=True)
            for name, target in (
                ("watch", self._look),
                ("watch, on_tick", self._do_on_tick),
                ("watch, end", self._end_when_over),
            )
        ]

    def use_timeout(self, timeout_s: float) -> None:
        """Set the timeout from now on."""
        self.timeout_s, self._is_first = timeout_s, False
        self.tick_s = min(MOST_TICK_S, timeout_s / 30)
        self.alarm_s = timeout_s - min(MOST_MARGIN_S, timeout_s / 3)
        if self._board:
            self._board.tick_s = self.tick_s

    def where(self) -> RankStatus:
        """Return the position of this rank."""
        return RankStatus(self.phases.place, self.phases.phase, time.perf_counter() - self.phases.since)

    def __enter__(self) -> "HangWatchdog":
        if not self._threads[0].is_alive():
            for thread in self._threads:
                thread.start()
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Raise PeerLost with the name of the rank if an exchange timed out."""
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
                self._board.tell(True)  # until this process has gone, which may wait for a disk
        if self._board and isinstance(lost, PeerLost) and TIMED_OUT.search(str(error)):
            raise PeerLost(lost.title, [self._culprit(self._board), "stacks of each rank: logs/rank_NN.log"]) from error

    def _culprit(self, board: StatusBoard) -> str:
        """Return the final verdict; a busy machine may answer late."""
        was_asked = self._alarmed == self.phases.since
        if not was_asked:
            board.ask()
        return board.answer(0 if was_asked else LAST_S) or self.words or board.nobody

    def _run(self, look: Callable[[], None]) -> None:
        while not self._ended.wait(self.tick_s):
            look()

    def _do_on_tick(self) -> None:
        self.on_tick()

    def _look(self) -> None:
        since, part_s = self.phases.since, time.perf_counter() - self.phases.part_since
        position = self.where()
        if position.phase == "start":  # not begun yet
            faulthandler.cancel_dump_traceback_later()
            self._armed = None
            return
        self._arm(since)
        if since != self._alarmed:
            self.words = ""
        if self._board:
            self._board.tell(part_s > self.timeout_s / 2)
        if position.seconds > (self._again_s if since == self._alarmed else self.alarm_s):
            self._alarmed, self._again_s = since, 2 * position.seconds if position.phase in AT_DISK else math.inf
            self._alarm(position, since)

    def _end_when_over(self) -> None:
        """Exit the rank from a thread that does not write."""
        self._no_progress.look(time.perf_counter(), self.tick_s)
        # what is done for the first time compiles, as in the first step
        is_first = self._is_first or self.phases.phase not in self.phases.known
        timeout_s = max(self.timeout_s, self._first_s) if is_first else self.timeout_s
        if not self._no_progress.is_over(ALONE * timeout_s) or self._ended.is_set():
            return
        last_words = threading.Thread(target=self._say_last, args=(timeout_s, is_first), daemon=True)
        last_words.start()
        last_words.join(self.timeout_s)  # the disk gets as long again
        os._exit(Hangs.code)

    def _say_last(self, timeout_s: float, is_first: bool) -> None:
        print(_stacks(), file=sys.stderr, flush=True)
        print_error_once(self._hangs(timeout_s, is_first))
        self.at_end()

    def _hangs(self, timeout_s: float, is_first: bool) -> Hangs:
        phase, step, spent_s = self.phases.phase, self.phases.place[0], self._no_progress.spent_s
        key = "init_timeout_s" if is_first and timeout_s == self._first_s else "step_timeout_s"
        return Hangs(
            f"{self.name} has made no progress in {phase} {of_step(step)} for {spent_s:.0f} s",
            [self.words] if self._board and self.words else [],
            hint=f"its stacks are above; the limit is {ALONE:g} times process_group.{key}={timeout_s:g}",
        )

    def _arm(self, since: float) -> None:
        """The dump by a thread that needs no lock of Python; it is put off as long as the rank goes on."""
        if (since, self.timeout_s) != self._armed:
            faulthandler.dump_traceback_later(self.timeout_s, file=STDERR)
        self._armed = since, self.timeout_s

    def _alarm(self, position: RankStatus, since: float) -> None:
        faulthandler.cancel_dump_traceback_later()
        doing = AT_DISK.get(position.phase, f"in {position.phase}")
        words = f"{self.name} has been {doing} {of_step(position.place[0])} for {position.seconds:.0f} s"
        if position.phase in AT_DISK:
            words += ", and continues; check its disk, because the other ranks wait for it"
        print(f"warning: {words}; its stacks:\n{_stacks()}", file=sys.stderr, flush=True)
        if position.phase in AT_DISK:
            return
        if position.phase in READING:
            _ask_workers()
        if self._board:
            self._board.ask()
            words = self._board.answer(ANSWER_TICKS * self.tick_s) or self._board.nobody
            if self.phases.since != since:
                return  # it went on meanwhile
            print(f"warning: {words}", file=sys.stderr, flush=True)
        self.words = words


def _stacks() -> str:
    """Return the stacks of all threads through memory, because faulthandler holds the GIL while it writes."""
    with os.fdopen(os.memfd_create("stacks"), "r+b") as memory:
        faulthandler.dump_traceback(file=memory, all_threads=True)
        memory.seek(0)
        return memory.read().decode(errors="replace").rstrip("\n")


def _ask_workers() -> None:
    """Make data workers write their stacks to this log, one after another. SIGQUIT would kill other children."""
    for child in multiprocessing.active_children():
        with suppress(OSError, ValueError):
            caught = re.search(r"^SigCgt:\s*(\w+)", Path(f"/proc/{child.pid}/status").read_text(), re.MULTILINE)
            if child.pid and caught and int(caught[1], 16) >> signal.SIGQUIT - 1 & 1:
                print(f"its child process {child.pid}, which reads data:", file=sys.stderr, flush=True)
                os.kill(child.pid, signal.SIGQUIT)
                time.sleep(0.1)
