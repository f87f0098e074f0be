"""JC4102: lifecycle.keep is ignored for a TrainJob.

Source: Trainer 2.3: a TrainJob has no ttlSecondsAfterFinished; if its JobSet had one, the TrainJob would still remain.
"""

from __future__ import annotations

from collections.abc import Iterator

from ....compiler.diagnostics.diagnostic import Diagnostic, Severity
from ....compiler.plan.launch_plan import LaunchPlan
from ..options import KubernetesOptions


def check(plan: LaunchPlan, options: KubernetesOptions) -> Iterator[Diagnostic]:
    if options.flavor == "trainjob" and plan.lifecycle.keep_s is not None:
        because = "a TrainJob stays until it is deleted, for example by `jobctl submit --replace`"
        hint = "backend.flavor=jobset, or lifecycle.keep=null"
        title = "backend.flavor=trainjob ignores lifecycle.keep"
        yield Diagnostic("JC4102", title, because, hint, key="lifecycle.keep", severity=Severity.NOTE)
