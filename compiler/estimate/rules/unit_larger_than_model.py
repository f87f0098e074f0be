"""JC2129: the largest unit has more parameters than the model."""

from __future__ import annotations

from collections.abc import Iterator

from ...diagnostics.diagnostic import Diagnostic
from ...plan.launch_plan import LaunchPlan
from ...spec.job_spec import JobSpec
from ..figures import Figures
from ..limits import SizeFinding


def check(figures: Figures, spec: JobSpec, plan: LaunchPlan) -> Iterator[SizeFinding]:
    unit, parameters = spec.estimate.largest_unit, spec.estimate.parameters
    if unit is None or parameters is None or unit <= (n := round(parameters)):
        return
    title = f"estimate.largest_unit={unit:,} is larger than the model, {n:,} parameters"
    because = "the largest unit is a part of the model (estimate.parameters)"
    key = "estimate.largest_unit"
    yield SizeFinding(
        Diagnostic("JC2129", title, because, f"{key}={n}, if the whole model is gathered at once", key=key), unit / n
    )
