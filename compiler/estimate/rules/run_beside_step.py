"""JC2132: estimate.step_s overrides estimate.run."""

from __future__ import annotations

from collections.abc import Iterator

from ...diagnostics.diagnostic import Diagnostic, Severity
from ...plan.launch_plan import LaunchPlan
from ...spec.job_spec import JobSpec
from ..figures import Figures
from ..limits import SizeFinding


def check(figures: Figures, spec: JobSpec, plan: LaunchPlan) -> Iterator[SizeFinding]:
    run, step_s = spec.estimate.run, spec.estimate.step_s
    if run is not None and step_s is not None:
        title, because = (
            f"estimate.run={run} is ignored",
            f"estimate.step_s={step_s:g} sets the step time and overrides it",
        )
        hint = "estimate.run=null, or estimate.step_s=null to take the step time from the run"
        yield SizeFinding(Diagnostic("JC2132", title, because, hint, key="estimate.run", severity=Severity.NOTE), 1)
