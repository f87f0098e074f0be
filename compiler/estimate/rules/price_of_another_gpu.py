"""JC2127: prices are set, but not for the job's GPUs, so the cost cannot be estimated."""

import re
from collections.abc import Iterator

from ...diagnostics.diagnostic import Diagnostic, Severity
from ...plan.launch_plan import LaunchPlan
from ...spec.job_spec import JobSpec
from ..figures import ANY_GPU, Figures
from ..limits import SizeFinding


def check(figures: Figures, spec: JobSpec, plan: LaunchPlan) -> Iterator[SizeFinding]:
    prices, kind = spec.estimate.prices, spec.gpu_type
    if not prices or figures.gpu_hours is None or figures.cost is not None:
        return
    match = next((price for name, price in prices.items() if name.lower() == (kind or "").lower()), None)
    is_key = kind is not None and re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]*", kind)
    hint = f"estimate.prices.{kind if is_key else ANY_GPU}={next(iter(prices.values())) if match is None else match:g}"
    hint += ", with the price of one GPU hour" if match is None else ""
    title = f"no price for {kind}" if kind else "no price for a GPU of any type"
    because = f"estimate.prices has {', '.join(prices)}, so the cost cannot be estimated"
    yield SizeFinding(Diagnostic("JC2127", title, because, hint, key="estimate.prices", severity=Severity.NOTE), 1)
