"""JC2123: the training is not done within its time limit."""

from __future__ import annotations

import math
from collections.abc import Iterator

from ...plan import LaunchPlan
from ...spec import JobSpec
from ...values import show_duration
from ..figures import Figures
from ..limits import Finding, warning


def check(figures: Figures, spec: JobSpec, plan: LaunchPlan) -> Iterator[Finding]:
    limit, takes_s, attempts = spec.time, figures.wall_s or figures.total_s, figures.attempts
    if limit and takes_s and takes_s > limit * attempts:
        title = f"not done within time={show_duration(limit)}"
        hint = f"time={show_duration(60 * math.ceil(takes_s / 60))}"
        again = "the engine does not start it again"
        if attempts > 1:
            hint = f"lifecycle.max_requeues={math.ceil(takes_s / limit) - 1}"
            again = f"the job is started again at most {attempts - 1} times"
        because = f"training takes about {show_duration(round(takes_s))}, and {again}"
        yield warning("JC2123", title, because, hint, "time", takes_s / limit)
