"""Helpers of the rules on storage.run=shared: which machines must see the runs, and which mounts hold them."""

from __future__ import annotations

from ....compiler.plan.launch_plan import LaunchPlan, Mount
from ..options import SkypilotOptions


def must_be_shared(plan: LaunchPlan, options: SkypilotOptions) -> bool:
    """Return whether several nodes, or later machines of a managed job, must see the runs."""
    return plan.run.storage == "shared" and (plan.topology.nodes > 1 or options.managed)


def is_of_site(plan: LaunchPlan, options: SkypilotOptions) -> bool:
    """Return whether the runs are on the file system of a Slurm site."""
    return options.cloud == "slurm" and plan.run.root.startswith("/")


def lasting_mounts(plan: LaunchPlan) -> list[Mount]:
    """Return the persistent mounts that hold the runs."""
    return [
        mount
        for mount in plan.mounts
        if mount.kind in ("volume", "host") and not mount.read_only and _below(plan.run.root, mount.target)
    ]


def _below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")
