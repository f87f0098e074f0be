"""A Job of the pod runner for tests, and restart rules that several tests use."""

from __future__ import annotations

from collections.abc import Callable

from jobc.tests.testbed import wait_for

from . import PodRunner
from .controller import has
from .store import Object

RULES = {"podReplacementPolicy": "Failed", "podFailurePolicy": {"rules": [
    {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
    {"action": "FailJob", "onExitCodes": {"containerName": "c", "operator": "NotIn", "values": [69, 75]}},
]}}  # fmt: skip


class JobRun:
    """A Job of the runner, and a Service with the same name."""

    def __init__(self, runner: PodRunner, job: Object) -> None:
        self.runner, self.job, self.name = runner, job, job["metadata"]["name"]

    def pods(self, phase: str = "") -> list[Object]:
        found = [pod for pod in self.runner.pods(phase) if pod["metadata"]["labels"].get("job-name") == self.name]
        return sorted(found, key=lambda pod: pod["metadata"]["name"])

    def wait(self, kind: str) -> Object:
        """Wait until the Job has that condition."""
        wait_for(lambda: has(self.job, kind), f"{kind} of {self.name}", 60)
        return next(c for c in self.job["status"]["conditions"] if c["type"] == kind)

    def logs(self) -> list[str]:
        return [self.runner.log(pod) for pod in self.pods()]

    def codes(self) -> list[int]:
        return [pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] for pod in self.pods()]


Run = Callable[..., JobRun]
