"""Comments in task.sky.yaml, for users who edit it by hand."""

from collections.abc import Mapping
from typing import Any

from ...compiler.emit.render import Leaf
from . import task

USAGE = """\
task.sky.yaml: job {name} on SkyPilot; `run` starts once on each node.
usage: {verb} task.sky.yaml{secrets}     in this folder, or in the one that contains artifacts/
Checked with the schema of SkyPilot 0.14.1; `./jobctl preflight --queue-only` also checks prices, clusters and files."""
COLLECTION = """
Only jobctl submit exports SKYPILOT_DISABLE_USAGE_COLLECTION=1, which stops usage reports to SkyPilot's developers."""


def usage_comment(v: Any) -> str:
    secrets = "".join(f" --secret {name}" for name in task.secret_variables(v.plan))
    text = USAGE.format(name=v.plan.name, verb=task.sky_verb(v.options), secrets=secrets)
    return text if v.options.usage_collection else text + COLLECTION


def idle_cluster_comment(v: Any) -> str:
    ends = "deleted" if v.options.down else "stopped, and their disks still cost money"
    return f"after this idle time the machines are {ends}" if task.autostop(v) else ""


def restart_comment(v: Any) -> str:
    most = v.plan.lifecycle.max_requeues
    text = f"exit codes that restart the job: 69 (lost a peer), 75 (saved and stopped early); restart limit: {most}"
    return text if v.options.managed else ""


# place in the task -> comment above it
NOTES: Mapping[tuple[str | int, ...], str | Leaf] = {
    (0, "name"): usage_comment,
    (0, "resources", "autostop"): idle_cluster_comment,
    (0, "resources", "job_recovery"): restart_comment,
    (
        0,
        "envs",
    ): "jobctl submit fills in the empty values; JOBC_PLAN is the digest by which `run` finds this job's files",
}
