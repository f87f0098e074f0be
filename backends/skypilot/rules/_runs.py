"""Helpers for the rules on storage.run=shared: which machines need access to the runs, and which mounts hold them."""

from __future__ import annotations

from ....compiler.plan.launch_plan import LaunchPlan, Mount
from ..options import SkypilotOptions


def must_be_shared(plan: LaunchPlan, options: SkypilotOptions) -> bool:
    """Return whether several nodes, or a managed job's later machines, must have access to the runs."""
    return plan.run.storage == "shared" and (plan.topology.nodes > 1 or options.managed)


def is_of_site(plan: LaunchPlan, options: SkypilotOptions) -> bool:
    """Return whether the runs are on a Slurm site's file system."""
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
