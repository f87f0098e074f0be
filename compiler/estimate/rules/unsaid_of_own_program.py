"""JC2130: keys that time or step estimates need are not set for a user's own program."""

from __future__ import annotations

from collections.abc import Iterator

from ...diagnostics.diagnostic import Diagnostic, Severity
from ...plan.launch_plan import LaunchPlan
from ...spec.job_spec import JobSpec
from ..figures import Figures
from ..limits import SizeFinding


def check(figures: Figures, spec: JobSpec, plan: LaunchPlan) -> Iterator[SizeFinding]:
    steps, lacking = figures.schedule, dict[str, str]()
    if figures.step_s and steps.steps is steps.epochs is None:
        lacking["the training length"] = "loop.steps=1000" + " loop.epochs=null" * (spec.loop.epochs is not None)
    if steps.epoch_samples and steps.global_batch is None:
        lacking["the global batch"] = "batch.micro=16"
    if lacking and not plan.uses_trainer:
        title = f"jobc plan does not know {' and '.join(lacking)} of your program"
        because = "the defaults describe jobc's own trainer, not your program"
        hint = f"{' '.join(lacking.values())}, with your program's values"
        yield SizeFinding(Diagnostic("JC2130", title, because, hint, key="command", severity=Severity.NOTE), 1)
