"""JC2122: checkpoints are saved far too often or too rarely.

Source: Daly, A higher order estimate of the optimum checkpoint interval for restart dumps, 2006.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...plan.launch_plan import LaunchPlan
from ...spec.job_spec import JobSpec
from ..figures import Figures
from ..limits import SizeFinding, make_warning

_FAR = 3  # times too often, or too rarely


def check(figures: Figures, spec: JobSpec, plan: LaunchPlan) -> Iterator[SizeFinding]:
    of_epoch = figures.schedule.steps_of_epoch
    configured = spec.checkpoint.interval(of_epoch)
    if not figures.goodput or not figures.goodput.interval_s or not figures.step_s or not configured:
        return
    best = max(round(figures.goodput.best_interval_s / figures.step_s), 1)
    last = figures.schedule.steps or max(configured, best)  # a save at the end of training happens in any case
    every, best = min(configured, last), min(best, last)
    if every > _FAR * best or best > _FAR * every:
        key = "checkpoint.every_epochs" if spec.checkpoint.every_epochs else "checkpoint.every_steps"
        title = f"{key}={spec.checkpoint.every_epochs or configured} is far from optimal"
        because = f"at these failure rates and save times, saving every {best:,} steps loses the least time (Daly 2006)"
        by = max(every / best, best / every)
        yield make_warning("JC2122", title, because, _hint(spec, best, of_epoch), key, by)


def _hint(spec: JobSpec, best: int, of_epoch: int | None) -> str:
    """Return the best interval in the job's unit, or in steps if even one epoch is much longer."""
    if not spec.checkpoint.every_epochs or not of_epoch:
        return f"checkpoint.every_steps={best}"
    if of_epoch > _FAR * best:
        return f"checkpoint.every_steps={best} checkpoint.every_epochs=null"
    return f"checkpoint.every_epochs={max(round(best / of_epoch), 1)}"
