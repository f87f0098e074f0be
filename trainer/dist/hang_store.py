"""Key-value store in which ranks report hangs, served by rank 0 or torchrun; unused until then.

Each that waits for too long says where it is, again and again. Rank 0 compares: who has failed says so, who says
nothing is frozen, who is behind holds up the rest; the others ask it, which may have come to wait later than they. All
of this is done by a thread of its own, for operations of torch's TCPStore have no timeout when its server is frozen
(torch 2.13: get, check, delete_key, wait).
"""

import json
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta

from torch.distributed import Store  # type: ignore[attr-defined]

MOST_NAMED = 8
LOOK_TICKS, ANSWER_TICKS = 3, 9  # of a rank: between two looks, of which there are at most three; until they are over
SILENT = "not responding: frozen, or its machine or network link is down"


@dataclass(frozen=True)
class RankStatus:
    """Position of a rank. place: as in Phases; seconds: in this phase"""

    place: tuple[int, int]
    phase: str
    seconds: float


class StatusBoard:
    """Store as one rank sees it.

    store    by a connection of its own, made in time
    where    this rank is now
    names    what people call each rank, by rank
    tick_s   between two words of a rank; may be changed
    """

    def __init__(self, store: Store, rank: int, names: Sequence[str], where: Callable[[], RankStatus], tick_s: float) -> None:
        self._store, self._rank, self._names, self._where = store, rank, names, where
        self.tick_s = tick_s
        self._tells, self._begins, self._asked = threading.Event(), threading.Event(), threading.Event()
        self._answer = ""
        self._answered = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="board", daemon=True)

    def tell(self, on: bool) -> None:
        """Say where this rank is, from now on or no longer."""
        if not on:
            self._tells.clear()
        elif not self._tells.is_set():
            self._begins.set()
            self._tells.set()
            if not self._thread.is_alive():
                self._thread.start()

    def ask(self) -> None:
        """Ask which rank holds up the others; answer() returns it later."""
        self.tell(True)
        self._answer = ""
        self._answered.clear()
        self._asked.set()

    def answer(self, timeout_s: float) -> str:
        """Return the answer to the last ask(); "" after timeout_s. It may arrive later."""
        self._answered.wait(timeout_s)
        return self._answer

    @property
    def nobody(self) -> str:
        """Return what a missing answer means: rank 0, which runs the store, does not respond."""
        return f"{self._names[0]} is {SILENT}"

    def _serve(self) -> None:
        store = self._store
        while True:
            self._tells.wait()
            with suppress(RuntimeError):  # the store, or rank 0 with it, is gone
                if self._begins.is_set():
                    self._begins.clear()
                    store.delete_key("verdict")  # of an earlier part
                self._say(store)
                if self._asked.is_set() or (self._rank == 0 and store.check(["asked"])):
                    self._asked.clear()
                    self._answer = self._find_out(store)
                    self._answered.set()
            self._asked.wait(self.tick_s)

    def _say(self, store: Store) -> None:
        """Write a new text with the current seconds, as a heartbeat."""
        position = self._where()
        store.set(f"at/{self._rank}", json.dumps([position.place, position.phase, position.seconds]))

    def _find_out(self, store: Store) -> str:
        if self._rank == 0:
            store.delete_key("asked")
            words = self._compare(store, range(len(self._names)))
            store.set("verdict", words)
            return words
        store.set("asked", "")
        for _ in range(ANSWER_TICKS):
            self._say(store)
            with suppress(RuntimeError):
                store.wait(["verdict"], timedelta(seconds=self.tick_s))
                return store.get("verdict").decode()
        return self._compare(store, [0, self._rank])

    def _compare(self, store: Store, ranks: Sequence[int]) -> str:
        """Poll twice: a rank without a new heartbeat is frozen, or its machine is. A busy one gets more time."""
        before = self._texts(store, ranks)
        for _ in range(2):
            time.sleep(LOOK_TICKS * self.tick_s)
            self._say(store)
            after = self._texts(store, ranks)
            if all(new and new != old for old, new in zip(before, after, strict=True)):
                break
        statuses: list[RankStatus | None] = []
        for old, new in zip(before, after, strict=True):
            if not new or new == old:
                statuses.append(None)
            else:
                position, phase, seconds = json.loads(new)
                statuses.append(RankStatus((position[0], position[1]), phase, seconds))
        return describe_culprit(statuses, [self._names[rank] for rank in ranks])

    def _texts(self, store: Store, ranks: Sequence[int]) -> list[bytes]:
        keys = [f"at/{rank}" for rank in ranks]
        return [store.get(key) if store.check([key]) else b"" for key in keys]


def describe_culprit(seen: Sequence[RankStatus | None], names: Sequence[str]) -> str:
    """Describe which rank holds up the others. seen: by rank; None = not responding"""
    failed = [name for name, status in zip(names, seen, strict=True) if status and status.phase == "failed"]
    if failed:
        return f"{_listed(failed)} failed; see logs/rank_NN.log"
    silent = [name for name, status in zip(names, seen, strict=True) if status is None]
    if silent:
        return f"{_listed(silent)} {'is' if len(silent) == 1 else 'are'} {SILENT}"
    alive = [status for status in seen if status is not None]
    last = min(alive, key=lambda status: status.place)
    behind = [name for name, status in zip(names, alive, strict=True) if status.place == last.place]
    description = f"in {last.phase} {of_step(last.place[0])} for {last.seconds:.0f} s"
    phases = {status.phase for status in alive}
    if len(behind) == len(names) or phases == {"data"}:
        return f"all ranks have been {description}: {_why_all(last)}"
    also = ", or for their held-out data as well" if phases == {"validation"} else ""
    return f"{_listed(behind)} {'has' if len(behind) == 1 else 'have'} been {description}; the others wait for it{also}"


def _why_all(last: RankStatus) -> str:
    """Describe why all ranks are stuck in the same phase."""
    if last.phase == "validation":
        return "each waits for its held-out data or is in measure()"
    if last.phase == "data":
        return "each waits for its own data"
    return f"{'' if last.place[0] else 'slow work, '}a network link, or a collective that not all ranks call"


def of_step(step: int) -> str:
    """Return the step of a place as text, as in Phases."""
    return f"of step {step}" if step else "before the first step"


def _listed(names: Sequence[str]) -> str:
    suffix = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ", ".join(names[:MOST_NAMED]) + suffix
