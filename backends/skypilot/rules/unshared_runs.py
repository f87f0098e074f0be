"""JC4706: runs that are not on storage shared by the nodes."""

from __future__ import annotations

from collections.abc import Iterator

from ....compiler.diagnostics.diagnostic import Diagnostic
from ....compiler.plan.launch_plan import LaunchPlan
from ..options import SkypilotOptions
from ._runs import is_of_site, lasting_mounts, must_be_shared


def check(plan: LaunchPlan, options: SkypilotOptions) -> Iterator[Diagnostic]:
    root = plan.run.root
    if not must_be_shared(plan, options) or lasting_mounts(plan) or is_of_site(plan, options):
        return
    if options.cloud == "slurm":
        because = f"storage.root={root} is relative to the home folder, which is deleted with the cluster"
        hint = "storage.root=/shared/runs, on storage that all nodes share"
    else:
        because = f"storage.root={root} is not on a volume, so each machine would have its own"
        hint = "'mounts=[{kind: volume, source: NAME, target: /shared, read_only: false}]' storage.root=/shared/runs"
        hint += "" if options.managed else ", or storage.run=node"
    yield Diagnostic("JC4706", "storage.root is not on shared storage", because, hint, key="storage.root")
