"""Comments in job.yaml, for users who edit the file. They explain what a line means and which job key sets it."""

from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

from ...compiler.api import LaunchPlan, Leaf
from .names import object_name
from .options import KubernetesOptions
from .pod import CONTAINER

At = tuple[str | int, ...]

USAGE = """\
job.yaml: job {name} on Kubernetes. Each pod runs launch.sh from the ConfigMap below.
usage: ./jobctl submit    runs checks, records the run, fills in jobc/owner and sends this file{code}
       {apply} -f job.yaml    sends only this file{lack}"""
CODE = " and your code (ConfigMap {name}-code)"
AGAIN = {
    "job": "total pod failures allowed, nodes x lifecycle.max_requeues: one lost rank fails the pods of all nodes",
    "jobset": "never restart a single pod: the failurePolicy restarts all pods, at most lifecycle.max_requeues times",
}
NODES = "number of nodes, also used by launch.sh and the ranks; to change it, compile again with `jobc nodes=N`"
RESTARTS = "exit codes that restart the pods: 69 (lost a peer), 75 (saved and stopped early); other codes end the job"
WITHOUT_VOLUME = "any failure ends the job, because a new pod would not have the run folder (storage.run=node)"
DEADLINE = "limit of each attempt, because a JobSet has none; the job ends when an attempt reaches it (failurePolicy)"
ON_NODES = "holds the run folders; all nodes must share this file system to find each other"


def comments_for_job_yaml(documents: list[Any], plan: LaunchPlan, options: KubernetesOptions) -> dict[At, str | Leaf]:
    again = AGAIN["job" if options.flavor == "job" else "jobset"]
    texts: dict[str | int, str | Leaf] = {
        "completions": NODES,
        "terminationGracePeriodSeconds": "time for the ranks to save (lifecycle.grace) plus some seconds to exit",
        "env": "jobctl submit adds the run's variables; those from the key `env` are in launch.sh",
        "podFailurePolicy": lambda v: "" if v.plan.run.storage == "node" else RESTARTS,
        "backoffLimit": lambda v: WITHOUT_VOLUME if v.plan.run.storage == "node" else again,
        **({"numNodes": NODES} if options.flavor == "trainjob" else {}),
        **({"activeDeadlineSeconds": DEADLINE} if options.flavor == "jobset" else {}),
    }
    on_nodes = _run_host_volumes(plan)
    comments: dict[At, str | Leaf] = {(0, next(iter(documents[0]))): _usage_comment}
    for i, document in enumerate(documents):
        for path, holder in _paths_of_keys(document, (i,)):
            if path[-1] in texts and (path[-1] != "env" or holder.get("name") == CONTAINER):
                comments[path] = texts[path[-1]]
            if path[-1] == "hostPath" and str(holder.get("name")) in on_nodes:
                comments[path] = ON_NODES
    return comments


def _usage_comment(v: Any) -> str:
    """Return the comment at the top. With the bundled trainer, job.yaml is too large for a plain `kubectl apply`."""
    apply = f"kubectl apply{' --server-side' if v.plan.uses_trainer else ''}"
    code = CODE.format(name=object_name(v)) if v.plan.code.kind == "snapshot" else ""
    return USAGE.format(name=v.plan.name, apply=apply, code=code, lack=", so the pods lack your code" if code else "")


def _run_host_volumes(plan: LaunchPlan) -> set[str]:
    """Return the names of the host folder volumes that hold the runs of a job with several nodes."""
    if plan.topology.nodes == 1 or plan.run.storage == "object":
        return set()
    folders = [(i, mount.target) for i, mount in enumerate(plan.mounts) if mount.kind == "host"]
    return {f"mount-{i}" for i, target in folders if PurePosixPath(plan.run.root).is_relative_to(target)}


def _paths_of_keys(tree: Any, prefix: At) -> Iterator[tuple[At, Mapping[str, Any]]]:
    if isinstance(tree, Mapping):
        for key, inner in tree.items():
            yield (*prefix, key), tree
            yield from _paths_of_keys(inner, (*prefix, key))
    elif isinstance(tree, (list, tuple)):
        for i, item in enumerate(tree):
            yield from _paths_of_keys(item, (*prefix, i))
