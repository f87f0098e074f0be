"""Key-value store in which ranks report hangs. Rank 0 or torchrun serves it. It is used only if a rank waits too long.

A rank that waits too long writes its position again and again, as a heartbeat. Rank 0 compares the positions: a rank
without a heartbeat is frozen, and the rank that is furthest behind is holding up the rest. Other ranks ask rank 0 for
the result. All of this runs in a separate thread because operations of torch's TCPStore (get, check, delete_key, wait)
have no timeout if the store's server is frozen (torch 2.13).
"""

import json
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta

from torch.distributed import Store  # type: ignore[attr-defined]

from ...runtime.system.frozen_dataclass import dataclass
from ..lifecycle.errors import list_names

LOOK_TICKS, ANSWER_TICKS = 3, 9  # ticks between polls of a rank; ticks that all (at most three) polls take
SILENT = "not responding: frozen, or the machine or network link is down"


@dataclass(frozen=True)
class RankStatus:
    """Position of a rank. place: see Phases; seconds: time spent in this phase so far"""

    place: tuple[int, int]
    phase: str
    seconds: float


class StatusBoard:
    """One rank's view of the store.

    store:   a separate connection, opened before any hang.
    where:   function that returns the current position of this rank.
    names:   display names of all ranks, in rank order.
    tick_s:  seconds between heartbeats; may be changed.
    """

    def __init__(
        self, store: Store, rank: int, names: Sequence[str], where: Callable[[], RankStatus], tick_s: float
    ) -> None:
        self._store, self._rank, self._names, self._where = store, rank, names, where
        self.tick_s = tick_s
        self._reports, self._starts, self._asked = threading.Event(), threading.Event(), threading.Event()
        self._answer = ""
        self._answered = threading.Event()
        self.verdict_without_answer = f"{names[0]} is {SILENT}"  # rank 0 serves the store
        self._thread = threading.Thread(target=self._serve_requests, name="board", daemon=True)

    def set_reporting(self, on: bool) -> None:
        """Start or stop reporting the position of this rank."""
        if not on:
            self._reports.clear()
        elif not self._reports.is_set():
            self._starts.set()
            self._reports.set()
            if not self._thread.is_alive():
                self._thread.start()

    def request_verdict(self) -> None:
        """Ask which rank is holding up the others; wait_for_verdict() returns the result later."""
        self.set_reporting(True)
        self._answer = ""
        self._answered.clear()
        self._asked.set()

    def wait_for_verdict(self, timeout_s: float) -> str:
        """Return the result of the last request_verdict(), or "" after timeout_s. A later call may still return it."""
        self._answered.wait(timeout_s)
        return self._answer

    def _serve_requests(self) -> None:
        store = self._store
        while True:
            self._reports.wait()
            with suppress(RuntimeError):  # the store is gone, perhaps together with rank 0
                if self._starts.is_set():
                    self._starts.clear()
                    store.delete_key("verdict")  # the verdict from an earlier part
                self._write_heartbeat()
                if self._asked.is_set() or (self._rank == 0 and store.check(["asked"])):
                    self._asked.clear()
                    self._answer = self._determine_verdict()
                    self._answered.set()
            self._asked.wait(self.tick_s)

    def _write_heartbeat(self) -> None:
        """Write the position as a heartbeat. It contains the seconds, so that it differs from the previous one."""
        position = self._where()
        self._store.set(f"at/{self._rank}", json.dumps([position.place, position.phase, position.seconds]))

    def _determine_verdict(self) -> str:
        store = self._store
        if self._rank == 0:
            store.delete_key("asked")
            verdict = self._find_culprit(range(len(self._names)))
            store.set("verdict", verdict)
            return verdict
        store.set("asked", "")
        for _ in range(ANSWER_TICKS):
            self._write_heartbeat()
            with suppress(RuntimeError):
                store.wait(["verdict"], timedelta(seconds=self.tick_s))
                return store.get("verdict").decode()
        return self._find_culprit([0, self._rank])

    def _find_culprit(self, ranks: Sequence[int]) -> str:
        """Poll up to three times because a busy rank is slow. A rank without a new heartbeat is frozen."""
        before = self._read_heartbeats(ranks)
        for _ in range(2):
            time.sleep(LOOK_TICKS * self.tick_s)
            self._write_heartbeat()
            after = self._read_heartbeats(ranks)
            if all(new and new != old for old, new in zip(before, after, strict=True)):
                break
        statuses = [
            _parse_heartbeat(new) if new and new != old else None for old, new in zip(before, after, strict=True)
        ]
        return describe_culprit(statuses, [self._names[rank] for rank in ranks])

    def _read_heartbeats(self, ranks: Sequence[int]) -> list[bytes]:
        keys = [f"at/{rank}" for rank in ranks]
        return [self._store.get(key) if self._store.check([key]) else b"" for key in keys]


def _parse_heartbeat(heartbeat: bytes) -> RankStatus:
    place, phase, seconds = json.loads(heartbeat)
    return RankStatus((place[0], place[1]), phase, seconds)


def describe_culprit(statuses: Sequence[RankStatus | None], names: Sequence[str]) -> str:
    """Describe which rank is holding up the others. statuses: each rank's status; None = not responding"""
    failed = [name for name, status in zip(names, statuses, strict=True) if status and status.phase == "failed"]
    if failed:
        return f"{list_names(failed)} failed; see logs/rank_NN.log"
    silent = [name for name, status in zip(names, statuses, strict=True) if status is None]
    if silent:
        return f"{list_names(silent)} {'is' if len(silent) == 1 else 'are'} {SILENT}"
    alive = [status for status in statuses if status is not None]
    last = min(alive, key=lambda status: status.place)
    behind = [name for name, status in zip(names, alive, strict=True) if status.place == last.place]
    description = f"in the {last.phase} phase {describe_step(last.place[0])} for {last.seconds:.0f} s"
    phases = {status.phase for status in alive}
    if len(behind) == len(names) or phases == {"data"}:
        causes = {
            "validation": "each is waiting for its held-out data or is in measure()",
            "data": "each is waiting for its own data",
        }
        slow = "" if last.place[0] else "slow work, "
        reason = causes.get(last.phase, f"{slow}a broken network link, or a collective that some ranks never call")
        return f"all ranks have been {description}: {reason}"
    also = ", or for their held-out data as well" if phases == {"validation"} else ""
    has, them = ("has", "it") if len(behind) == 1 else ("have", "them")
    return f"{list_names(behind)} {has} been {description}; the others are waiting for {them}{also}"


def describe_step(step: int) -> str:
    """Name a step: "of step 7", or "before the first step" for step 0 (see Phases.place)."""
    return f"of step {step}" if step else "before the first step"
