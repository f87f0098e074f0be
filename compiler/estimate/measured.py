"""How long a step took in a run that there is: the median over its metrics."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from pathlib import Path

from ...trainer.metrics import training_steps

WARM_UP = 3  # steps that are left out, if there are more


@dataclass(frozen=True)
class Measured:
    """step_s: median seconds of a step; steps: that were measured."""

    step_s: float
    steps: int
    world_size: int


def measured(run: Path) -> Measured | None:
    """What rank 0 of a run folder wrote; None without a step in it. Raises OSError when it cannot be read."""
    found = list(training_steps(run / "metrics" / "rank_00.jsonl").values())
    steps = found[WARM_UP:] or found
    if not steps:
        return None
    times = [float(str(step["step_s"])) for step in steps]
    return Measured(statistics.median(times), len(times), int(str(steps[-1]["world_size"])))
