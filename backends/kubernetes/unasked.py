"""Which fields of job.yaml jobc writes itself. Any other one comes from `backend.extra`, or by an edit.

In   the documents by their kind, lists by the names of their items, and `Pod`: the template of the pods
Out  fields, as `backend.extra` names them: `Pod.spec.schedulerName` -> the option that may ask for it as well, or ""
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ...compiler.extra import Path
from .pod import CONTAINER, PREFLIGHT
from .rules.extra.broken_promise import JOBS, RUNTIME, values_at
from .tcpx import DAEMON

_JOB = {
    "backoffLimit", "completionMode", "completions", "parallelism", "podFailurePolicy", "podReplacementPolicy",
    "template",
}  # fmt: skip
_SET = {"failurePolicy", "network", "replicatedJobs", "successPolicy"}
_POD = {
    "affinity", "automountServiceAccountToken", "containers", "dnsPolicy", "enableServiceLinks", "hostNetwork",
    "imagePullSecrets", "initContainers", "nodeSelector", "priorityClassName", "restartPolicy", "securityContext",
    "subdomain", "terminationGracePeriodSeconds", "tolerations",
    "topologySpreadConstraints", "volumes",
}  # fmt: skip
_CONTAINER = {
    "command", "env", "image", "resources", "securityContext", "terminationMessagePolicy",
    "volumeMounts", "workingDir", "name",
}  # fmt: skip
OWN: Mapping[Path, set[str]] = {
    **{path: _JOB | ({"activeDeadlineSeconds"} if path[0] != "TrainingRuntime" else set()) for path in JOBS},
    ("Job", "spec"): _JOB | {"activeDeadlineSeconds", "ttlSecondsAfterFinished"},
    ("JobSet", "spec"): _SET | {"ttlSecondsAfterFinished"},
    RUNTIME: _SET,
    ("TrainJob", "spec"): {"activeDeadlineSeconds", "runtimeRef", "trainer"},
    ("Pod", "spec"): _POD,
    ("Pod", "spec", "containers"): {CONTAINER},
    ("Pod", "spec", "initContainers"): {PREFLIGHT, DAEMON},
    ("Pod", "spec", "containers", CONTAINER): _CONTAINER,
    ("Pod", "spec", "initContainers", PREFLIGHT): _CONTAINER,
}


OPTIONS = {
    "serviceAccountName": "backend.service_account",
    "runtimeClassName": "backend.runtime_class",
    "imagePullPolicy": "backend.image_pull_policy",
}


def unasked(trees: Mapping[str, Any]) -> dict[str, str]:
    return {f"{at}.{name}": OPTIONS.get(name, "") for at, name in _others(trees)}


def _others(trees: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for path, own in OWN.items():
        for at, value in values_at(trees, path):
            if isinstance(value, Mapping):
                yield from ((".".join(at), name) for name in value if name not in own)
