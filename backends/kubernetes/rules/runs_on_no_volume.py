"""JC4502: runs that are not on a volume shared by all pods: an error with storage.run=shared, otherwise a warning."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath

from ....compiler.diagnostics.diagnostic import Diagnostic, Severity
from ....compiler.plan.launch_plan import LaunchPlan
from ..options import KubernetesOptions


def check(plan: LaunchPlan, options: KubernetesOptions) -> Iterator[Diagnostic]:
    if plan.run.storage == "object":
        return
    root = plan.run.root
    lasting = [mount for mount in plan.mounts if mount.kind != "empty" and not mount.read_only]
    is_kept = any(_below(root, mount.target) for mount in lasting)
    if lasting:
        hint = f"storage.root={lasting[0].target.rstrip('/')}/runs"
    else:
        mount = "'mounts=[{kind: claim, source: CLAIM, target: /shared, read_only: false}]'"
        hint = f"{mount} storage.root=/shared/runs"
    if plan.run.storage == "node":
        because = (
            "each pod has its own run folder: checkpoints cannot be resumed, a failed job is not"
            " restarted, and only kubectl logs shows its output"
        )
        if is_kept:
            hint = "storage.run=shared"
        title = "the runs are deleted with their pods"
        yield Diagnostic("JC4502", title, because, hint, key="storage.root", severity=Severity.WARNING)
    elif not is_kept:
        because = (
            f"storage.root={root} is in the pod's own file system and is deleted with it: no persistent mount covers it"
        )
        yield Diagnostic("JC4502", "storage.root is not on a volume", because, hint, key="storage.root")


def _below(path: str, folder: str) -> bool:
    return path.startswith("/") and PurePosixPath(path).is_relative_to(PurePosixPath(folder))
