"""Detect stragglers: ranks that make progress but are slower than the others.

Only the time for data and the forward pass is compared, because in the backward pass of DDP and FSDP all ranks wait for
the slowest. With sharded weights, they already wait in the forward pass, so only data loading reveals a straggler. On a
GPU, the forward pass is timed with CUDA events because kernels run asynchronously.
"""

import time
from collections.abc import Sequence
from statistics import median_low
from typing import NamedTuple

import torch

TIMES = 1.3  # minimum multiple of the median to count as slow; torchtitan and MegaScale use 1.1 to 1.5
SHARE = 0.05  # minimum delay as a fraction of the step
LEAST_S = 0.005  # minimum delay per step; anything less is noise
STEPS = 20  # number of steps to average over
QUIET_S = 300.0  # minimum time between two reports about the same rank and phase


class WorkTimes(NamedTuple):
    """Seconds that one rank worked during some steps. step: duration of these steps, including time spent waiting"""

    data: float
    forward: float
    step: float


class StragglerDetector:
    """Finds stragglers in the work times of all ranks. names: display names of all ranks, in rank order"""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self._reported: dict[tuple[int, str], float] = {}  # (rank, phase) -> time of the report, in monotonic seconds
        self._steps, self._sums = 0, [WorkTimes(0.0, 0.0, 0.0)] * len(names)

    def describe_straggler(self, steps: int, work: Sequence[WorkTimes]) -> str:
        """Return a line about a straggler, or "". work: the ranks' work times during the last `steps` steps"""
        self._steps += steps
        self._sums = [WorkTimes(*map(sum, zip(*pair, strict=True))) for pair in zip(self._sums, work, strict=True)]
        if self._steps < STEPS:
            return ""
        num, straggler = self._steps, find_straggler(self._sums, LEAST_S * self._steps)
        self._steps, self._sums = 0, [WorkTimes(0.0, 0.0, 0.0)] * len(self._names)
        if straggler is None:
            return ""
        rank, phase, rank_s, median_s = straggler
        now = time.monotonic()
        if now - self._reported.get((rank, phase), -QUIET_S) < QUIET_S:
            return ""
        self._reported[rank, phase] = now
        times = f"{rank_s / num:.3f} s per step, median {median_s / num:.3f} s, over {num} steps"
        return f"straggler: {self._names[rank]}: {phase} takes {times}"


def find_straggler(work: Sequence[WorkTimes], least_s: float) -> tuple[int, str, float, float] | None:
    """Return (rank, phase, its seconds, median seconds) of the straggler, if any. least_s: minimum delay in seconds"""
    totals = [times.data + times.forward for times in work]
    median_s, rank_s = median_low(totals), max(totals)
    rank = totals.index(rank_s)
    slowest = work[rank]
    if rank_s <= TIMES * median_s or rank_s - median_s <= max(SHARE * slowest.step, least_s):
        return None
    median_data, median_forward = (median_low(times[column] for times in work) for column in (0, 1))
    if slowest.data - median_data >= slowest.forward - median_forward:
        return rank, "data", slowest.data, median_data
    return rank, "forward", slowest.forward, median_forward


class GpuTimer:
    """Context manager that adds up the GPU time of the blocks that it wraps. It does nothing on a CPU."""

    def __init__(self, device: torch.device) -> None:
        self._is_gpu = device.type == "cuda"
        self._events: list[torch.cuda.Event] = []  # begin, end, begin, end, ...

    def __enter__(self) -> None:
        self._record_event()

    def __exit__(self, *_: object) -> None:
        self._record_event()

    def _record_event(self) -> None:
        if self._is_gpu:
            self._events.append(torch.cuda.Event(enable_timing=True))  # type: ignore[no-untyped-call]
            self._events[-1].record()

    def total_seconds(self) -> float | None:
        """Return the total time. Call this after reading the loss: by then, the GPU has completed these events."""
        if not self._is_gpu:
            return None
        pairs = zip(self._events[::2], self._events[1::2], strict=True)
        return float(sum(begin.elapsed_time(end) for begin, end in pairs)) / 1000
