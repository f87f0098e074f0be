"""JC2130: a program of the user's own, of which nobody says what its time or its steps would be reckoned from."""

from __future__ import annotations

from collections.abc import Iterator

from ...diagnostics.diagnostic import Diagnostic, Severity
from ...plan.launch_plan import LaunchPlan
from ...spec.job_spec import JobSpec
from ..figures import Figures
from ..limits import Finding


def check(figures: Figures, spec: JobSpec, plan: LaunchPlan) -> Iterator[Finding]:
    steps, lacking = figures.schedule, dict[str, str]()
    if figures.step_s and steps.steps is steps.epochs is None:
        lacking["how long it trains"] = "loop.steps=1000" + " loop.epochs=null" * (spec.loop.epochs is not None)
    if steps.epoch_samples and steps.global_batch is None:
        lacking["the samples of a step"] = "batch.micro=16"
    if lacking and not plan.uses_trainer:
        title = f"nobody says of your own program {' and '.join(lacking)}"
        because = "what is unsaid is not known of it, for the defaults are those of the trainer that comes with jobc"
        hint = f"{' '.join(lacking.values())}, with the numbers of your program, for jobc plan"
        yield Finding(Diagnostic("JC2130", title, because, hint, key="command", severity=Severity.NOTE), 1)
