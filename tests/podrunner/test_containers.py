"""The pod runner does what Kubernetes v1.36.2 was seen to do: init containers, sidecars, a second container."""

from __future__ import annotations

from typing import Any

import pytest

from jobc.tests.testbed import wait_for

from .job_run import RULES, Run
from .store import Object

ENGINE = pytest.mark.engine


def bash(name: str, script: str, **more: Any) -> Object:
    mount = {"volumeMounts": [{"name": "v", "mountPath": "/v"}]}
    return {"name": name, "image": "x", "command": ["bash", "-c", script], **mount, **more}


VOLUME = {"volumes": [{"name": "v", "emptyDir": {}}]}
SAYS = 'say() { echo "$*" >>/v/said; }; trap "say end of $0; exit 9" TERM; say $0; sleep 60 & wait'


@ENGINE
def test_init_containers_run_one_after_another_and_a_sidecar_from_its_place_to_the_end(run: Run) -> None:
    init = [
        bash("first", "sleep 0.3; echo first $JOB_COMPLETION_INDEX >>/v/said"),
        {**bash("one", ""), "command": ["bash", "-c", SAYS, "one"], "restartPolicy": "Always"},
        bash("second", "until grep -q one /v/said; do sleep 0.1; done; echo second >>/v/said"),
        {**bash("two", ""), "command": ["bash", "-c", SAYS, "two"], "restartPolicy": "Always"},
        bash("short", "echo short; exit 3", restartPolicy="Always"),
    ]
    last = "sleep 2; echo main >>/v/said"
    job = run("bash", "-c", last, pod={**VOLUME, "initContainers": init, "containers": [bash("c", last)]})
    job.wait("Complete")
    (pod,) = job.pods()
    folder = job.runner.log_file(pod).parents[1]  # type: ignore[union-attr]
    said = (folder / "volumes" / "v" / "said").read_text().splitlines()
    assert said == ["first 0", "one", "second", "two", "main", "end of two", "end of one"]
    states = {each["name"]: each for each in pod["status"]["initContainerStatuses"]}
    assert states["one"]["state"]["terminated"]["exitCode"] == 9, "which does not matter"
    assert states["short"]["restartCount"] >= 1, "a sidecar that ends is started again"


@ENGINE
def test_an_init_container_that_fails_fails_the_pod_and_a_rule_for_another_does_not_see_it(run: Run) -> None:
    side = {**bash("side", ""), "command": ["bash", "-c", SAYS, "side"], "restartPolicy": "Always"}
    pod = {**VOLUME, "initContainers": [side, bash("wait", "echo told; exit 65")]}
    job = run("true", pod=pod, spec={"backoffLimit": 1, **RULES})
    assert job.wait("Failed")["reason"] == "BackoffLimitExceeded"
    for each in job.pods():
        assert each["status"]["containerStatuses"][0]["state"] == {"waiting": {"reason": "PodInitializing"}}
        assert job.runner.log(each, "wait") == "told\n" and not job.runner.log(each)
    assert len(job.pods("Failed")) == 2
    rule = {"action": "FailJob", "onExitCodes": {"containerName": "wait", "operator": "In", "values": [65]}}
    job = run("true", pod=pod, spec={"backoffLimit": 3, "podFailurePolicy": {"rules": [rule]}})
    assert "Container wait" in job.wait("Failed")["message"]


@ENGINE
def test_a_pod_that_is_deleted_ends_its_sidecar_last_and_all_within_its_grace(run: Run) -> None:
    side = {**bash("side", ""), "command": ["bash", "-c", SAYS, "side"], "restartPolicy": "Always"}
    main = {**bash("c", ""), "command": ["bash", "-c", SAYS.replace("exit 9", "sleep 1; say gone; exit 9"), "main"]}
    pod = {**VOLUME, "initContainers": [side], "containers": [main], "terminationGracePeriodSeconds": 4}
    job = run("x", pod=pod, spec={"activeDeadlineSeconds": 2, "backoffLimit": 0})
    wait_for(lambda: bool(job.pods("Running")), "the pod")
    (made,) = job.pods()
    folder = job.runner.log_file(made).parents[1]  # type: ignore[union-attr]
    job.wait("Failed")
    said = (folder / "volumes" / "v" / "said").read_text().splitlines()
    assert said == ["side", "main", "end of main", "gone", "end of side"]


@ENGINE
def test_a_pod_of_two_containers_ends_with_the_last_and_fails_with_any(run: Run) -> None:
    pod = {**VOLUME, "containers": [bash("c", "exit 0"), bash("d", "sleep 1; echo late; exit 4")]}
    job = run("x", pod=pod, spec={"backoffLimit": 0})
    job.wait("Failed")
    (made,) = job.pods()
    assert job.runner.log(made, "d") == "late\n"
    codes = [each["state"]["terminated"]["exitCode"] for each in made["status"]["containerStatuses"]]
    assert codes == [0, 4]
