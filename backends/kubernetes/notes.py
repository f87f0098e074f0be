"""Comments in job.yaml, for who must edit it by hand: what a line stands for, and which key of the job says it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

from ...compiler.emit.render import Leaf
from ...compiler.plan.launch_plan import LaunchPlan
from .options import KubernetesOptions
from .pod import CONTAINER

At = tuple[str | int, ...]

USAGE = """\
job.yaml: job {name} on Kubernetes; kustomization.yaml adds its scripts, as a ConfigMap.
usage: kubectl create -k .     in this folder, not apply; ./submit.sh looks first, and keeps a record of the run
The name ends with a digest of the plan, so that another plan has another name."""
AGAIN = {
    "job": "pods that may fail in all, nodes x lifecycle.max_requeues: one lost rank fails the pods of all nodes",
    "jobset": "none is started again alone: failurePolicy of the JobSet starts all, lifecycle.max_requeues times",
}
NODES = (
    "nodes of the job, on which task.sh and the ranks count too; for another number, `jobc nodes=N` writes all of it"
)
NOTES = {
    "completions": NODES,
    "podFailurePolicy": "69: a peer was lost, 75: saved and ended early; then pods start again. Others end the job",
    "podReplacementPolicy": "after a pod has ended; of a node without power only when the node's object is deleted",
    "terminationGracePeriodSeconds": "for the ranks to save (lifecycle.grace), and some seconds to end",
    "env": "submit.sh writes the first three; the job's own variables are in node.sh",
}

WITHOUT_VOLUME = {
    "backoffLimit": "no pod is started again: the run ends with its pods (storage.run=node)",
    "podFailurePolicy": "any failure ends the job, because a new pod would have no run folder to continue in",
}
DEADLINE = "of each attempt, for a JobSet has none of its own; one that reaches it is the last (failurePolicy)"

ON_NODES = "the runs: this folder has to be one file system on all nodes, or they do not find each other"


def notes(documents: list[Any], plan: LaunchPlan, options: KubernetesOptions) -> dict[At, str | Leaf]:
    """Place in job.yaml -> comment above it."""
    again = AGAIN["job" if options.flavor == "job" else "jobset"]
    texts = {**NOTES, "backoffLimit": again}
    if options.flavor == "trainjob":
        texts["numNodes"] = NODES
    if options.flavor == "jobset":
        texts["activeDeadlineSeconds"] = DEADLINE
    on_nodes = _runs_on_nodes(plan)
    comments: dict[At, str | Leaf] = {}
    for i, document in enumerate(documents):
        for path, holder in _keys(document, (i,)):
            if path[-1] in texts and (path[-1] != "env" or holder.get("name") == CONTAINER):
                comments[path] = _by_storage(str(path[-1]), texts[str(path[-1])])
            if path[-1] == "hostPath" and str(holder.get("name")) in on_nodes:
                comments[path] = ON_NODES
    return {(0, next(iter(documents[0]))): lambda v: USAGE.format(name=v.plan.name), **comments}


def _by_storage(key: str, text: str) -> str | Leaf:
    """Another text where the runs end with the pods."""
    if key not in WITHOUT_VOLUME:
        return text
    return lambda v: WITHOUT_VOLUME[key] if v.plan.run.storage == "node" else text


def _runs_on_nodes(plan: LaunchPlan) -> set[str]:
    """The volumes of folders of the nodes in which the runs of several nodes lie."""
    if plan.topology.nodes == 1 or plan.run.storage == "object":
        return set()
    folders = [(i, mount.target) for i, mount in enumerate(plan.mounts) if mount.kind == "host"]
    return {f"mount-{i}" for i, target in folders if PurePosixPath(plan.run.root).is_relative_to(target)}


def _keys(tree: Any, at: At) -> Iterator[tuple[At, Mapping[str, Any]]]:
    """Each key of each mapping, with that mapping."""
    if isinstance(tree, Mapping):
        for key, inner in tree.items():
            yield (*at, key), tree
            yield from _keys(inner, (*at, key))
    elif isinstance(tree, (list, tuple)):
        for i, item in enumerate(tree):
            yield from _keys(item, (*at, i))
