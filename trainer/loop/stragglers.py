"""Detect stragglers: ranks that are slower than the others, although they make progress.

Only the time for data and for the forward pass counts, before the first exchange: in the backward pass of DDP and FSDP
all ranks wait for the slowest. With sharded weights they already do so in the forward pass, and only data are measured.
On a GPU the forward pass is timed by the GPU itself (gpu_timer.py).
"""

import time
from collections.abc import Sequence
from statistics import median_low
from typing import NamedTuple

TIMES = 1.3  # the median of the ranks; torchtitan and MegaScale look for 1.1 to 1.5
SHARE = 0.05  # of a step, at least: less is not worth a line
LEAST_S = 0.005  # a step: what less costs is the noise of a machine
STEPS = 20  # in which it must be so on average
QUIET_S = 300.0  # before the same rank is named again for the same reason


class OwnWork(NamedTuple):
    """Work time of one rank in seconds over some steps. step: whole steps, in which all ranks wait for the slowest"""

    data: float
    forward: float
    step: float


class Stragglers:
    """Takes what every rank did in some steps; says a line when one of them is slow. names: by rank"""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self._reported: dict[tuple[int, str], float] = {}  # (rank, phase) -> when, monotonic seconds
        self._steps, self._sums = 0, [OwnWork(0.0, 0.0, 0.0)] * len(names)

    def after(self, steps: int, work: Sequence[OwnWork]) -> str:
        """The line, or "". work: by rank, of the last `steps` steps"""
        self._steps += steps
        self._sums = [OwnWork(*map(sum, zip(old, new, strict=True))) for old, new in zip(self._sums, work, strict=True)]
        if self._steps < STEPS:
            return ""
        num, sums = self._steps, self._sums
        self._steps, self._sums = 0, [OwnWork(0.0, 0.0, 0.0)] * len(self._names)
        straggler = slowest(sums, LEAST_S * num)
        if straggler is None:
            return ""
        rank, phase, own_s, usual_s = straggler
        now = time.monotonic()
        if now - self._reported.get((rank, phase), -QUIET_S) < QUIET_S:
            return ""
        self._reported[rank, phase] = now
        times = f"{own_s / num:.3f} s a step, the median {usual_s / num:.3f} s, over {num} steps"
        return f"straggler: {self._names[rank]}: {phase} takes {times}"


def slowest(work: Sequence[OwnWork], least_s: float) -> tuple[int, str, float, float] | None:
    """(rank, phase, its seconds, the median's) of the rank that all wait for; None when they are alike.

    least_s: that it must be behind
    """
    usual_s = median_low(times.data + times.forward for times in work)
    rank = max(range(len(work)), key=lambda rank: work[rank].data + work[rank].forward)
    own_s = work[rank].data + work[rank].forward
    if own_s <= TIMES * usual_s or own_s - usual_s <= max(SHARE * work[rank].step, least_s):
        return None
    usual_data, usual_forward = (median_low(times[column] for times in work) for column in (0, 1))
    if work[rank].data - usual_data >= work[rank].forward - usual_forward:
        return rank, "data", work[rank].data, usual_data
    return rank, "forward", work[rank].forward, usual_forward
