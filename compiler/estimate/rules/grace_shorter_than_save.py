"""JC2121: a step and a checkpoint take longer than the grace period."""

from __future__ import annotations

import math
from collections.abc import Iterator

from ...plan.launch_plan import LaunchPlan
from ...spec.job_spec import JobSpec
from ...spec.value_types import format_duration
from ..figures import Figures, size_text
from ..limits import SizeFinding, make_warning

_AROUND_S = 120  # more than engines add to the grace period: 10 s to exit, and Slurm's signal up to 60 s early (JC4305)


def check(figures: Figures, spec: JobSpec, plan: LaunchPlan) -> Iterator[SizeFinding]:
    grace, step_s = spec.lifecycle.grace, figures.step_s or 0
    size = figures.memory.checkpoint if figures.memory else None
    if size is not None and figures.write_s is not None and (needed_s := figures.write_s + step_s) > grace:
        title = f"saving a checkpoint takes longer than the grace period of {format_duration(grace)}"
        after = f", after a step of {step_s:.3g} s" if step_s else ""
        because = f"writing {size_text(size)} takes about {figures.write_s:.0f} s{after}"
        longer, limit = 2 * math.ceil(needed_s) + 10, plan.lifecycle.time_limit_s
        hint = f"lifecycle.grace={format_duration(longer)}"
        if 0 < limit <= longer + _AROUND_S:
            hint += f" time={format_duration(60 * math.ceil((limit + longer) / 60))}"
        yield make_warning("JC2121", title, because, hint, "lifecycle.grace", needed_s)
