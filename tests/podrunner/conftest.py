"""A pod runner, and Jobs in it that are removed when their test ends."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from jobc.tests.testbed import Cluster, wait_for

from . import PodRunner
from .job_run import JobRun, Run
from .runner import NAMESPACE
from .schema import invalid, problem

_numbers = itertools.count()


@pytest.fixture(scope="module")
def runner(cluster: Cluster) -> Iterator[PodRunner]:
    with PodRunner(cluster) as runner:
        yield runner


@pytest.fixture
def run(runner: PodRunner) -> Iterator[Run]:
    made: list[JobRun] = []

    def run(
        *command: str, pods: int = 1, not_ready: bool = True, spec: Any = (), pod: Any = (), container: Any = ()
    ) -> JobRun:
        name = f"j{next(_numbers)}"
        node = {"name": "c", "image": "x", "command": list(command), **dict(container)}
        template = {"subdomain": name, "restartPolicy": "Never", "containers": [node], **dict(pod)}
        job = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": name, "namespace": NAMESPACE},
            "spec": {
                "completionMode": "Indexed",
                "completions": pods,
                "parallelism": pods,
                "template": {"metadata": {"labels": {"app": name}}, "spec": template},
                **dict(spec),
            },
        }
        assert not problem(job) and not invalid(job)
        with runner.store.changed:
            headless = {"clusterIP": "None", "publishNotReadyAddresses": not_ready, "selector": {"app": name}}
            item = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": headless}
            runner.store.add("services", item)
            runner.store.add("jobs", job)
        made.append(JobRun(runner, job))
        return made[-1]

    yield run
    for each in made:
        with runner.store.changed:
            each.job["metadata"]["deletionTimestamp"] = "now"
            for pod in each.pods():
                pod["metadata"]["grace"] = 0
    for each in made:
        wait_for(lambda each=each: not each.pods(), "no pods", 60)
