"""JC4302: mem is ignored, because backend.mem_policy leaves memory to the site."""

from __future__ import annotations

from collections.abc import Iterator

from ....compiler.diagnostics.diagnostic import Diagnostic
from ....compiler.plan.launch_plan import LaunchPlan
from ..options import SlurmOptions


def check(plan: LaunchPlan, options: SlurmOptions) -> Iterator[Diagnostic]:
    if options.mem_policy != "given" and plan.resources.mem_bytes is not None:
        because = f"backend.mem_policy={options.mem_policy} uses the site's default memory"
        yield Diagnostic("JC4302", "mem has no effect", because, "mem=null, or backend.mem_policy=given", key="mem")
