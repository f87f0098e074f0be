"""Suspects that the ranks of a node hang: none that runs has printed anything or used CPU time for minutes.

In   now and then, of each running rank: its CPU time with that of its children, and the size of its log
Out  Hang: which ranks, for how long, and which have exited with 0 before; nothing is ended for it

While one rank works, the others may rightly wait for it, so all of a node count together. A rank that polls, as most do
that wait for a GPU, uses CPU time and is never suspected.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import NamedTuple

from . import exit_codes, processes
from .run_folder import RunFolder, count_of, read_small
from .verbs.text import named_ranks
from .verdict import left_by

LOOK_S = 30.0  # between two looks, each of which reads /proc once
HANG_S = 300.0  # a slow download, or a compilation on another machine, may take as long
LEAST_CPU = 0.01  # of one core; threads that only look around now and then use less (tqdm, heartbeats)
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class Activity(NamedTuple):
    """Work of a rank since its start. cpu_ticks: user and system time."""

    cpu_ticks: int
    log_bytes: int


class Hang(NamedTuple):
    """A suspicion. idle_s: seconds; ranks: those that run; left: those that have exited with 0."""

    idle_s: float
    ranks: tuple[int, ...]
    left: tuple[int, ...]

    def __str__(self) -> str:
        line = f"{named_ranks(self.ranks)} may hang: no output and no CPU time for {self.idle_s:.0f} s"
        return f"{line}; {named_ranks(self.left)} exited with 0: the others may wait for it" if self.left else line

    def keys(self) -> dict[str, object]:
        """Return the keys for the state file of the node."""
        since = int(time.time() - self.idle_s)
        ranks, left = (" ".join(map(str, numbers)) for numbers in (self.ranks, self.left))
        return {"idle_since": since, "idle_ranks": ranks, "left_ranks": left}


class HangWatch:
    """The planned ranks of one node. hang: the current suspicion. Times are monotonic seconds."""

    def __init__(self, run: RunFolder, ranks: range, now: float) -> None:
        self.hang: Hang | None = None
        self._run, self._ranks = run, ranks
        self._looked = now
        self._last: dict[int, Activity] = {}
        self._active: dict[int, float] = {}  # rank -> when it last did something

    def look(self, now: float) -> bool:
        """Return True when a suspicion has come up or has gone. Looks at the ranks twice a minute."""
        if now - self._looked < LOOK_S:
            return False
        running, left = self._activities()
        since = self._idle_since(running, now)
        before, self.hang = self.hang, None
        if now - since >= HANG_S:
            self.hang = Hang(now - since, tuple(running), left)
        return (before is None) != (self.hang is None)

    def _activities(self) -> tuple[dict[int, Activity], tuple[int, ...]]:
        """(activity of each running rank, ranks that have exited with 0)."""
        states = {rank: state[1] for rank in self._ranks if (state := read_small(self._run.rank_state(rank)))}
        pids = {
            rank: count_of(state.get("pid"))
            for rank, state in states.items()
            if state.get("attempt") == str(self._run.attempt)
        }
        ends = {rank: end for rank in pids if (end := left_by(self._run, rank))}
        left = tuple(rank for rank, end in ends.items() if end.code == exit_codes.DONE)
        used = processes.cpu_ticks([pid for rank, pid in pids.items() if rank not in ends])
        running = {rank: Activity(used[pid], self._log_bytes(rank)) for rank, pid in pids.items() if rank not in ends}
        return running, left

    def _log_bytes(self, rank: int) -> int:
        try:
            return self._run.rank_log(rank).stat().st_size
        except OSError:
            return 0

    def _idle_since(self, ranks: Mapping[int, Activity], now: float) -> float:
        """Return when the running rank that was active last was so; `now` without ranks."""
        least_ticks = LEAST_CPU * TICKS_PER_S * (now - self._looked)
        for rank, activity in ranks.items():
            before = self._last.get(rank)
            ticks = abs(activity.cpu_ticks - before.cpu_ticks) if before else 0  # < 0: a child took its time with it
            if before is None or before.log_bytes != activity.log_bytes or ticks > least_ticks:
                self._active[rank] = now
        self._last, self._looked = dict(ranks), now
        return max((self._active[rank] for rank in ranks), default=now)
