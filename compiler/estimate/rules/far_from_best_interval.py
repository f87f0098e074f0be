"""JC2122: checkpoints are saved far too often or too rarely.

Source Daly, A higher order estimate of the optimum checkpoint interval for restart dumps, 2006
"""

from __future__ import annotations

from collections.abc import Iterator

from ...plan.launch_plan import LaunchPlan
from ...spec.job_spec import JobSpec
from ..figures import Figures
from ..limits import Finding, warning

_FAR = 3  # times as often, or as rarely


def check(figures: Figures, spec: JobSpec, plan: LaunchPlan) -> Iterator[Finding]:
    if not figures.goodput or not figures.goodput.interval_s or not figures.step_s:
        return
    configured, best = spec.checkpoint.every_steps, max(round(figures.goodput.best_interval_s / figures.step_s), 1)
    last = figures.schedule.steps or max(configured, best)  # the end of training, which is always saved
    every, best = min(configured, last), min(best, last)
    if every > _FAR * best or best > _FAR * every:
        title = f"checkpoint.every_steps={configured} is far from the best"
        because = f"at these failure rates and save times, saving every {best:,} steps loses the least time (Daly 2006)"
        by = max(every / best, best / every)
        yield warning("JC2122", title, because, f"checkpoint.every_steps={best}", "checkpoint.every_steps", by)
