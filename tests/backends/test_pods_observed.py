"""Backend kubernetes where a real cluster behaved unexpectedly: races, RBAC, late pods, messages.

The first tests need no host: their pods stay Pending.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from jobc.tests.backends.pods import Job, Rack
from jobc.tests.podrunner import KUBECTL, PodRunner
from jobc.tests.podrunner.controller import condition
from jobc.tests.testbed import Cluster, wait_for

pytestmark = pytest.mark.engine

Make = Callable[..., Job]


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PodRunner]:
    """A cluster without hosts."""
    hosts = SimpleNamespace(nodes=(), shared=tmp_path_factory.mktemp("cluster"))
    with PodRunner(cast(Cluster, hosts)) as runner:
        yield runner


@pytest.fixture
def pending(empty: PodRunner, tmp_path: Path) -> Iterator[Make]:
    rack = Rack(empty, tmp_path)
    yield rack.make
    for words in (empty.forbidden, empty.after_dry_run, empty.lost):
        words.clear()
    empty.was_lost = False
    rack.clear()


def started(job: Job, *words: str) -> subprocess.Popen[str]:
    path = f"{os.path.dirname(KUBECTL)}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "KUBECONFIG": str(job.runner.kubeconfig)}
    pipe = subprocess.PIPE
    return subprocess.Popen(
        [job.artifact / "jobctl", *words], env=environment, stdout=pipe, stderr=subprocess.STDOUT, text=True
    )


def records(job: Job) -> dict[str, str]:
    """Run -> uid of its object, as recorded here."""
    files = job.artifact.parents[2].glob("runs/job/*/state/job_*")
    keys = {file.parents[1].name: dict(row.split("=", 1) for row in file.read_text().splitlines()) for file in files}
    return {run: row["uid"] for run, row in keys.items()}


def objects(runner: PodRunner) -> list[tuple[str, str]]:
    kinds = ("jobs", "jobsets", "trainjobs", "trainingruntimes", "configmaps", "services")
    with runner.store.changed:
        return [(kind, item["metadata"]["name"]) for kind in kinds for item in runner.store.all(kind)]


# ---- D1: no submit deletes the job of another one


@pytest.mark.parametrize("flavor", ["job", "trainjob"])
@pytest.mark.parametrize("apart_s", [0, 0.6, 1.2])
def test_of_two_submits_one_starts_the_job_and_the_other_says_so(pending: Make, flavor: str, apart_s: float) -> None:
    job = pending(f"backend.flavor={flavor}", program="0 1")
    first = started(job, "submit", "--run-id", "a")
    time.sleep(apart_s)
    second = started(job, "submit", "--run-id", "b")
    said = {"a": first.communicate()[0], "b": second.communicate()[0]}
    codes = {"a": first.returncode, "b": second.returncode}
    assert sorted(codes.values()) == [0, 1], said
    winner, loser = sorted(codes, key=lambda run: codes[run])
    live = [item for item in job.runner.store.all(f"{flavor}s") if "deletionTimestamp" not in item["metadata"]]
    (made,) = live
    assert records(job) == {winner: made["metadata"]["uid"]}
    assert "is live in" in said[loser] or "another submit" in said[loser], said
    assert ("configmaps", job.name) in objects(job.runner)


def test_what_a_newer_object_of_the_same_name_has_is_not_deleted(pending: Make) -> None:
    """An ended object is replaced between the look of one submit and its deletion."""
    job = pending(program="0 1")
    code, said = job("submit", "--run-id", "a")
    assert code == 0, said
    made = job.runner.store.get("jobs", job.name)
    assert made is not None
    path = f"/apis/batch/v1/namespaces/testbed/jobs/{job.name}"
    body = '{"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": "another"}}'
    environment = {**os.environ, "KUBECONFIG": str(job.runner.kubeconfig)}
    command = [KUBECTL, "delete", "--raw", path, "--filename=-"]
    done = subprocess.run(command, env=environment, input=body, capture_output=True, text=True, check=False)
    assert done.returncode and "(Conflict)" in done.stderr and "deletionTimestamp" not in made["metadata"]
    owned = [item for kind in ("services", "configmaps") for item in job.runner.store.all(kind)]
    assert [item["metadata"]["ownerReferences"][0]["uid"] for item in owned] == [made["metadata"]["uid"]] * 2


# ---- D2: no live job without a record, and the verbs that the user needs


def test_submit_needs_no_verb_but_those_of_the_manual(pending: Make) -> None:
    job = pending(program="0 1")
    kinds = ("jobs", "configmaps", "services", "pods", "events")
    job.runner.forbidden |= {f"{verb} {kind}" for verb in ("patch", "update", "watch") for kind in kinds}
    assert job("submit", "--run-id", "a")[0] == 0
    assert "2 of 2 pods are pending" in job("status")[1]
    code, said = job("stop")
    assert code == 0 and "its object was deleted" in said and "forbidden" not in said, said
    wait_for(lambda: not objects(job.runner), "no object")


@pytest.mark.parametrize("resource", ["configmaps", "services"])
def test_a_submit_that_may_not_create_a_part_leaves_nothing(pending: Make, resource: str) -> None:
    job = pending(program="0 1")
    job.runner.forbidden.add(f"create {resource}")
    code, said = job("submit", "--run-id", "a")
    assert code == 1 and f'cannot create resource "{resource}"' in said, said
    assert not records(job)
    wait_for(lambda: not objects(job.runner), "no object")


def test_a_job_that_cannot_be_taken_back_has_its_record(pending: Make) -> None:
    """It may create jobs, but no ConfigMap, and it may not delete."""
    job = pending(program="0 1")
    job.runner.after_dry_run = {"create configmaps", "delete jobs"}
    code, said = job("submit", "--run-id", "a")
    assert code == 1 and "run a may be live" in said, said
    (made,) = job.runner.store.all("jobs")
    assert records(job) == {"a": made["metadata"]["uid"]}
    job.runner.after_dry_run = set()
    assert "pods are pending" in job("status")[1]
    assert "its object was deleted" in job("stop")[1]


def test_a_job_whose_creation_got_no_answer_is_found_again(pending: Make) -> None:
    job = pending(program="0 1")
    job.runner.lost = {"create jobs", "get jobs"}
    code, said = job("submit", "--run-id", "a")
    assert code == 1 and "run a may be live" in said, said
    assert records(job) == {"a": ""}
    job.runner.lost = set()
    assert "pods are pending" in job("status")[1]
    assert job("submit", "--run-id", "b")[1].count("started by") == 1
    assert "its object was deleted" in job("stop")[1]
    assert not list(job.runner.store.all("jobs"))


# ---- D9: PodSecurity `restricted`


def test_a_restricted_namespace_takes_the_pods_by_one_option(pending: Make) -> None:
    for words, said_is in (
        ((), "FailedCreate: Error creating: pods"),
        (("backend.pod_security=restricted",), "pending"),
    ):
        job = pending("backend.preflight=true", *words, program="0 1")
        job.runner.store.is_restricted = True
        assert job("submit")[0] == 0
        wait_for(lambda job=job, said_is=said_is: said_is in job("status")[1], said_is)
        assert ('violates PodSecurity "restricted:latest"' in job("status")[1]) == (not words)
        assert job("stop")[0] == 0
    job.runner.store.is_restricted = False


# ---- by hand, and from a GitOps tool


def test_apply_again_changes_nothing_and_submit_says_that_the_job_is_there(pending: Make) -> None:
    job = pending(program="0 1")
    environment = {**os.environ, "KUBECONFIG": str(job.runner.kubeconfig)}
    apply = [KUBECTL, "apply", "-f", job.artifact / "job.yaml"]
    subprocess.run(apply, env=environment, check=True, capture_output=True)
    assert "is live in" in job("submit")[1]
    made = job.runner.store.get("jobs", job.name)
    assert made is not None
    with job.runner.store.changed:
        condition(made, "Complete", "CompletionsReached")
    again = subprocess.run(apply, env=environment, check=True, capture_output=True, text=True).stdout
    assert again.count("unchanged") == 3, again
    code, said = job("submit")
    assert code == 1 and "has ended in" in said and "--replace" in said, said
    assert job.runner.store.get("jobs", job.name) is made


# ---- the others need hosts


@pytest.fixture(scope="module")
def runner(cluster: Cluster) -> Iterator[PodRunner]:
    with PodRunner(cluster) as runner:
        yield runner


@pytest.fixture
def make(runner: PodRunner, tmp_path: Path) -> Iterator[Make]:
    rack = Rack(runner, tmp_path)
    yield rack.make
    runner.forbidden.clear()
    rack.clear()


# ---- D3: without pods/exec


def test_without_exec_a_job_is_stopped_and_the_server_is_quoted(make: Make) -> None:
    job = make(program="0 200")
    assert job("submit", "--run-id", "a")[0] == 0
    job.wait_until_up(4, attempt=0)
    job.runner.forbidden.add("create pods/exec")
    code, said = job("logs", "--rank", "3")
    assert code == 1 and 'cannot create resource "pods/exec"' in said and "no logs/rank_03.log" not in said, said
    code, said = job("stop")
    assert code == 0 and 'cannot create resource "pods/exec"' in said and "its object was deleted" in said, said
    wait_for(lambda: not job.pods(), "no pods")


# ---- D5: why a pod waits


def test_status_and_logs_say_what_a_pod_waits_for(make: Make) -> None:
    init = "backend.extra.Pod.spec.initContainers.fetch={image: missing.example/fetch, command: [fetch]}"
    for words, why in (
        (("image=missing.example/a",), 'ImagePullBackOff: Back-off pulling image "missing.example/a"'),
        ((init,), 'init container fetch: ImagePullBackOff: Back-off pulling image "missing.example/fetch"'),
        (("secrets.TOKEN=k8s:nope/key",), 'CreateContainerConfigError: secret "nope" not found'),
    ):
        job = make("nodes=1", *words, program="0 1")
        assert job("submit")[0] == 0
        wait_for(lambda job=job, why=why: why in job("status")[1], why)
        code, said = job("logs")
        assert code == 1 and "has not started: node 0: " in said and why in said, said
        assert not [pod for pod in job.runner.pods() if "-shell-" in pod["metadata"]["name"]]
        assert "its object was deleted" in job("stop")[1]
    code, said = make("nodes=1", "image=missing.example/a", program="0 1")("shell", "--", "true")
    assert code == 1 and "cannot start: ImagePullBackOff" in said, said


# ---- D6: node, rank and traceback


def test_what_a_rank_raised_is_shown_when_the_job_has_failed(make: Make) -> None:
    job = make(program="0 1")
    (job.storage / "program.py").write_text(RAISES)
    code, said = job("submit", "--wait")
    assert code == 1, said
    for text in (said, job("status")[1]):
        assert "reason: node 1: rank 3 failed first (exit 1" in text, text
        assert (
            text.index("Traceback (most recent call last):") > text.index("reason:")
            and '|     labels["label_17"]' in text
        )


RAISES = """
import os, time
labels = {}
if os.environ["RANK"] == "3":
    labels["label_17"]
time.sleep(60)
"""


# ---- D7, D8: an older run, and pods that were deleted by hand


def test_pods_deleted_by_hand_leave_the_exit_code_of_their_storage(make: Make) -> None:
    job = make("lifecycle.max_requeues=0", program="0 200")
    assert job("submit", "--run-id", "a")[0] == 0
    job.wait_until_up(4, attempt=0)
    environment = {**os.environ, "KUBECONFIG": str(job.runner.kubeconfig)}
    subprocess.run([KUBECTL, "delete", "pod", *job.pods()], env=environment, check=True, capture_output=True)
    wait_for(lambda: not job.pods(), "no pods")
    said = job("status")[1]
    assert "stopped early (exit 75)" in said and "its pods were deleted" in said, said
    code, said = job("submit", "--replace", "--run-id", "b")
    assert code == 0, said
    wait_for(lambda: len(job.pods("Running")) == 2, "pods of run b")
    assert "  node " not in job("status", "--run", "a")[1], "those of run b"
    assert job("stop", "--now")[0] == 0
