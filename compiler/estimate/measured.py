"""How long a step took in a run that there is: the median over its metrics, and how many samples a rank had in it."""

from __future__ import annotations

import json
import statistics
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from ...trainer.metrics import training_steps
from .pace import samples_of_rank

WARM_UP = 3  # steps that are left out, if there are more


@dataclass(frozen=True)
class Measured:
    """step_s: median seconds of a step; samples_of_rank: in it, None when the run folder has no train.json."""

    step_s: float
    samples_of_rank: int | None


def measured(run: Path) -> Measured | None:
    """What rank 0 of a run folder wrote; None without a step in it. Raises OSError when it cannot be read.

    Of several attempts, which may have had other numbers of ranks, the one with the most steps counts.
    """
    found = list(training_steps(run / "metrics" / "rank_00.jsonl").values())
    if not found:
        return None
    ((attempt, _),) = Counter(str(step.get("attempt", 0)) for step in found).most_common(1)
    steps = [step for step in found if str(step.get("attempt", 0)) == attempt]
    times = [float(str(step["step_s"])) for step in steps[WARM_UP:] or steps]
    return Measured(statistics.median(times), _samples(run / "artifact" / attempt / "train.json"))


def _samples(file: Path) -> int | None:
    try:
        return samples_of_rank(json.loads(file.read_text(encoding="utf-8"))) or None
    except (OSError, ValueError, TypeError, KeyError):
        return None
