"""The Job controller: decides which pods an Indexed Job has, and how it ends. The runner repeats one look at a job.

As observed on v1.36.2 with podReplacementPolicy Failed: a pod is replaced when it has ended; an index that succeeded
stays. The delay is BACKOFF_S, then doubles, and is reset when an index succeeds.
"""

from __future__ import annotations

import copy
import random
import string
import time
from typing import Any

from .pod_security import beyond_restricted
from .store import Object, Store, now

BACKOFF_S = 0.5  # Kubernetes: 10


def condition(item: Object, kind: str, reason: str, message: str = "") -> None:
    """Add a condition; an existing condition stays."""
    found = item.setdefault("status", {}).setdefault("conditions", [])
    if not any(c["type"] == kind for c in found):
        entry = {"type": kind, "status": "True", "reason": reason, "message": message, "lastTransitionTime": now()}
        found.append(entry)


def has(item: Object, kind: str) -> bool:
    return any(c["type"] == kind and c["status"] == "True" for c in item.get("status", {}).get("conditions", ()))


class JobController:
    """State of one Job besides its object: counted pods, and when indexes may be retried."""

    def __init__(self, store: Store, job: Object) -> None:
        self.store, self.job = store, job
        self.started = time.monotonic()
        self.succeeded: set[int] = set()
        self.counted: set[str] = set()  # uids of ended pods that have been processed
        self.failed = 0
        self.failures_in_row = 0
        self.not_before: dict[int, float] = {}
        self.is_refused = False  # its pods are, by admission

    def pods(self) -> list[Object]:
        name = self.job["metadata"]["name"]
        return list(self.store.all("pods", f"batch.kubernetes.io/job-name={name}"))

    def look(self) -> None:
        """Look at the job once. Call with the store locked."""
        spec = self.job["spec"]
        for pod in self.pods():
            if pod["status"]["phase"] in ("Succeeded", "Failed") and pod["metadata"]["uid"] not in self.counted:
                self.counted.add(pod["metadata"]["uid"])
                self._count(pod)
        deadline = spec.get("activeDeadlineSeconds")
        if deadline and time.monotonic() - self.started > deadline and not self._is_over():
            self._fail("DeadlineExceeded", "Job was active longer than specified deadline")
        active = [pod for pod in self.pods() if pod["status"]["phase"] in ("Pending", "Running")]
        if has(self.job, "FailureTarget"):
            for pod in active:
                delete_pod(self.store, pod)
            target = next(c for c in self.job["status"]["conditions"] if c["type"] == "FailureTarget")
            if not active:
                condition(self.job, "Failed", target["reason"], target["message"])
        elif len(self.succeeded) == spec["completions"]:
            condition(self.job, "SuccessCriteriaMet", "CompletionsReached", "Reached expected number of succeeded pods")
            condition(self.job, "Complete", "CompletionsReached", "Reached expected number of succeeded pods")
        elif "deletionTimestamp" not in self.job["metadata"]:
            self._create({index_of(pod) for pod in active})
        status = self.job.setdefault("status", {})
        now_is = {"active": len(active), "failed": self.failed, "succeeded": len(self.succeeded)}
        if {key: status.get(key) for key in now_is} != now_is:
            status.update(now_is)
            self.store.touch(self.job)

    def _is_over(self) -> bool:
        return has(self.job, "FailureTarget") or has(self.job, "Complete")

    def _create(self, active: set[int]) -> None:
        for index in range(self.job["spec"]["completions"]):
            free = index not in active and index not in self.succeeded
            if free and time.monotonic() >= self.not_before.get(index, 0):
                pod = new_pod(self.job, index)
                priority = pod["spec"].get("priorityClassName")
                why = f"no PriorityClass with name {priority} was found" if priority else ""  # none exist here
                if self.store.is_restricted and (found := beyond_restricted(pod["spec"])):
                    why = f'violates PodSecurity "restricted:latest": {", ".join(found)}'
                if not why:
                    self.store.add("pods", pod)
                elif not self.is_refused:
                    self.is_refused = True
                    name = f"{self.job['metadata']['name']}-{index}-"
                    self._warn(f'pods "{name}" is forbidden: {why}')

    def _warn(self, message: str) -> None:
        """Add a warning event, as for a pod that could not be created."""
        name, space = self.job["metadata"]["name"], self.job["metadata"]["namespace"]
        about = {"kind": "Job", "name": name, "namespace": space, "uid": self.job["metadata"]["uid"]}
        said = {"type": "Warning", "reason": "FailedCreate", "message": f"Error creating: {message}"}
        metadata = {"name": f"{name}.{time.monotonic_ns():x}", "namespace": space}
        event = {"apiVersion": "v1", "kind": "Event", "metadata": metadata, "involvedObject": about, **said}
        self.store.add("events", event)

    def _count(self, pod: Object) -> None:
        """Apply the failure policy to a pod that has ended."""
        index = index_of(pod)
        if pod["status"]["phase"] == "Succeeded":
            self.succeeded.add(index)
            self.failures_in_row = 0
            self.not_before.clear()
            return
        self.not_before[index] = time.monotonic() + BACKOFF_S * 2 ** min(self.failures_in_row, 3)
        action, why = self._policy(pod)
        if action == "FailJob":
            self.failed += 1
            self._fail("PodFailurePolicy", why)
        elif action != "Ignore":
            self.failed += 1
            self.failures_in_row += 1
            if self.failed > self.job["spec"].get("backoffLimit", 6):
                self._fail("BackoffLimitExceeded", "Job has reached the specified backoff limit")

    def _policy(self, pod: Object) -> tuple[str, str]:
        """Return (action, reason) of the first matching rule; Count if none matches."""
        kinds = ("containerStatuses", "initContainerStatuses")
        found = [each for kind in kinds for each in pod["status"].get(kind, ())]
        codes_of = {each["name"]: each["state"].get("terminated", {}).get("exitCode") for each in found}
        for number, rule in enumerate(self.job["spec"].get("podFailurePolicy", {}).get("rules", ())):
            if any(has(pod, wanted["type"]) for wanted in rule.get("onPodConditions", ())):
                return rule["action"], f"Pod has condition matching {rule['action']} rule at index {number}"
            codes = rule.get("onExitCodes", {})
            for container, code in codes_of.items():
                is_meant = codes.get("containerName") in (None, container)
                if codes and is_meant and code and (code in codes["values"]) == (codes["operator"] == "In"):
                    name = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
                    said = f"Container {container} for pod {name} failed with exit code {code}"
                    return rule["action"], f"{said} matching {rule['action']} rule at index {number}"
        return "Count", ""

    def _fail(self, reason: str, message: str) -> None:
        condition(self.job, "FailureTarget", reason, message)
        self.store.touch(self.job)


def index_of(pod: Object) -> int:
    return int(pod["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"])


def new_pod(job: Object, index: int) -> Object:
    """Return a pod of an Indexed Job: its host name is JOB-INDEX, and its labels contain the job, its uid and the
    index.
    """
    name, uid = job["metadata"]["name"], job["metadata"]["uid"]
    template: Any = copy.deepcopy(job["spec"]["template"])
    extra = "".join(random.choices(string.ascii_lowercase + string.digits, k=5))
    own = {"job-name": name, "controller-uid": uid}
    labels = {**own, **{f"batch.kubernetes.io/{key}": value for key, value in own.items()}}
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": uid, "controller": True}
    place = {"batch.kubernetes.io/job-completion-index": str(index)}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"{name}-{index}-{extra}",
            "namespace": job["metadata"]["namespace"],
            "labels": {**template["metadata"].get("labels", {}), **labels, **place},
            "annotations": {**template["metadata"].get("annotations", {}), **place},
            "ownerReferences": [owner],
        },
        "spec": {**template["spec"], "hostname": f"{name}-{index}"},
        "status": {"phase": "Pending"},
    }


def delete_pod(store: Store, pod: Object) -> None:
    """Mark a pod for deletion; whoever runs it ends it within its grace period and then removes it."""
    if "deletionTimestamp" not in pod["metadata"]:
        pod["metadata"]["deletionTimestamp"] = now()
        store.touch(pod)
