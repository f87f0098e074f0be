"""JC4522: fields that Kubernetes has, that no key of the job says, and that would break what the scripts promise.

In   the tree of `backend.extra`
Out  a Diagnostic for each: a warning where the job still runs as promised and other processes of the node may suffer
What a key of the job says is in extra.protected (JC4600).
Source: Kubernetes 1.37 API reference, PodSpec and JobSpec; "Share process namespace between containers in a Pod".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from ...compiler.check import is_derived
from ...compiler.diagnostics import Diagnostic, Severity
from ...compiler.extra import Path

KEY = ("backend", "extra")


class Promise(NamedTuple):
    """paths: in the documents; breaks: whether a value does. hint: in place of it"""

    paths: tuple[Path, ...]
    because: str
    hint: str
    breaks: Callable[[Any], bool] = bool
    severity: Severity = Severity.ERROR


_RUNTIME = ("TrainingRuntime", "spec", "template", "spec")
_REPLICATED = ("replicatedJobs", "node", "template", "spec")
PROMISES = (
    Promise(
        (("Pod", "spec", "hostPID"),),
        "stop.sh and the kubelet signal process 1 of the pod, which would be the first process of the machine",
        "`kubectl debug node/NODE -it --image=IMAGE` sees the processes of a node",
    ),
    Promise(
        (("Pod", "spec", "shareProcessNamespace"),),
        "stop.sh signals process 1 of the pod, which would be the pause container, and the ranks would not save",
        "`kubectl debug POD -it --target=node --image=IMAGE` sees the processes of the job",
    ),
    Promise(
        (("Pod", "spec", "nodeName"),),
        "every pod would be put on that node, past the scheduler, which alone knows whether its GPUs are free",
        "hosts=node1, as many as there are nodes",
    ),
    Promise(
        (("Pod", "spec", "activeDeadlineSeconds"),),
        "it ends a pod without asking the ranks to save, and counts from the start of the pod, not of the ranks",
        "time=2h, of each attempt; backend.deadline=1d, of the whole job",
    ),
    Promise(
        tuple(
            (*above, "suspend")
            for above in (
                ("Job", "spec"),
                ("JobSet", "spec"),
                ("JobSet", "spec", *_REPLICATED),
                _RUNTIME,
                (*_RUNTIME, *_REPLICATED),
                ("TrainJob", "spec"),
            )
        ),
        "no pod would start, and submit.sh waits for them; Kueue suspends and starts a job by itself",
        "queue.name=team, a LocalQueue of Kueue",
    ),
    Promise(
        (("Pod", "spec", "dnsPolicy"),),
        "the pods find node 0 by the names of the cluster, which the node's own resolver does not know",
        "backend.extra.Pod.spec.dnsConfig.searches=[example.org], beside the cluster's names",
        lambda value: value == "Default",
    ),
    Promise(
        (("Pod", "spec", "hostIPC"),),
        "the ranks share System V memory, semaphores and queues with all other processes of the node",
        "shm=16GiB, which is the pod's own /dev/shm",
        severity=Severity.WARNING,
    ),
)


def check(extra: Mapping[str, Any], variables: Iterable[str]) -> Iterator[Diagnostic]:
    """variables: names that are added to those of the node's container"""
    for promise in PROMISES:
        for path in promise.paths:
            value = _at(extra, path)
            if value is not None and promise.breaks(value):
                key = ".".join((*KEY, *path))
                verb = "would break the job" if promise.severity is Severity.ERROR else "opens the pod to its node"
                yield Diagnostic(
                    "JC4522", f"{key} {verb}", promise.because, promise.hint, key=key, severity=promise.severity
                )
    for name in variables:
        if is_derived(name):
            key = ".".join((*KEY, "Pod", "spec", "containers", "node", "env", name))
            because = "a value by hand would contradict the launcher's"
            yield Diagnostic("JC2006", f"{key} is derived, never typed", because, f"leave out {key}", key=key)


def _at(tree: Any, path: Path) -> Any:
    for name in path:
        tree = tree.get(name) if isinstance(tree, Mapping) else None
    return tree
