"""Rules for `backend.extra`: what it may merge into the manifests, and which fields the plan owns.

The keys of `backend.extra` are the kinds in job.yaml, and `Pod`, which stands for the pod template (wherever the flavor
puts it) and for the pod that `jobctl shell` creates.
"""

from collections.abc import Mapping
from typing import Any

from ...compiler.emit.extra_entries import Path, merge_extra_entries
from ...compiler.plan.launch_plan import LaunchPlan
from .._shared import kubernetes_fields as fields
from . import gpu_types
from .network import TCPX_DAEMON
from .options import KubernetesOptions

KEY = "backend.extra"
POD = "Pod"
KUEUE = "kueue.x-k8s.io/queue-name"
KINDS = {
    "job": ("Service", "Job"),
    "jobset": ("JobSet",),
    "trainjob": ("TrainingRuntime", "TrainJob"),
}

_RESTARTS = ("backoffLimit", "backoffLimitPerIndex", "maxFailedIndexes", "podReplacementPolicy", "podFailurePolicy")
_JOB = {
    **dict.fromkeys(("completionMode", "completions", "parallelism", "successPolicy"), "nodes"),
    **dict.fromkeys(_RESTARTS, "lifecycle.max_requeues"),
    "activeDeadlineSeconds": "backend.deadline",
    "ttlSecondsAfterFinished": "lifecycle.keep",
    "selector": "name",
    "template": f"{KEY}.{POD}",
}
_POD = {
    **dict.fromkeys(("subdomain", "hostname", "setHostnameAsFQDN", "hostnameOverride", "enableServiceLinks"), "name"),
    "restartPolicy": "lifecycle.max_requeues",
    "terminationGracePeriodSeconds": "lifecycle.grace",
    "hostNetwork": "backend.host_network",
}
_CONTAINER = {
    **dict.fromkeys(("restartPolicy", "restartPolicyRules"), "lifecycle.max_requeues"),
    **dict.fromkeys(("command", "args"), "-- COMMAND"),
    "image": "image",
    "workingDir": "container.workdir",
}
_OF_THE_CONTROLLER = (
    "job-name", "controller-uid", "batch.kubernetes.io/job-name", "batch.kubernetes.io/controller-uid",
    "batch.kubernetes.io/job-completion-index",  # the pod's node rank
)  # fmt: skip
VARIABLES = (  # set by `jobctl join` or in pod.container_environment
    "JOBC_PAYLOAD", "JOBC_RUN_ID", "JOBC_FORK_OF", "JOBC_SUBMITTED", "JOBC_JOB_ID", "JOBC_JOB_UID", "JOBC_NODE_RANK",
    "JOBC_HEAD_ADDR", "JOBC_HEAD_PORT", "JOBC_TIME_LIMIT_S", "JOBC_RUN_ROOT",
)  # fmt: skip


def merge_extra(kind: str, document: dict[str, Any], options: KubernetesOptions) -> Any:
    """Return a document of this kind (or `Pod`), merged with its part of `backend.extra`."""
    extra = options.extra.get(kind)
    if not extra:
        return document
    return fields.to_api_form(kind, merge_extra_entries(document, extra, ("options", "extra", kind)))


def protected_fields(plan: LaunchPlan, options: KubernetesOptions) -> dict[Path, str]:
    """Return the fields that the scripts rely on: path in a document -> the job key that sets it."""
    paths: dict[Path, str] = {}

    def protect(owners: Mapping[str, str], *prefix: str) -> None:
        paths.update({(*prefix, name): owner for name, owner in owners.items()})

    labels = {**dict.fromkeys(plan.labels, "labels"), **({KUEUE: "queue.name"} if plan.queue.name else {})}
    for kind in (POD, *KINDS[options.flavor]):
        protect({"apiVersion": "backend.flavor", "kind": "backend.flavor"}, kind)
        protect({"name": "name", "namespace": "backend.namespace", "generateName": "name"}, kind, "metadata")
        protect({"jobc/job": "name", **labels}, kind, "metadata", "labels")
        protect({"jobc/owner": "name"}, kind, "metadata", "annotations")
    service = ("clusterIP", "clusterIPs", "publishNotReadyAddresses", "selector")
    protect(dict.fromkeys(service, "name"), "Service", "spec")
    for section in ("labels", "annotations"):
        protect(dict.fromkeys(_OF_THE_CONTROLLER, "name"), POD, "metadata", section)
    protect(_JOB, "Job", "spec")
    for prefix in (("JobSet", "spec"), ("TrainingRuntime", "spec", "template", "spec")):
        protect({"network": "name", "successPolicy": "nodes", "failurePolicy": "lifecycle.max_requeues"}, *prefix)
        protect({"ttlSecondsAfterFinished": "lifecycle.keep"}, *prefix)
        protect({"name": "name", "replicas": "nodes"}, *prefix, "replicatedJobs", "node")
        protect(_JOB, *prefix, "replicatedJobs", "node", "template", "spec")
    protect({"mlPolicy": "nodes"}, "TrainingRuntime", "spec")
    train_job = {"runtimeRef": "name", "trainer": "nodes", "runtimePatches": f"{KEY}.{POD}"}
    protect({**train_job, "activeDeadlineSeconds": "backend.deadline"}, "TrainJob", "spec")
    protect(_POD, POD, "spec")
    container = (POD, "spec", "containers", "node")
    protect(_CONTAINER, *container)
    protect(dict.fromkeys(VARIABLES, "nodes"), *container, "env")
    for kind in ("limits", "requests"):
        protect({options.gpu_resource: "gpus", "memory": "mem"}, *container, "resources", kind)
        protect({"memory": "mem"}, POD, "spec", "resources", kind)  # for the whole pod
    if plan.resources.cpus:
        protect({"cpu": "cpus"}, *container, "resources", "requests")
    if plan.queue.priority is not None:
        protect({"priorityClassName": "queue.priority"}, POD, "spec")
    if plan.resources.gpu_type is not None:
        protect({gpu_types.gpu_label_name(options): "gpu_type"}, POD, "spec", "nodeSelector")
    chosen = {
        "hosts": plan.resources.hosts,
        "queue.exclude": plan.queue.exclude,
        "gpu_type": len(gpu_types.gpu_label_values(plan, options)) > 1,
    }
    if says := [key for key, value in chosen.items() if value]:  # a list without names: `extra` would replace it
        required = "requiredDuringSchedulingIgnoredDuringExecution"
        protect({required: " and ".join(says)}, POD, "spec", "affinity", "nodeAffinity")
    if plan.network.profile == "tcpx":
        protect({TCPX_DAEMON: "network"}, POD, "spec", "initContainers")
    volumes = {"files": "name", "artifact": "name", "shm": "shm"}
    volumes |= {"code": "code"} if plan.code.kind == "snapshot" else {}
    volumes |= {"runs": "storage.root"} if plan.run.storage == "node" else {}
    volumes |= {f"mount-{i}": "mounts" for i in range(len(plan.mounts))}
    protect(volumes, POD, "spec", "volumes")
    protect(volumes, *container, "volumeMounts")
    return paths
