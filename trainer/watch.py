"""Who holds up the others? A thread in each rank that sees how long its rank has been at one thing.

Nothing is sent while training goes on. A rank whose step lasts longer than half of the timeout says so on the board
(board.py). Shortly before the timeout, when the ranks that wait would end, the culprit is named, in a warning and again
in their last words, and each writes the stacks of its threads to its log. A rank that hangs with Python's lock held has
them written by faulthandler's own thread. `kill -QUIT PID` makes a rank write them at any time.
"""

import faulthandler
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from types import TracebackType

from torch.distributed import Store  # type: ignore[attr-defined]

from .board import Board, Seen
from .errors import PeerLost
from .leave import known_cause
from .phases import Phases

STDERR = 2  # faulthandler wants a descriptor: it writes without Python's lock
SLOW = ("start", "validation", "save")  # phases that may take longer than a message between ranks
MOST_TICK_S = 1.0  # between two looks
MOST_MARGIN_S = 8.0  # before the timeout: when the culprit is looked for
LAST_S = 4.0  # to find the culprit after the timeout, where it was not looked for before


class Watch:
    """Of one rank, while it trains: a context.

    names    what people call each rank, by rank: rank 3 on node7
    store    for the board; None for a world of one
    on_tick  called at every look: what else has to be done while the main thread waits
    """

    def __init__(
        self,
        phases: Phases,
        rank: int,
        names: Sequence[str],
        step_timeout_s: float,
        store: Store | None,
        on_tick: Callable[[], None] = lambda: None,
    ) -> None:
        self.phases, self.timeout_s = phases, step_timeout_s
        self.tick_s = min(MOST_TICK_S, step_timeout_s / 30)
        self.alarm_s = step_timeout_s - min(MOST_MARGIN_S, step_timeout_s / 3)
        self.name, self.words = names[rank], ""  # words: who holds up the others, when somebody does
        self._board = store and Board(store, rank, names, self.where, self.tick_s)
        self._on_tick = on_tick
        self._alarmed: tuple[int, int] | None = None  # the place that the last alarm was about
        self._armed: tuple[int, int] | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)

    def where(self) -> Seen:
        """This rank, now."""
        return Seen(self.phases.place, self.phases.phase, time.perf_counter() - self.phases.since)

    def __enter__(self) -> "Watch":
        faulthandler.register(signal.SIGQUIT, file=STDERR)
        self._thread.start()
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Raises PeerLost that names the rank, for an exchange that timed out."""
        self._ended.set()
        self._thread.join()
        faulthandler.cancel_dump_traceback_later()
        faulthandler.unregister(signal.SIGQUIT)
        lost = known_cause(error) if isinstance(error, RuntimeError) else None
        if self._board and isinstance(lost, PeerLost) and "timed out" in str(error).lower():
            words = self.words or self._board.who(LAST_S)
            raise PeerLost(lost.title, [words, "stacks of each rank: logs/rank_NN.log"]) from error

    def _run(self) -> None:
        while not self._ended.wait(self.tick_s):
            self._on_tick()
            self._look()

    def _look(self) -> None:
        at, step_s = self.where(), time.perf_counter() - self.phases.step_since
        may_be_slow = at.phase in SLOW
        self._arm(None if may_be_slow else at.place)
        if at.place != self._alarmed:
            self.words = ""
        if self._board:
            self._board.tell(step_s > self.timeout_s / 2 and not may_be_slow)
        if at.seconds > self.alarm_s and at.place != self._alarmed and not may_be_slow:
            self._alarmed = at.place
            self._alarm(at)

    def _arm(self, place: tuple[int, int] | None) -> None:
        """The dump by a thread that needs no lock of Python; it is put off as long as the rank goes on."""
        if place is None and self._armed is not None:
            faulthandler.cancel_dump_traceback_later()
        elif place is not None and place != self._armed:
            faulthandler.dump_traceback_later(self.timeout_s, file=STDERR)
        self._armed = place

    def _alarm(self, at: Seen) -> None:
        faulthandler.cancel_dump_traceback_later()
        words = f"{self.name} has been in {at.phase} of step {at.place[0]} for {at.seconds:.0f} s"
        print(f"warning: {words}; what it is doing:", file=sys.stderr, flush=True)
        faulthandler.dump_traceback(file=STDERR, all_threads=True)
        if self._board:
            words = self._board.who(6 * self.tick_s)
            if self.phases.place != at.place:
                return  # it went on meanwhile
            print(f"warning: {words}", file=sys.stderr, flush=True)
        self.words = words
