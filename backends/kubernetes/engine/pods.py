"""Parse a run's pods from the output of `kubectl get pods --output=json`. Packed into jobctl; Python 3.8."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from ....runtime.system.values import number_or_none

INDEX = "batch.kubernetes.io/job-completion-index"
STUCK = ("ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "CreateContainerConfigError")


class PodStatus(NamedTuple):
    """One pod of a run.

    exit: exit code of the ranks' container
    waits: why the pod is not starting
    init: the init containers that failed, if the ranks have not started
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


def parse_pods(text: str) -> list[PodStatus]:
    """Return the pods in kubectl's output, newest last."""
    try:
        items = json.loads(text)["items"]
    except (ValueError, KeyError):
        return []
    items.sort(key=lambda item: item["metadata"].get("creationTimestamp", ""))
    return [pod for item in items if (pod := _parse_pod(item)) is not None]


def running_pods(pods: list[PodStatus]) -> list[PodStatus]:
    return [pod for pod in pods if pod.phase == "Running"]


def why_pod_is_waiting(item: Any) -> tuple[str, bool]:
    """Return why a pod in kubectl's JSON is not starting: it has no node, or one of its containers cannot start.

    The second value is True if the pod is stuck: it will not start unless the job or the cluster is fixed.
    """
    status = item.get("status", {})
    for condition in status.get("conditions", ()):
        if condition.get("reason") == "Unschedulable":
            return condition.get("message", ""), False
    reasons = [("", False)]
    for kind, prefix in (("initContainerStatuses", "init container "), ("containerStatuses", "container ")):
        for container in status.get(kind, ()):
            waiting = container.get("state", {}).get("waiting")
            if waiting:
                name = "" if container.get("name") == "node" else f"{prefix}{container.get('name')}: "
                reason, message = waiting.get("reason", ""), waiting.get("message", "")
                reasons.append((f"{name}{reason}{message and f': {message}'}", reason in STUCK))
    return max(reasons, key=lambda reason: (reason[1], ": " in reason[0], bool(reason[0])))


def _parse_pod(item: Any) -> PodStatus | None:
    metadata, status = item["metadata"], item.get("status", {})
    node = number_or_none(str(metadata.get("labels", {}).get(INDEX, "")))
    if node is None:
        return None
    phase, exits = str(status.get("phase", "")), _exit_codes(status.get("containerStatuses", ()))
    init_exits = _exit_codes(status.get("initContainerStatuses", ()))
    init = " ".join(f"init container {name} exited with {code}" for name, code in init_exits.items() if code)
    return PodStatus(
        node,
        str(metadata["name"]),
        phase,
        str(item.get("spec", {}).get("nodeName", "")),
        exits.get("node"),
        why_pod_is_waiting(item)[0],
        init if phase == "Failed" and "node" not in exits else "",
        str(metadata.get("deletionTimestamp", "")),
    )


def _exit_codes(statuses: Any) -> dict[str, int]:
    ended = {str(container.get("name")): container.get("state", {}).get("terminated") for container in statuses}
    return {name: int(state.get("exitCode", 0)) for name, state in ended.items() if state}
