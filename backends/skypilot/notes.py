"""Comments in task.sky.yaml, for who must edit it by hand."""

from __future__ import annotations

from ...compiler.plan import LaunchPlan
from . import task
from .options import SkypilotOptions

USAGE = """\
task.sky.yaml: job {name} on SkyPilot; `run` is started once on each node.
usage: {verb} task.sky.yaml{secrets}     in this folder, or in the one that holds artifacts/
Fits the schema of SkyPilot 0.14.1. Prices, clusters, contexts, partitions and files here are known to
SkyPilot alone: ./preflight.sh --queue-only asks it."""


def notes(plan: LaunchPlan, options: SkypilotOptions) -> dict[tuple[str | int, ...], str]:
    """Place in the task -> comment above it."""
    secrets = "".join(f" --secret {name}" for name in task.secret_variables(plan))
    most = plan.lifecycle.max_requeues
    ends = "deleted" if options.down else "stopped, and their disks go on costing money"
    return {
        (0, "name"): USAGE.format(name=plan.name, verb=task.verb(options), secrets=secrets),
        (0, "resources", "autostop"): f"after so long without a job the machines are {ends}",
        (
            0,
            "resources",
            "job_recovery",
        ): f"69: a peer was lost, 75: saved and ended early; task.sh ends it after {most}",
        (0, "envs"): "submit.sh fills those that are empty; by hand they stay so",
    }
