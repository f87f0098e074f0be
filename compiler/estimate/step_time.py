"""Estimate the step time at each size, assuming that a rank always takes the same time per sample.

A rank processes batch.micro x batch.accumulation samples per step, so half as many passes take half the time. This
holds for data parallelism as long as the network keeps up and the time of a forward pass is proportional to the
micro-batch.
"""

from collections.abc import Mapping
from typing import Any

from ...runtime.system.frozen_dataclass import dataclass


@dataclass(frozen=True)
class StepTimeEstimate:
    """Step time in seconds, for this number of samples per rank."""

    step_s: float
    samples_of_rank: int

    def at(self, train: Mapping[str, Any]) -> float:
        return self.step_s * samples_per_rank_and_step(train) / self.samples_of_rank


def samples_per_rank_and_step(train: Mapping[str, Any]) -> int:
    return int(train["batch"]["micro"] * train["batch"]["accumulation"])
