"""What the rules on storage.run=shared share: who has to see the runs, and on what they are."""

from __future__ import annotations

from ....compiler.plan.launch_plan import LaunchPlan, Mount
from ..options import SkypilotOptions


def must_be_shared(plan: LaunchPlan, options: SkypilotOptions) -> bool:
    """By nodes, or by the machines on which a managed job goes on."""
    return plan.run.storage == "shared" and (plan.topology.nodes > 1 or options.managed)


def is_of_site(plan: LaunchPlan, options: SkypilotOptions) -> bool:
    """A file system of a Slurm site."""
    return options.cloud == "slurm" and plan.run.root.startswith("/")


def lasting_mounts(plan: LaunchPlan) -> list[Mount]:
    """That the runs are on."""
    return [
        mount
        for mount in plan.mounts
        if mount.kind in ("volume", "host") and not mount.read_only and _below(plan.run.root, mount.target)
    ]


def _below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")
