"""Fields that every job of jobc has as they are: what each must be, and what would happen else.

In   the documents of job.yaml and kustomization.yaml by their kind, and `Pod`: the template of the pods
Out  `FILE: what is wrong` for a field with another value, a name that is no name of the job, its containers or volumes,
     and what a user may not add either (JC4522)
Source  Kubernetes API reference 1.32 to 1.37; JobSet v1alpha2; Trainer v1alpha1; kustomize 5
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from ...compiler.diagnostics import Severity
from ...compiler.extra import Path
from .rules.extra.broken_promise import JOBS, PROMISES, RUNTIME, below, values_at

POD, BUNDLE = "Pod", "Kustomization"
NAME, NODES, UID = "<name>", "<nodes>", "<uid>"  # values that differ from job to job


class Fixed(NamedTuple):
    """paths: kind, then keys, and of a list the name of an item, `*` for any, or its index if items have no names.

    beside: a kind without which it is not there
    """

    paths: tuple[Path, ...]
    value: Any
    otherwise: str
    beside: str = ""


_SPEC = (POD, "spec")
_NODE = (*_SPEC, "containers", "node")
_ENV, _MOUNTS = (*_NODE, "env"), (*_NODE, "volumeMounts")
_JOB_SETS = (("JobSet", "spec"), RUNTIME)
_KINDS = (("Service",), ("Job",), ("JobSet",), ("TrainingRuntime",), ("TrainJob",))
_LABEL = "jobc/job"


def _all(prefixes: tuple[Path, ...], *rest: str) -> tuple[Path, ...]:
    return tuple((*prefix, *rest) for prefix in prefixes)


FIXED = (
    # ---- the pods
    Fixed(_all((_SPEC,), "restartPolicy"), "Never", "a rank would begin again in its pod, where no other waits for it"),
    Fixed(_all((_SPEC,), "enableServiceLinks"), False, "the ranks would get variables of all Services around"),
    Fixed(_all((_SPEC,), "volumes", "shm", "emptyDir", "medium"), "Memory", "/dev/shm would be a disk"),
    Fixed(_all((_MOUNTS,), "shm", "mountPath"), "/dev/shm", "data loaders and NCCL would have 64 MiB"),
    Fixed(_all((_MOUNTS,), "files", "mountPath"), "/jobc/files", "task.sh looks for its files there"),
    Fixed(_all((_MOUNTS,), "artifact", "mountPath"), "/jobc/artifact", "task.sh unpacks its files there"),
    Fixed(
        _all((_ENV,), "JOBC_NODE_RANK", "valueFrom", "fieldRef", "fieldPath"),
        "metadata.annotations['batch.kubernetes.io/job-completion-index']",
        "no pod would know which node it is",
    ),
    Fixed(
        _all((_ENV,), "JOBC_JOB_UID", "valueFrom", "fieldRef", "fieldPath"),
        UID,
        "a pod that is started again would not know its run",
    ),
    # ---- how they start and start again
    Fixed(_all(JOBS, "podReplacementPolicy"), "Failed", "a pod would start while the one before it still saves"),
    Fixed(_all(JOBS, "podFailurePolicy", "rules", "0", "action"), "Ignore", "an eviction would count as a failure"),
    Fixed(
        _all(JOBS, "podFailurePolicy", "rules", "0", "onPodConditions", "0"),
        {"type": "DisruptionTarget", "status": "True"},
        "an eviction would count as a failure",
    ),
    Fixed(_all(_JOB_SETS, "successPolicy", "operator"), "All", "it would be done before all its nodes are"),
    Fixed(_all(_JOB_SETS, "replicatedJobs", "node", "replicas"), 1, "each node would start several times"),
    Fixed(
        _all(_JOB_SETS, "failurePolicy", "rules", "final", "action"), "FailJobSet", "what is broken would start again"
    ),
    Fixed(
        _all(_JOB_SETS, "failurePolicy", "rules", "final", "onJobFailureReasons", "0"),
        "PodFailurePolicy",
        "what is broken would start again",
    ),
    Fixed(
        (("TrainingRuntime", "spec", "mlPolicy", "numNodes"), ("TrainJob", "spec", "trainer", "numNodes")),
        NODES,
        "Kubeflow Trainer would start another number of nodes",
    ),
    Fixed((("TrainJob", "spec", "runtimeRef", "kind"),), "TrainingRuntime", "there is no such runtime"),
    # ---- their names in the cluster's DNS
    Fixed((("Service", "spec", "clusterIP"),), "None", "pods would have no names"),
    Fixed(
        (
            ("Service", "spec", "publishNotReadyAddresses"),
            *below(_all(_JOB_SETS, "network"), "enableDNSHostnames", "publishNotReadyAddresses"),
        ),
        True,
        "node 0 would have no name until it is ready",
    ),
    # ---- one name for all objects
    Fixed(_all(_KINDS, "metadata", "name"), NAME, "the others know it by that name"),
    Fixed((("Service", "spec", "selector", _LABEL),), NAME, "the pods would have no names"),
    Fixed(((POD, "metadata", "labels", _LABEL),), NAME, "the scripts would not find the pods"),
    Fixed(_all((_ENV,), "JOBC_JOB_ID", "value"), NAME, "the run would be another job's"),
    Fixed((("TrainJob", "spec", "runtimeRef", "name"),), NAME, "there is no such runtime"),
    Fixed(_all((_SPEC,), "volumes", "files", "configMap", "name"), NAME, "the pods would wait for their files"),
    Fixed(((BUNDLE, "configMapGenerator", "*", "name"),), NAME, "the pods would wait for their files"),
    Fixed(((BUNDLE, "generatorOptions", "disableNameSuffixHash"),), True, "the pods would wait for their files"),
    Fixed(((BUNDLE, "generatorOptions", "labels", _LABEL),), NAME, "the scripts would not find the ConfigMap"),
    Fixed(((BUNDLE, "generatorOptions", "immutable"),), True, "a change of the files would reach pods that run"),
    Fixed(((BUNDLE, "apiVersion"),), "kustomize.config.k8s.io/v1beta1", "kubectl would not read it"),
    Fixed(((BUNDLE, "kind"),), "Kustomization", "kubectl would not read it"),
    Fixed(((BUNDLE, "resources", "0"),), "job.yaml", "kubectl would make no job"),
    Fixed(((BUNDLE, "sortOptions", "order"),), "fifo", "the TrainJob would come before its runtime", beside="TrainJob"),
)


def mistakes(trees: Mapping[str, Any], name: str, nodes: int) -> Iterator[str]:
    """trees: of by_name, by their kinds; name: of the object that starts the pods, and of all beside it"""
    yield from _other_values(trees, name, nodes)
    yield from _unresolved(trees)
    for promise in PROMISES:
        for path in promise.paths:
            for at, value in values_at(trees, path):
                if promise.severity is Severity.ERROR and value is not None and promise.breaks(value):
                    yield f"job.yaml: {'.'.join(at)} {promise.verb}: {promise.because}"


def by_name(tree: Any) -> Any:
    """With the items of lists by their names, or by their index."""
    if isinstance(tree, list):
        named = (isinstance(item, Mapping) and item.get("name") for item in tree)
        tree = {str(name or i): item for i, (name, item) in enumerate(zip(named, tree, strict=True))}
    return {key: by_name(inner) for key, inner in tree.items()} if isinstance(tree, Mapping) else tree


def _other_values(trees: Mapping[str, Any], name: str, nodes: int) -> Iterator[str]:
    uid = "batch.kubernetes.io/controller-uid" if "Job" in trees else "jobset.sigs.k8s.io/jobset-uid"
    of_job = {NAME: name, NODES: nodes, UID: f"metadata.labels['{uid}']"}
    for fixed in FIXED:
        wanted = of_job.get(fixed.value, fixed.value) if isinstance(fixed.value, str) else fixed.value
        for path in fixed.paths:
            if path[0] not in trees or (fixed.beside and fixed.beside not in trees):
                continue
            found = next((value for _, value in values_at(trees, path)), None)
            if found != wanted:
                file = "kustomization.yaml" if path[0] == BUNDLE else "job.yaml"
                yield f"{file}: {'.'.join(path)} is {found!r}, and must be {wanted!r}: {fixed.otherwise}"


def _unresolved(trees: Mapping[str, Any]) -> Iterator[str]:
    """Containers and volumes that are named, and not there."""
    spec = trees[POD]["spec"]
    containers = {**spec.get("initContainers", {}), **spec["containers"]}
    for name, container in containers.items():
        for mount in container.get("volumeMounts", {}).keys() - spec["volumes"].keys():
            yield f"job.yaml: container {name} mounts {mount}, and the pod has no such volume"
    wanted = sorted({"node", "preflight"} & containers.keys())
    for _, rules in (found for job in JOBS for found in values_at(trees, (*job, "podFailurePolicy", "rules"))):
        named = sorted(rule["onExitCodes"]["containerName"] for rule in rules.values() if "onExitCodes" in rule)
        if named != wanted:
            yield f"job.yaml: podFailurePolicy is about containers {', '.join(named)}, not {', '.join(wanted)}"
