"""Estimate the step time at each size, assuming that a rank always takes the same time per sample.

A rank processes batch.micro x batch.accumulation samples per step, and the step time is proportional to that number.
This holds for data parallelism as long as the network keeps up and the time of a forward pass is proportional
to the micro-batch. The step time of an existing run is the median over its metrics.
"""

import statistics
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...runtime.system.frozen_dataclass import dataclass
from ...runtime.system.untrusted_files import Unreadable, read_json
from ...trainer.loop.metrics import read_metrics

WARM_UP = 3  # steps skipped as warm-up, if the run has more
LONGEST_S = 1e7
MOST_SAMPLES = 10**9


@dataclass(frozen=True)
class StepTimeEstimate:
    """Step time in seconds, for this number of samples per rank."""

    step_s: float
    samples_of_rank: int

    def scaled_step_s(self, train: Mapping[str, Any]) -> float:
        return self.step_s * samples_per_rank_and_step(train) / self.samples_of_rank


def samples_per_rank_and_step(train: Mapping[str, Any]) -> int:
    return int(train["batch"]["micro"] * train["batch"]["accumulation"])


def read_step_time(run: Path, samples: int) -> StepTimeEstimate | None:
    """Return the step time from rank 0's metrics, or None if they contain no steps. Raises Unreadable.

    If the run has several attempts, perhaps with different world sizes, the one with the most steps is used.
    samples: samples per rank and step of a run that does not record this number.
    """
    steps: dict[str, tuple[str, float]] = {}
    for line in read_metrics(run / "metrics" / "rank_00.jsonl"):
        step_s: Any = line.get("step_s")  # the line may have been edited or written by another program
        if "loss" in line and type(step_s) in (int, float) and 0 < step_s <= LONGEST_S:
            steps[str(line.get("step"))] = str(line.get("attempt", 0)), step_s  # the last line wins if a step repeats
    if not steps:
        return None
    ((attempt, _),) = Counter(attempt for attempt, _ in steps.values()).most_common(1)
    times = [step_s for of_attempt, step_s in steps.values() if of_attempt == attempt]
    return StepTimeEstimate(
        statistics.median(times[WARM_UP:] or times), _recorded_sample_count(run, attempt) or samples
    )


def _recorded_sample_count(run: Path, attempt: str) -> int | None:
    if not attempt.isdigit():
        return None
    try:
        batch = read_json(run / "artifact" / attempt / "train.json")["batch"]
        counts = batch["micro"], batch["accumulation"]
    except (Unreadable, TypeError, KeyError):
        return None
    if not all(isinstance(count, int) and 0 < count <= MOST_SAMPLES for count in counts):
        return None
    return samples_per_rank_and_step({"batch": batch})
