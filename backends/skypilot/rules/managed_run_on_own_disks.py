"""JC4707: a run on the nodes' own disks, although a managed job resumes on other machines."""

from __future__ import annotations

from collections.abc import Iterator

from ....compiler.diagnostics.diagnostic import Diagnostic
from ....compiler.plan.launch_plan import LaunchPlan
from ..options import SkypilotOptions


def check(plan: LaunchPlan, options: SkypilotOptions) -> Iterator[Diagnostic]:
    if plan.run.storage == "node" and options.managed:
        because = "a managed job resumes on new machines, which must be able to read its checkpoints"
        hint = "storage.run=object storage.root=s3://my-bucket/runs, or backend.managed=false"
        yield Diagnostic(
            "JC4707",
            "backend.managed=true does not work with runs on the nodes' own disks",
            because,
            hint,
            key="storage.run",
        )
