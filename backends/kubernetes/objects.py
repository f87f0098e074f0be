"""The objects of one job, as data: a Service and an Indexed Job; or a JobSet; or a TrainJob and its runtime.

Source: Kubernetes API reference 1.32 to 1.37 (Job batch/v1, Service v1), "Pod failure policy"; JobSet v1alpha2 0.10,
pkg/webhooks/jobset_webhook.go (validOnJobFailureReasons); Kubeflow Trainer v1alpha1 2.1, activeDeadlineSeconds 2.2,
which refuses that of the Jobs in a runtime (trainingruntime_types.go). Observed on Kubernetes v1.36.2: Job and Service.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...compiler.emit.render import Given, Omit, of
from ...compiler.plan.launch_plan import LaunchPlan
from ...trainer.rt import exit_codes
from . import extra
from .names import own_name
from .options import KubernetesOptions
from .pod import CONTAINER, JOB_LABEL, PREFLIGHT, has_preflight, labels, pod_template

AGAIN = sorted((exit_codes.PEER_LOST, exit_codes.PREEMPTED))
KUEUE = extra.KUEUE
OWNER = "jobc/owner"
VOLCANO_GANG = "scheduling.volcano.sh/group-min-member"
KIND = {"job": "job.batch", "jobset": "jobset.jobset.x-k8s.io", "trainjob": "trainjob.trainer.kubeflow.org"}
COMPANIONS = {
    "job": "configmap,service",
    "jobset": "configmap",
    "trainjob": "configmap,trainingruntime.trainer.kubeflow.org",
}


deadline = Given(of.options.deadline)


def documents(plan: LaunchPlan, options: KubernetesOptions) -> list[dict[str, Any]]:
    """Return the documents of job.yaml, in the order in which kubectl creates them."""
    if options.flavor == "jobset":
        manifests = [job_set(plan, options)]
    elif options.flavor == "trainjob":
        manifests = [training_runtime(plan, options), train_job(plan)]
    else:
        manifests = [service(plan), job(plan, options)]
    return list(extra.merged({document["kind"]: document for document in manifests}, options).values())


def metadata(plan: LaunchPlan, queued: bool = True) -> dict[str, Any]:
    """queued: the object that Kueue would queue"""
    queue = {KUEUE: of.plan.queue.name} if queued and plan.queue.name else {}
    return {"name": own_name, "labels": {**labels(plan), **queue}, "annotations": {OWNER: ""}}


def service(plan: LaunchPlan) -> dict[str, Any]:
    """Gives each pod a name, from its start on: pods become ready only when the ranks have met."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": own_name, "labels": labels(plan)},
        "spec": {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": {JOB_LABEL: own_name}},
    }


def job(plan: LaunchPlan, options: KubernetesOptions) -> dict[str, Any]:
    spec = {
        **job_spec(plan, options),
        "activeDeadlineSeconds": deadline,
        "ttlSecondsAfterFinished": Given(of.plan.lifecycle.keep_s),
    }
    about = metadata(plan)
    about["annotations"] = {**about["annotations"], **gang(options)}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": about, "spec": spec}


def gang(options: KubernetesOptions) -> dict[str, Any]:
    """The annotation of a Job by which Volcano starts all of its pods or none; without it one pod is enough for it.

    Source: Volcano 1.12 and later, pkg/controllers/podgroup/pg_controller_handler.go: it reads that of the pods' owner.
    """
    pod = options.extra.get(extra.POD, {})
    scheduler = pod.get("spec", {}).get("schedulerName") if isinstance(pod, Mapping) else None
    return {VOLCANO_GANG: lambda v: str(v.plan.topology.nodes)} if scheduler == "volcano" else {}


def job_spec(plan: LaunchPlan, options: KubernetesOptions) -> dict[str, Any]:
    """All pods at once, one per index. A failed pod is replaced, never restarted in place: its log stays.

    backoffLimit counts pods, and when one node fails all others end as well (trainer/rt/peers.py, join_run.sh), so a
    start again of the whole job costs `nodes` of it. A JobSet starts the whole Job again, so there the limit is 0.
    """
    alone = options.flavor == "job"
    return {
        "completionMode": "Indexed",
        "completions": of.plan.topology.nodes,
        "parallelism": of.plan.topology.nodes,
        "backoffLimit": (lambda v: requeues(v) * v.plan.topology.nodes) if alone else 0,
        "podReplacementPolicy": "Failed",
        "podFailurePolicy": {"rules": failure_rules(plan, options)},
        "template": pod_template(plan, options),
    }


def requeues(v: Any) -> int:
    """Times that all pods start again: none where their runs, and what they would resume from, end with them."""
    most: int = v.plan.lifecycle.max_requeues
    return 0 if v.plan.run.storage == "node" else most


def failure_rules(plan: LaunchPlan, options: KubernetesOptions) -> list[Any]:
    """Return the pod failure rules, first match wins: evictions do not count; a permanent error ends the job.

    With storage.run=node any failure, also an eviction, ends it: a new pod would have no run folder to continue in.
    """
    disrupted = {"type": "DisruptionTarget", "status": "True"}
    rules: list[Any] = [{"action": _of_eviction, "onPodConditions": [disrupted]}, _final(CONTAINER, _restarted)]
    if has_preflight(plan, options):
        rules.append(lambda v: _final(PREFLIGHT, _restarted(v)) if has_preflight(v.plan, v.options) else Omit)
    return rules


def _of_eviction(v: Any) -> str:
    return "FailJob" if v.plan.run.storage == "node" else "Ignore"


def _restarted(v: Any) -> list[int]:
    """Return the exit codes that do not fail the job: those that start pods again, or only success."""
    return [exit_codes.DONE] if v.plan.run.storage == "node" else AGAIN


def _final(container: str, values: Any) -> dict[str, Any]:
    codes = {"containerName": container, "operator": "NotIn", "values": values}
    return {"action": "FailJob", "onExitCodes": codes}


def job_set(plan: LaunchPlan, options: KubernetesOptions) -> dict[str, Any]:
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": metadata(plan),
        "spec": {
            **job_set_spec(plan, options),
            "ttlSecondsAfterFinished": Given(of.plan.lifecycle.keep_s),
        },
    }


def job_set_spec(plan: LaunchPlan, options: KubernetesOptions) -> dict[str, Any]:
    """Return the JobSet spec: one failure restarts all pods, max_requeues times; never after a permanent error.

    A JobSet has no deadline, only its Job, which is a new one at each start: so a start that reaches it is the last.
    """
    timed = options.flavor == "jobset" and options.deadline is not None
    replicated = {
        "name": "node",
        "replicas": 1,
        "template": {
            "metadata": {
                **(
                    {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}}
                    if options.flavor == "trainjob"
                    else {}
                ),
                **({"annotations": gang(options)} if gang(options) else {}),
            }
            or Omit,
            "spec": {
                **job_spec(plan, options),
                **({"activeDeadlineSeconds": deadline} if timed else {}),
            },
        },
    }
    final = ["PodFailurePolicy", *(["DeadlineExceeded"] if timed else [])]
    return {
        "network": {"enableDNSHostnames": True, "publishNotReadyAddresses": True},
        "successPolicy": {"operator": "All"},
        "failurePolicy": {
            "maxRestarts": requeues,
            "rules": [{"name": "final", "action": "FailJobSet", "onJobFailureReasons": final}],
        },
        "replicatedJobs": [replicated],
    }


def training_runtime(plan: LaunchPlan, options: KubernetesOptions) -> dict[str, Any]:
    """A runtime of this job's own: the cluster's one for torch has no /dev/shm, and starts torchrun itself."""
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainingRuntime",
        "metadata": {"name": own_name, "labels": labels(plan)},
        "spec": {
            "mlPolicy": {"numNodes": of.plan.topology.nodes},
            "template": {"spec": job_set_spec(plan, options)},
        },
    }


def train_job(plan: LaunchPlan) -> dict[str, Any]:
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": metadata(plan),
        "spec": {
            "runtimeRef": {"apiGroup": "trainer.kubeflow.org", "kind": "TrainingRuntime", "name": own_name},
            "trainer": {"numNodes": of.plan.topology.nodes},
            "activeDeadlineSeconds": deadline,
        },
    }


def kustomization(flavor: str, files: dict[str, Any]) -> dict[str, Any]:
    """`kubectl kustomize` puts the files into a ConfigMap. files: key -> path, or a leaf that is a path

    It sorts by kind, TrainJob before TrainingRuntime, which the webhook of Kubeflow Trainer refuses (sortOptions:
    kustomize 5, in kubectl 1.27).
    """
    return {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": ["job.yaml"],
        **({"sortOptions": {"order": "fifo"}} if flavor == "trainjob" else {}),
        "configMapGenerator": [{"name": own_name, "files": [_entry(key, path) for key, path in files.items()]}],
        "generatorOptions": {
            "disableNameSuffixHash": True,  # the name has the digest of the plan, and each run its own object
            "immutable": True,
            "labels": {JOB_LABEL: own_name},
        },
    }


def _entry(key: str, path: Any) -> Any:
    return (lambda v: f"{key}={path(v)}") if callable(path) else f"{key}={path}"
