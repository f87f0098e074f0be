"""Detect that a node's ranks may be hung: no running rank has printed anything or used CPU time for minutes.

In:  twice a minute, for each running rank, the CPU time of the rank and its children, and the size of its log.
Out: a SuspectedHang, which says which ranks are hung, for how long, and which ranks had already exited with 0. No
     process is killed.

While one rank is working, the others may be waiting for it, so a node's ranks are judged together. A rank that polls,
as most ranks waiting for a GPU do, uses CPU time and is never reported.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import NamedTuple

from .. import exit_codes
from ..run_folder.run_folder import RunFolder, parse_count
from ..system import processes
from ..system.text import describe_ranks
from .verdict import end_from_exit_file

LOOK_S = 30.0  # interval between checks, each of which reads /proc once
HANG_S = 300.0  # a slow download, or a compilation on another machine, may take nearly as long
LEAST_CPU = 0.01  # fraction of one core; threads that only wake up occasionally use less (tqdm, heartbeats)
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class SuspectedHang(NamedTuple):
    """A suspected hang. idle_s: seconds without activity; ranks: the running ones; left: those that exited with 0."""

    idle_s: float
    ranks: tuple[int, ...]
    left: tuple[int, ...]

    def __str__(self) -> str:
        line = f"{describe_ranks(self.ranks)} may be hung: no output and no CPU time for {self.idle_s:.0f} s"
        them = "it" if len(self.left) == 1 else "them"
        waiting = f"; {describe_ranks(self.left)} exited with 0, and the others may be waiting for {them}"
        return line + waiting if self.left else line

    def state_keys(self) -> dict[str, object]:
        since = int(time.time() - self.idle_s)
        ranks, left = (" ".join(map(str, numbers)) for numbers in (self.ranks, self.left))
        return {"idle_since": since, "idle_ranks": ranks, "left_ranks": left}


class HangWatch:
    """Watches the planned ranks of one node. hang: the suspected hang, if any. Times are monotonic seconds."""

    def __init__(self, run: RunFolder, ranks: range, now: float) -> None:
        self.hang: SuspectedHang | None = None
        self._run, self._ranks = run, ranks
        self._looked = now
        self._last: dict[int, tuple[int, int]] = {}
        self._active: dict[int, float] = {}  # rank -> when it was last active

    def check_ranks(self, now: float) -> bool:
        """Check the ranks, at most twice a minute. Return whether a suspected hang has begun or ended."""
        if now - self._looked < LOOK_S:
            return False
        running, left = self._rank_activities()
        since = self._idle_since(running, now)
        before, self.hang = self.hang, None
        if now - since >= HANG_S:
            self.hang = SuspectedHang(now - since, tuple(running), left)
        return (before is None) != (self.hang is None)

    def _rank_activities(self) -> tuple[dict[int, tuple[int, int]], tuple[int, ...]]:
        """Return each running rank's CPU time in ticks and log size in bytes, and the ranks that exited with 0."""
        states = {rank: self._run.keys_of_attempt(self._run.rank_state_file(rank)) for rank in self._ranks}
        pids = {rank: parse_count(state.get("pid")) for rank, state in states.items() if state}
        ends = {rank: end for rank in pids if (end := end_from_exit_file(self._run, rank))}
        left = tuple(rank for rank, end in ends.items() if end.code == exit_codes.DONE)
        used = processes.process_cpu_times([pid for rank, pid in pids.items() if rank not in ends])
        return {rank: (used[pid], self._log_size(rank)) for rank, pid in pids.items() if rank not in ends}, left

    def _log_size(self, rank: int) -> int:
        try:
            return self._run.rank_log_file(rank).stat().st_size
        except OSError:
            return 0

    def _idle_since(self, ranks: Mapping[int, tuple[int, int]], now: float) -> float:
        """Return when a running rank was last active, or `now` if there are no ranks."""
        least_ticks = LEAST_CPU * TICKS_PER_S * (now - self._looked)
        for rank, (cpu_ticks, log_bytes) in ranks.items():
            ticks_before, bytes_before = self._last.get(rank, (0, -1))
            is_using_cpu = abs(cpu_ticks - ticks_before) > least_ticks  # negative if a child's time was lost
            if bytes_before != log_bytes or is_using_cpu:
                self._active[rank] = now
        self._last, self._looked = dict(ranks), now
        return max((self._active[rank] for rank in ranks), default=now)
