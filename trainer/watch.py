"""Who holds up the others? A thread in each rank that sees how long its rank has been at one thing.

Nothing is sent while training goes on. A rank whose step lasts longer than half of the timeout tells the board, a
key-value store served by rank 0 or torchrun, where it is, again and again. Shortly before the timeout rank 0 compares:
who tells nothing is frozen, who is behind holds up the rest. That is the line that all ranks end with (leave.py), and
each leaves its stacks in its log. A rank that hangs with Python's lock held is dumped by faulthandler's own thread.
`kill -QUIT PID` makes a rank write its stacks at any time.
"""

import faulthandler
import json
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from types import TracebackType

from torch.distributed import Store  # type: ignore[attr-defined]

from .distributed import BOARD_TIMEOUT_S
from .errors import PeerLost
from .leave import known_cause
from .phases import Phases

STDERR = 2  # faulthandler wants a descriptor: it writes without Python's lock
SLOW = ("start", "validation", "save")  # phases that may take as long as the start
MOST_TICK_S = 1.0  # between two looks
MOST_MARGIN_S = 4.0  # before the timeout: when rank 0 compares
MOST_NAMED = 8


@dataclass(frozen=True)
class Seen:
    """Where a rank says it is. place: as of Phases; seconds: in this phase"""

    place: tuple[int, int]
    phase: str
    seconds: float


class Watch:
    """Of one rank, while it trains: a context.

    names    what people call each rank by: rank 3 on node7
    board    connects to it; None for a world of one
    on_tick  called at every look: what else has to be done while the main thread waits
    """

    def __init__(
        self,
        phases: Phases,
        rank: int,
        names: Sequence[str],
        step_timeout_s: int,
        board: Callable[[], Store] | None,
        on_tick: Callable[[], None] = lambda: None,
    ) -> None:
        self.phases, self.rank, self.names, self.timeout_s = phases, rank, names, step_timeout_s
        self.tick_s = min(MOST_TICK_S, step_timeout_s / 10)
        self.alarm_s = step_timeout_s - min(MOST_MARGIN_S, step_timeout_s / 3)
        self.words = ""  # who holds up the others, when somebody does
        self._connect = board
        self._board: Store | None = None
        self._on_tick = on_tick
        self._alarmed: tuple[int, int] | None = None  # the place that the last alarm was about
        self._told_step = -1
        self._armed: tuple[int, int] | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)

    def __enter__(self) -> "Watch":
        faulthandler.register(signal.SIGQUIT, file=STDERR)
        self._thread.start()
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Raises PeerLost that names the rank, for an exchange that timed out."""
        self._ended.set()
        self._thread.join(2 * BOARD_TIMEOUT_S)
        faulthandler.cancel_dump_traceback_later()
        faulthandler.unregister(signal.SIGQUIT)
        lost = known_cause(error) if isinstance(error, RuntimeError) else None
        if isinstance(lost, PeerLost) and "timed out" in str(error).lower():
            words = self.words or self._look()
            raise PeerLost(lost.title, [words, "stacks of each rank: logs/rank_NN.log"]) from error

    def _run(self) -> None:
        while not self._ended.wait(self.tick_s):
            self._on_tick()
            self._look_at_this_rank()

    def _look_at_this_rank(self) -> None:
        place, phase, now = self.phases.place, self.phases.phase, time.perf_counter()
        waited_s = now - self.phases.since
        self._arm(None if phase in SLOW else place)
        if place != self._alarmed:
            self.words = ""
        if phase in SLOW:
            return
        if self._connect and now - self.phases.step_since > self.timeout_s / 2:
            self._tell(waited_s)
        if waited_s > self.alarm_s and place != self._alarmed:
            self._alarmed = place
            self._alarm(place, waited_s)

    def _arm(self, place: tuple[int, int] | None) -> None:
        """The dump by a thread that needs no lock of Python; it is put off as long as the rank goes on."""
        if place is None and self._armed is not None:
            faulthandler.cancel_dump_traceback_later()
        elif place is not None and place != self._armed:
            faulthandler.dump_traceback_later(self.timeout_s, file=STDERR)
        self._armed = place

    def _alarm(self, place: tuple[int, int], waited_s: float) -> None:
        if self._connect is None:
            words = f"{self.names[self.rank]} has been in {self.phases.phase} of step {place[0]} for {waited_s:.0f} s"
        else:
            words = self._look()
        if self.phases.place != place:
            return  # it went on meanwhile
        self.words = words
        faulthandler.cancel_dump_traceback_later()
        print(f"warning: {words}; what this rank is doing:", file=sys.stderr, flush=True)
        faulthandler.dump_traceback(file=STDERR, all_threads=True)

    # ---- the board

    def _tell(self, waited_s: float) -> None:
        """Where this rank is. Another text every time: that is the sign of life."""
        with suppress(RuntimeError):
            board = self._open()
            if self._told_step != self.phases.place[0]:
                self._told_step = self.phases.place[0]
                board.delete_key("verdict")  # of an earlier step
            board.set(f"at/{self.rank}", json.dumps([self.phases.place, self.phases.phase, waited_s]))

    def _look(self) -> str:
        """Who holds up the others, in words: rank 0 finds out, the others ask it."""
        try:
            if self.rank == 0:
                words = self._compare(range(len(self.names)))
                self._open().set("verdict", words)
                return words
            board = self._open()
            with suppress(RuntimeError):
                board.wait(["verdict"], timedelta(seconds=BOARD_TIMEOUT_S))
                return board.get("verdict").decode()
            return self._compare([0, self.rank])
        except RuntimeError:
            return f"{self.names[0]} gives no sign of life: frozen, or its machine or link is gone"

    def _compare(self, ranks: Sequence[int]) -> str:
        """Look twice: whoever tells nothing new in between is frozen, or its machine is."""
        before = self._texts(ranks)
        time.sleep(2 * self.tick_s)
        after = self._texts(ranks)
        seen: list[Seen | None] = []
        for old, new in zip(before, after, strict=True):
            if not new or new == old:
                seen.append(None)
            else:
                place, phase, seconds = json.loads(new)
                seen.append(Seen((place[0], place[1]), phase, seconds))
        return verdict(seen, [self.names[rank] for rank in ranks])

    def _texts(self, ranks: Sequence[int]) -> list[bytes]:
        self._tell(time.perf_counter() - self.phases.since)
        board, keys = self._open(), [f"at/{rank}" for rank in ranks]
        return [board.get(key) if board.check([key]) else b"" for key in keys]

    def _open(self) -> Store:
        assert self._connect is not None
        self._board = self._board or self._connect()
        return self._board


def verdict(seen: Sequence[Seen | None], names: Sequence[str]) -> str:
    """Who holds up the others, in words. seen: by rank; None = no sign of life"""
    silent = [name for name, one in zip(names, seen, strict=True) if one is None]
    if silent:
        verb = "gives" if len(silent) == 1 else "give"
        return f"{_listed(silent)} {verb} no sign of life: frozen, or its machine or link is gone"
    known = [one for one in seen if one is not None]
    last = min(known, key=lambda one: one.place)
    behind = [name for name, one in zip(names, known, strict=True) if one.place == last.place]
    where = f"in {last.phase} of step {last.place[0]} for {last.seconds:.0f} s"
    if len(behind) == len(names):
        return f"all ranks have been {where}: a link, or a collective that not all of them call"
    return f"{_listed(behind)} {'has' if len(behind) == 1 else 'have'} been {where}; the others wait for it"


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ", ".join(names[:MOST_NAMED]) + more
