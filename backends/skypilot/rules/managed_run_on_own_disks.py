"""JC4707: a run that ends with its machines, though a managed job goes on elsewhere."""

from __future__ import annotations

from collections.abc import Iterator

from ....compiler.diagnostics.diagnostic import Diagnostic
from ....compiler.plan.launch_plan import LaunchPlan
from ..options import SkypilotOptions


def check(plan: LaunchPlan, options: SkypilotOptions) -> Iterator[Diagnostic]:
    if plan.run.storage == "node" and options.managed:
        because = "a managed job goes on elsewhere, on new machines, where its checkpoints must be"
        hint = "storage.run=object storage.root=s3://my-bucket/runs, or backend.managed=false"
        yield Diagnostic("JC4707", "a managed job with runs on the nodes' own disks", because, hint, key="storage.run")
