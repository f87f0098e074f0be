"""Write a plan as `key = value` lines, one line per value, for `.jobc/job.json` and `jobc diff`.

The names contain the units: `grace_s`, `mem_bytes`.
"""

from typing import Any

from ..spec.value_types import fold_hostlist
from . import flat_lines
from .launch_plan import LaunchPlan


def plan_lines(plan: LaunchPlan, backend: str, options: Any) -> list[str]:
    """Return the plan as sorted lines. options: the backend's options, written below `backend`."""
    leaves = {
        **dict(flat_lines.flatten_to_leaves(plan, "")),
        **dict(flat_lines.flatten_to_leaves(options, "backend")),
        "backend.name": backend,
    }
    del leaves["topology.groups"]
    for number, group in enumerate(plan.topology.groups):
        key = "topology" if len(plan.topology.groups) == 1 else f"topology.groups.{number}"
        leaves |= dict(flat_lines.flatten_to_leaves(group, key))
    leaves |= {
        "topology.world_size": plan.topology.world_size,
        "resources.hosts": fold_hostlist(plan.resources.hosts),
    }
    return flat_lines.to_flat_lines(leaves)
