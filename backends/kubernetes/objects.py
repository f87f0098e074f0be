"""The Kubernetes objects of one job, as data: a Service and an Indexed Job, a JobSet, or a TrainJob and its runtime.

Source: Kubernetes API reference 1.32 to 1.37 (Job batch/v1, Service v1), "Pod failure policy"; JobSet v1alpha2 0.10,
pkg/webhooks/jobset_webhook.go (validOnJobFailureReasons); Kubeflow Trainer v1alpha1 2.1; for activeDeadlineSeconds 2.2,
which rejects it on a runtime's Jobs (trainingruntime_types.go). Job and Service observed on Kubernetes v1.36.2.
"""

from collections.abc import Mapping
from typing import Any

from ...compiler.api import Given, LaunchPlan, Omit, of
from ...runtime import exit_codes
from . import extra_fields
from .names import object_name
from .options import KubernetesOptions
from .pod import CONTAINER, JOB_LABEL, pod_labels, pod_template

AGAIN = sorted((exit_codes.PEER_LOST, exit_codes.PREEMPTED))
OWNER = "jobc/owner"
VOLCANO_GANG = "scheduling.volcano.sh/group-min-member"
TRAINER_API = "trainer.kubeflow.org/v1alpha1"
KIND = {"job": "job.batch", "jobset": "jobset.jobset.x-k8s.io", "trainjob": "trainjob.trainer.kubeflow.org"}
COMPANIONS = {
    "job": "configmap,service",
    "jobset": "configmap",
    "trainjob": "configmap,trainingruntime.trainer.kubeflow.org",
}


deadline = Given(of.options.deadline)
# The first match wins: evictions do not count, and a permanent error ends the job. Not used with storage.run=node,
# where a new pod would not have the run folder: backoffLimit is 0, and any failure or eviction already ends the job.
POD_FAILURE_RULES = [
    {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
    {"action": "FailJob", "onExitCodes": {"containerName": CONTAINER, "operator": "NotIn", "values": AGAIN}},
]


def job_yaml_documents(plan: LaunchPlan, options: KubernetesOptions) -> list[dict[str, Any]]:
    if options.flavor == "jobset":
        documents = [job_set(plan, options)]
    elif options.flavor == "trainjob":
        documents = [training_runtime(plan, options), train_job(plan)]
    else:
        documents = [headless_service(plan), indexed_job(plan, options)]
    return [extra_fields.merge_extra(document["kind"], document, options) for document in documents]


def object_metadata(plan: LaunchPlan) -> dict[str, Any]:
    """Return the metadata of the object that Kueue queues."""
    queue = {extra_fields.KUEUE: of.plan.queue.name} if plan.queue.name else {}
    return {"labels": {**pod_labels(plan), **queue}, "annotations": {OWNER: ""}}


def make_manifest(api_version: str, kind: str, metadata: dict[str, Any], spec: dict[str, Any]) -> dict[str, Any]:
    names = {"name": object_name, "namespace": Given(of.options.namespace)}
    return {"apiVersion": api_version, "kind": kind, "metadata": {**names, **metadata}, "spec": spec}


def headless_service(plan: LaunchPlan) -> dict[str, Any]:
    """Return the Service that gives each pod a DNS name as soon as it starts, even before it is ready."""
    spec = {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": {JOB_LABEL: object_name}}
    return make_manifest("v1", "Service", {"labels": pod_labels(plan)}, spec)


def indexed_job(plan: LaunchPlan, options: KubernetesOptions) -> dict[str, Any]:
    metadata = object_metadata(plan)
    metadata["annotations"] |= volcano_gang_annotation(options)
    spec = {"activeDeadlineSeconds": deadline, "ttlSecondsAfterFinished": Given(of.plan.lifecycle.keep_s)}
    return make_manifest("batch/v1", "Job", metadata, {**job_spec(plan, options), **spec})


def volcano_gang_annotation(options: KubernetesOptions) -> dict[str, Any]:
    """Return the Job annotation that makes Volcano start all pods or none.

    Without it, Volcano starts pods one by one.

    Source: Volcano 1.12 and later, pkg/controllers/podgroup/pg_controller_handler.go, reads it from the pods' owner.
    """
    pod = options.extra.get(extra_fields.POD, {})
    scheduler = pod.get("spec", {}).get("schedulerName") if isinstance(pod, Mapping) else None
    return {VOLCANO_GANG: lambda v: str(v.plan.topology.nodes)} if scheduler == "volcano" else {}


def job_spec(plan: LaunchPlan, options: KubernetesOptions) -> dict[str, Any]:
    """Return the Job spec, which starts all pods at once, one per index. A pod is replaced only after it has ended,
    which is the default with a podFailurePolicy.

    backoffLimit counts pods. When one node fails, all others end as well (runtime/supervisor/peers.py), so each requeue
    of the job adds one failure per node. A JobSet restarts the whole Job itself, so its Job's limit is 0.
    """
    alone = options.flavor == "job"
    return {
        "completionMode": "Indexed",
        "completions": of.plan.topology.nodes,
        "parallelism": of.plan.topology.nodes,
        "backoffLimit": (lambda v: max_job_restarts(v) * v.plan.topology.nodes) if alone else 0,
        "podFailurePolicy": lambda v: Omit if v.plan.run.storage == "node" else {"rules": POD_FAILURE_RULES},
        "template": pod_template(plan, options),
    }


def max_job_restarts(v: Any) -> int:
    """Return how many times all pods may restart: 0 if runs, including checkpoints, are deleted with their pods."""
    most: int = v.plan.lifecycle.max_requeues
    return 0 if v.plan.run.storage == "node" else most


def job_set(plan: LaunchPlan, options: KubernetesOptions) -> dict[str, Any]:
    spec = {**job_set_spec(plan, options), "ttlSecondsAfterFinished": Given(of.plan.lifecycle.keep_s)}
    return make_manifest("jobset.x-k8s.io/v1alpha2", "JobSet", object_metadata(plan), spec)


def job_set_spec(plan: LaunchPlan, options: KubernetesOptions) -> dict[str, Any]:
    """Return the JobSet spec: a failure restarts all pods, up to max_requeues times, but never after a permanent error.

    A JobSet has no deadline, but its Job has one, which starts over with each attempt. An attempt that reaches its
    deadline is not followed by another one.
    """
    timed = options.flavor == "jobset" and options.deadline is not None
    metadata: dict[str, Any] = {}
    if options.flavor == "trainjob":
        metadata["labels"] = {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}
    if annotation := volcano_gang_annotation(options):
        metadata["annotations"] = annotation
    spec = {**job_spec(plan, options), **({"activeDeadlineSeconds": deadline} if timed else {})}
    final = ["PodFailurePolicy", *(["DeadlineExceeded"] if timed else [])]
    return {
        "network": {"enableDNSHostnames": True, "publishNotReadyAddresses": True},
        "successPolicy": {"operator": "All"},
        "failurePolicy": {
            "maxRestarts": max_job_restarts,
            "rules": [{"name": "final", "action": "FailJobSet", "onJobFailureReasons": final}],
        },
        "replicatedJobs": [{"name": "node", "replicas": 1, "template": {"metadata": metadata or Omit, "spec": spec}}],
    }


def training_runtime(plan: LaunchPlan, options: KubernetesOptions) -> dict[str, Any]:
    """Return this job's own runtime, because the cluster's torch runtime has no /dev/shm and starts torchrun itself."""
    metadata = {"labels": pod_labels(plan)}
    spec = {"mlPolicy": {"numNodes": of.plan.topology.nodes}, "template": {"spec": job_set_spec(plan, options)}}
    return make_manifest(TRAINER_API, "TrainingRuntime", metadata, spec)


def train_job(plan: LaunchPlan) -> dict[str, Any]:
    spec = {
        "runtimeRef": {"apiGroup": "trainer.kubeflow.org", "kind": "TrainingRuntime", "name": object_name},
        "trainer": {"numNodes": of.plan.topology.nodes},
        "activeDeadlineSeconds": deadline,
    }
    return make_manifest(TRAINER_API, "TrainJob", object_metadata(plan), spec)
