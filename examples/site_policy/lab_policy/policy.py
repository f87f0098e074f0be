"""The lab's limits, and one rule of its own (LAB01). Every compile checks them, as does `jobc check`.

In   a job's spec and plan
Out  diagnostics; `# jobc: allow NAME because …` can suppress a warning, but not an error
"""

from __future__ import annotations

from collections.abc import Iterator

from jobc.compiler.checks.site_policy import Policy
from jobc.compiler.diagnostics.diagnostic import Diagnostic, Severity
from jobc.compiler.plan.launch_plan import LaunchPlan
from jobc.compiler.spec.job_spec import JobSpec


def large_jobs_save_often(spec: JobSpec, plan: LaunchPlan) -> Iterator[Diagnostic]:
    """LAB01: a large job that rarely saves checkpoints."""
    every = spec.checkpoint.every_steps or 0  # epochs, if set, are not checked
    if plan.uses_trainer and plan.topology.nodes >= 8 and every > 1000:
        title = f"{plan.topology.nodes} nodes with a checkpoint only every {every} steps"
        because = "one of eight nodes fails about once a week, and all steps since the last checkpoint are lost"
        hint, key = "checkpoint.every_steps=500", "checkpoint.every_steps"
        yield Diagnostic("LAB01", title, because, hint, key=key, severity=Severity.WARNING)


POLICY = Policy(
    "lab",
    images=("registry.lab.example/*", "pytorch/pytorch:*"),
    most_time_s=24 * 3600,
    labels=("team",),
    rules=(large_jobs_save_often,),
)
