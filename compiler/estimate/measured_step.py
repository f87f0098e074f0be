"""Read the step time of an existing run (the median over its metrics), and its samples per rank."""

import statistics
from collections import Counter
from pathlib import Path

from ...runtime.system.frozen_dataclass import dataclass
from ...trainer.loop.metrics import read_metrics
from ..untrusted_files import Unreadable, read_json
from .step_time import samples_per_rank_and_step

WARM_UP = 3  # steps skipped as warm-up, if the run has more
LONGEST_S = 1e7
MOST_SAMPLES = 10**9


@dataclass(frozen=True)
class MeasuredStep:
    """A measured step.

    step_s: median number of seconds per step.
    samples_of_rank: samples per rank and step, None without train.json.
    """

    step_s: float
    samples_of_rank: int | None


def read_step_time(run: Path) -> MeasuredStep | None:
    """Return the step time from rank 0's metrics, None if they contain no step. Raises Unreadable.

    If the run has several attempts, perhaps with different world sizes, the one with the most steps is used.
    """
    steps = {}
    for line in read_metrics(run / "metrics" / "rank_00.jsonl"):
        if "loss" in line and (step_s := _seconds(line.get("step_s"))):
            steps[str(line.get("step"))] = str(line.get("attempt", 0)), step_s  # the last one counts if it repeats
    if not steps:
        return None
    ((attempt, _),) = Counter(attempt for attempt, _ in steps.values()).most_common(1)
    times = [step_s for of_attempt, step_s in steps.values() if of_attempt == attempt]
    return MeasuredStep(statistics.median(times[WARM_UP:] or times), _samples(run, attempt))


def _seconds(value: object) -> float | None:
    """Return the time in seconds. Return None if it is invalid, because the line may have been edited or written by
    another program.
    """
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    return float(value) if 0 < value <= LONGEST_S else None


def _samples(run: Path, attempt: str) -> int | None:
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
