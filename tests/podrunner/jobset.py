"""The controllers of JobSet and Kubeflow Trainer: they create a JobSet's Jobs, and a TrainJob's JobSet.

The runner repeats one look at an object with the store locked; controller.py runs the created Jobs.
JobSet: one Job per replica, NAME-REPLICATED-INDEX, whose pods have the JobSet's labels and subdomain; a headless
Service with that name. When a Job fails, the first matching rule decides what follows, RestartJobSet by default: all
Jobs are deleted with their pods and created again, up to maxRestarts times. A JobSet that has ended deletes what is
still running.
TrainJob: a JobSet with the same name, created from its runtime's template, with as many nodes as its trainer requests;
after its deadline it has failed, and the JobSet is deleted.
Source JobSet 0.10: pkg/controllers/{jobset_controller,failure_policy,success_policy}.go, api v1alpha2; Kubeflow Trainer
       2.1: pkg/runtime/framework/plugins/jobset/{jobset,builder}.go, 2.2 for deadlines: pkg/controller/
       trainjob_controller.go. Read, not observed: no such cluster was available.
Not modelled: startupPolicy, dependsOn, successPolicy other than All, suspend, exclusive placement, groups, elastic
sizes, coordinators, TTL; in Trainer, the policies of torch and MPI, initializers, overrides, cluster runtimes.
"""

from __future__ import annotations

import copy
from datetime import datetime, timezone
from typing import Any

from . import schema
from .controller import condition, has
from .store import Object, Store, now

PREFIX = "jobset.sigs.k8s.io"
ANCESTOR = "trainer.kubeflow.org/trainjob-ancestor-step"


def look_at_train_job(store: Store, train_job: Object) -> None:
    name = train_job["metadata"]["name"]
    made = store.get("jobsets", name)
    if "deletionTimestamp" in train_job["metadata"]:
        _delete_first(store, train_job, "trainjobs", [made] if made else [])
    elif _is_late(train_job):
        condition(train_job, "Failed", "DeadlineExceeded", "TrainJob exceeded its active deadline")
        _delete_all(store, [made] if made else [])
    elif made is not None:
        for said in made.get("status", {}).get("conditions", ()):
            kind = {"Completed": "Complete", "Failed": "Failed"}.get(said["type"])
            if kind is not None and not has(train_job, kind):
                condition(train_job, kind, said["reason"], said["message"])
                store.touch(train_job)
    else:
        runtime = store.get("trainingruntimes", train_job["spec"]["runtimeRef"]["name"])
        if runtime is not None:  # the webhook has seen it (api.py); it may have been deleted since
            store.add("jobsets", job_set_of(train_job, runtime))


def _is_late(train_job: Object) -> bool:
    """Return whether the deadline has passed; also true after it has failed for that reason, so that its JobSet stays
    deleted.
    """
    if has(train_job, "Failed") or has(train_job, "Complete"):
        return has(train_job, "Failed") and train_job["status"]["conditions"][-1]["reason"] == "DeadlineExceeded"
    born = datetime.fromisoformat(train_job["metadata"]["creationTimestamp"].replace("Z", "+00:00"))
    age_s = (datetime.now(timezone.utc) - born).total_seconds()
    return age_s > train_job["spec"].get("activeDeadlineSeconds", float("inf"))


def job_set_of(train_job: Object, runtime: Object) -> Object:
    spec: Any = copy.deepcopy(runtime["spec"]["template"]["spec"])
    nodes = train_job["spec"].get("trainer", {}).get("numNodes") or runtime["spec"].get("mlPolicy", {}).get("numNodes")
    for replicated in spec["replicatedJobs"]:
        labels = replicated["template"].get("metadata", {}).get("labels", {})
        if labels.get(ANCESTOR) == "trainer" and nodes:
            replicated["replicas"] = 1
            replicated["template"]["spec"] |= {"parallelism": nodes, "completions": nodes}
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": _owned(train_job, train_job["metadata"]["name"], {}),
        "spec": spec,
    }


def look_at_job_set(store: Store, job_set: Object) -> None:
    jobs = list(store.all("jobs", f"{PREFIX}/jobset-uid={job_set['metadata']['uid']}"))
    if "deletionTimestamp" in job_set["metadata"]:
        return _delete_first(store, job_set, "jobsets", jobs)
    status = job_set.setdefault("status", {"restarts": 0})
    current = [job for job in jobs if job["metadata"]["labels"][f"{PREFIX}/restart-attempt"] == str(status["restarts"])]
    if has(job_set, "Completed") or has(job_set, "Failed"):
        return _delete_all(store, [job for job in current if not has(job, "Complete") and not has(job, "Failed")])
    if len(current) < len(jobs):  # delete Jobs of an earlier attempt first, because the new ones have the same names
        return _delete_all(store, [job for job in jobs if job not in current])
    failed = [job for job in current if has(job, "Failed")]
    wanted = [(each, index) for each in job_set["spec"]["replicatedJobs"] for index in range(each.get("replicas", 1))]
    if failed:
        _on_failure(store, job_set, failed)
    elif len(current) == len(wanted) and all(has(job, "Complete") for job in current):
        condition(job_set, "Completed", "AllJobsCompleted", "jobset completed successfully")
        store.touch(job_set)
    elif not current:
        _create(store, job_set, wanted)
    return None


def _on_failure(store: Store, job_set: Object, failed: list[Object]) -> None:
    job = failed[0]
    reason = next(c["reason"] for c in job["status"]["conditions"] if c["type"] == "Failed")
    replicated = job["metadata"]["labels"][f"{PREFIX}/replicatedjob-name"]
    policy, whose = job_set["spec"].get("failurePolicy"), f"(first failed job: {job['metadata']['name']})"
    fitting = (
        rule
        for rule in (policy or {}).get("rules", ())
        if reason in rule.get("onJobFailureReasons", (reason,))
        and replicated in rule.get("targetReplicatedJobs", (replicated,))
    )
    action = next((rule["action"] for rule in fitting), "RestartJobSet")
    status = job_set["status"]
    if policy is None:
        condition(job_set, "Failed", "FailedJobs", f"jobset failed due to one or more job failures {whose}")
    elif action == "FailJobSet":
        said = f"failed jobset due to FailJobSet failure policy action {whose}"
        condition(job_set, "Failed", "FailJobSetFailurePolicyAction", said)
    elif status.get("restartsCountTowardsMax", 0) >= policy.get("maxRestarts", 0):
        said = f"jobset failed due to reaching max number of restarts {whose}"
        condition(job_set, "Failed", "ReachedMaxRestarts", said)
    else:
        status["restarts"] += 1
        status["restartsCountTowardsMax"] = status.get("restartsCountTowardsMax", 0) + 1
    store.touch(job_set)


def _create(store: Store, job_set: Object, wanted: list[tuple[Object, int]]) -> None:
    name, network = job_set["metadata"]["name"], job_set["spec"].get("network", {})
    subdomain = network.get("subdomain", name)
    hostnames = network.get("enableDNSHostnames", True)
    if hostnames and store.get("services", subdomain) is None:
        spec = {
            "clusterIP": "None",
            "publishNotReadyAddresses": network.get("publishNotReadyAddresses", True),
            "selector": {f"{PREFIX}/jobset-name": name},
        }
        metadata = _owned(job_set, subdomain, {})
        store.add("services", {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec})
    for replicated, index in wanted:
        job = _job(job_set, replicated, index, subdomain if hostnames else None)
        problem = schema.problem(job) or schema.invalid(job)
        assert not problem, f"the API server refuses the Job that the JobSet makes: {problem}"
        store.add("jobs", job)


def _job(job_set: Object, replicated: Object, index: int, subdomain: str | None) -> Object:
    template: Any = copy.deepcopy(replicated["template"])
    own = {
        f"{PREFIX}/jobset-name": job_set["metadata"]["name"],
        f"{PREFIX}/jobset-uid": job_set["metadata"]["uid"],
        f"{PREFIX}/replicatedjob-name": replicated["name"],
        f"{PREFIX}/replicatedjob-replicas": str(replicated.get("replicas", 1)),
        f"{PREFIX}/job-index": str(index),
        f"{PREFIX}/restart-attempt": str(job_set["status"]["restarts"]),
    }
    spec, pod = template["spec"], template["spec"]["template"]
    for kind in ("labels", "annotations"):
        pod.setdefault("metadata", {})[kind] = {**pod.get("metadata", {}).get(kind, {}), **own}
    if subdomain is not None:
        pod["spec"]["subdomain"] = subdomain
    name = f"{job_set['metadata']['name']}-{replicated['name']}-{index}"
    metadata = _owned(job_set, name, {**template.get("metadata", {}).get("labels", {}), **own})
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}


def _owned(owner: Object, name: str, labels: dict[str, str]) -> Object:
    version, metadata = owner["apiVersion"], owner["metadata"]
    reference = {"apiVersion": version, "kind": owner["kind"], "name": metadata["name"], "uid": metadata["uid"]}
    references = [{**reference, "controller": True, "blockOwnerDeletion": True}]
    return {"name": name, "namespace": metadata["namespace"], "labels": labels, "ownerReferences": references}


def _delete_all(store: Store, objects: list[Object]) -> None:
    for item in objects:
        if "deletionTimestamp" not in item["metadata"]:
            item["metadata"]["deletionTimestamp"] = now()
            store.touch(item)


def _delete_first(store: Store, owner: Object, plural: str, objects: list[Object]) -> None:
    """Delete in the foreground: the owner is removed after the objects that it created."""
    _delete_all(store, objects)
    if not objects:
        store.remove(plural, owner["metadata"]["name"])
