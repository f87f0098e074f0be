"""JC4724: runs on the disks of machines that are deleted when the cluster is idle. This is a warning."""

from __future__ import annotations

from collections.abc import Iterator

from ....compiler.diagnostics.diagnostic import Diagnostic, Severity
from ....compiler.plan.launch_plan import LaunchPlan
from ..options import SkypilotOptions
from ._runs import lasting_mounts


def check(plan: LaunchPlan, options: SkypilotOptions) -> Iterator[Diagnostic]:
    if options.autostop is None or not options.down or options.cloud in ("slurm", "ssh"):
        return
    if plan.run.storage == "object" or options.managed or lasting_mounts(plan):
        return
    because = (
        f"the runs are on the machines' own disks, and {options.autostop // 60} min after the job the machines and"
        " their disks are deleted (backend.autostop, backend.down)"
    )
    keep = "backend.autostop=null" if options.cloud == "kubernetes" else "backend.down=false"  # pods do not stop
    hint = f"{keep}; or storage.run=object storage.root=s3://my-bucket/runs"
    title = "the checkpoints are deleted with the machines"
    yield Diagnostic("JC4724", title, because, hint, key="backend.autostop", severity=Severity.WARNING)
