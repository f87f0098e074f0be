"""Parse a run's pods from the output of `kubectl get pods --output=json`. Packed into jobctl; Python 3.8."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from ....runtime.system.values import number_or_none

INDEX = "batch.kubernetes.io/job-completion-index"
STUCK = ("ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "CreateContainerConfigError")


class PodStatus(NamedTuple):
    """One pod of a run.

    exit: exit code of the ranks' container
    waits: why the pod is not starting
    init: the init containers that failed
    gone_at: time by which a deleted pod must have ended
    """

    node: int
    name: str
    phase: str
    host: str
    exit: int | None
    waits: str
    init: str
    gone_at: str


class WaitingReason(NamedTuple):
    """Why a pod is not starting.

    is_stuck: whether the pod cannot start until someone changes something
    """

    text: str = ""
    is_stuck: bool = False


def parse_pods(text: str) -> list[PodStatus]:
    """Return the pods in kubectl's output, newest last."""
    try:
        items = json.loads(text)["items"]
    except (ValueError, KeyError):
        return []
    items.sort(key=lambda item: item["metadata"].get("creationTimestamp", ""))
    return [pod for item in items for pod in _pod(item)]


def running_pods(pods: list[PodStatus]) -> list[PodStatus]:
    return [pod for pod in pods if pod.phase == "Running"]


def why_pod_is_waiting(item: Any) -> WaitingReason:
    """Return why a pod in kubectl's JSON is not starting: it has no node, or one of its containers cannot start."""
    status = item.get("status", {})
    for condition in status.get("conditions", ()):
        if condition.get("reason") == "Unschedulable":
            return WaitingReason(condition.get("message", ""))
    found = [WaitingReason()]
    for kind, prefix in (("initContainerStatuses", "init container "), ("containerStatuses", "container ")):
        for container in status.get(kind, ()):
            waiting = container.get("state", {}).get("waiting")
            if waiting:
                name = "" if container.get("name") == "node" else f"{prefix}{container.get('name')}: "
                reason, message = waiting.get("reason", ""), waiting.get("message", "")
                found.append(WaitingReason(f"{name}{reason}{message and f': {message}'}", reason in STUCK))
    return max(found, key=lambda waiting: (waiting.is_stuck, ": " in waiting.text, bool(waiting.text)))


def _pod(item: Any) -> Iterator[PodStatus]:
    metadata, status = item["metadata"], item.get("status", {})
    node = number_or_none(str(metadata.get("labels", {}).get(INDEX, "")))
    if node is None:
        return
    codes = {kind: list(_exit_codes(status.get(kind, ()))) for kind in ("containerStatuses", "initContainerStatuses")}
    failed = [f"init container {name} exited with {code}" for name, code in codes["initContainerStatuses"] if code]
    yield PodStatus(
        node,
        str(metadata["name"]),
        str(status.get("phase", "")),
        str(item.get("spec", {}).get("nodeName", "")),
        next((code for name, code in codes["containerStatuses"] if name == "node"), None),
        why_pod_is_waiting(item).text,
        " ".join(failed),
        str(metadata.get("deletionTimestamp", "")),
    )


def _exit_codes(statuses: Any) -> Iterator[tuple[str, int]]:
    for container in statuses:
        ended = container.get("state", {}).get("terminated")
        if ended:
            yield str(container.get("name")), int(ended.get("exitCode", 0))
