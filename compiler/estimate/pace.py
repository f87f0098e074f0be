"""Estimate the step time at each size, assuming constant time per sample on each rank.

Its samples of a step are batch.micro x batch.accumulation, so half the passes take half the time. That holds for data
parallelism as long as the network keeps up, and a forward pass of another micro batch takes its share.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Pace:
    """Seconds of a step in which a rank has so many samples."""

    step_s: float
    samples_of_rank: int

    def at(self, train: Mapping[str, Any]) -> float:
        """Seconds of a step of a train.json."""
        return self.step_s * samples_of_rank(train) / self.samples_of_rank


def samples_of_rank(train: Mapping[str, Any]) -> int:
    """Return the samples per rank and step."""
    return int(train["batch"]["micro"] * train["batch"]["accumulation"])
