"""Backend kubernetes with its runs in a bucket: one training through all flavors, with every verb; moto is the store.

The pods have no folder in common. Attempt 0, in a Job, is held where it has saved, looked at, and killed; attempt 1, in
a JobSet, goes on to the end; a TrainJob makes a run of its own from it. Each test is a claim about that one story.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from jobc.compiler.pipeline.compile import compile_job, write_compiled_job
from jobc.compiler.pipeline.types import CompileRequest
from jobc.tests.backends.pods import Job, Rack
from jobc.tests.podrunner import KUBECTL, PodRunner
from jobc.tests.storage.s3_server import S3Server
from jobc.tests.testbed import Cluster, wait_for
from jobc.tests.testbed.process import in_namespace

pytestmark = [pytest.mark.engine, pytest.mark.slow, pytest.mark.timeout(500), pytest.mark.xdist_group("bucket")]

TRAIN = ("task=digits", "loop.epochs=null", "loop.steps=240", "checkpoint.every_steps=40", "threads=1")
SAID = tuple[int, str]


@dataclass
class Story:
    """The scripts' output for each call, and the objects that were in the bucket at that time."""

    said: dict[str, SAID] = field(default_factory=dict)
    listed: dict[str, str] = field(default_factory=dict)


@pytest.fixture(scope="module")
def runner(cluster: Cluster) -> Iterator[PodRunner]:
    with PodRunner(cluster) as runner:
        yield runner


@pytest.fixture(scope="module")
def bucket(runner: PodRunner, cluster: Cluster) -> Iterator[S3Server]:
    """Run the server on the login host, where the pods can reach it; its keys are in a Secret."""
    login, nothing = cluster.login, subprocess.DEVNULL
    with S3Server(
        cluster.shape.address("login"),
        lambda command, env: login.popen(command, env=env, stdout=nothing, stderr=nothing),
        lambda command, env: login.run(command, env=env, check=True).stdout,
    ) as server:
        environment = {**os.environ, "KUBECONFIG": str(runner.kubeconfig)}
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "store"}, "stringData": server.environment}
        create = [KUBECTL, "create", "--filename=-"]
        subprocess.run(create, input=json.dumps(secret), env=environment, check=True, capture_output=True, text=True)
        yield server


@pytest.fixture(scope="module")
def story(runner: PodRunner, bucket: S3Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    folder = tmp_path_factory.mktemp("bucket")
    rack = Rack(runner, folder)
    keys = [f"secrets.{name}=k8s:store/{name}" for name in bucket.environment]
    words = (*bucket.overrides, *keys, *TRAIN, "code=image", "procs=1", f"storage.scratch={folder}/scratch")
    seen = Story()

    def ask(what: str, job: Job, script: str, *arguments: str) -> SAID:
        seen.said[what] = job(script, *arguments)
        return seen.said[what]

    job = rack.make(*words)
    ask("submit", job, "submit", "--run-id", "first")
    hold(runner, folder / "scratch" / "node_00" / "job" / "first")
    wait_for(lambda: any(key.endswith("/MANIFEST.json") for key in bucket.listed()), "a checkpoint in the bucket")
    ask("status of a live run", job, "status")
    ask("shell beside it", job, "shell", "--node", "1", "--", "bash", "-c", "echo $JOBC_RUN_ID $JOBC_NODE_RANK")
    for pod in runner.pods("Running"):
        process = runner.process(pod)
        assert process is not None
        os.kill(process.pid, signal.SIGKILL)
    wait_for(lambda: "failed" in ask("status of a killed one", job, "status")[1], "the end of both pods")
    seen.listed["killed"] = " ".join(bucket.listed())

    job = rack.make(*words, "backend.flavor=jobset", "backend.preflight=true")
    ask("resume", job, "submit", "--wait", "--resume", "first")
    ask("log of rank 0", job, "logs", "--rank", "0")
    ask("log of node 0", job, "logs", "--follow", "--node", "0")
    seen.listed["resumed"] = " ".join(bucket.listed())

    job = rack.make(*words, "backend.flavor=trainjob", "loop.steps=20")
    ask("fork", job, "submit", "--wait", "--fork", "first", "--run-id", "second")
    ask("log of the fork", job, "logs", "--run", "second", "--rank", "1")
    ask("shell alone", job, "shell", "--", "bash", "-c", "echo alone in $PWD; exit 3")
    ask("smoke", job, "smoke")
    seen.listed["forked"] = " ".join(bucket.listed())
    ask("clean", job, "clean", "--keep", "0", "--yes")
    seen.listed["cleaned"] = " ".join(bucket.listed())
    yield seen
    rack.clear()


def hold(runner: PodRunner, run: Path) -> None:
    """Stops the ranks, and only them, when they have saved: what is asked next meets a live run, however fast it is."""
    wait_for(lambda: any((run / "checkpoints").glob("step_*")), "a checkpoint on node 0")
    for pod in runner.pods("Running"):
        process = runner.process(pod)
        assert process is not None, "the training was over before it could be held"
        for each in in_namespace(process.pid):
            if "RANK" in each.environment:
                os.kill(each.pid, signal.SIGSTOP)
    assert not (run / "final").exists(), "the training was over before it could be held"


def test_a_live_run_is_seen_through_its_pods(story: Story) -> None:
    assert story.said["submit"][0] == 0, story.said["submit"][1]
    status = story.said["status of a live run"][1]
    assert "live" in status and ", loss " in status, "the metrics of the pod that runs"
    assert story.said["shell beside it"] == (0, "first 1\n")


def test_a_killed_run_goes_on_as_a_jobset_and_ends_with_the_weights_of_local(story: Story, tmp_path: Path) -> None:
    assert "final/weights.pt" not in story.listed["killed"]
    code, said = story.said["resume"]
    assert code == 0, said
    log = story.said["log of rank 0"][1]
    assert "attempt 0, rank 0" in log, log
    assert "downloaded checkpoints/step_" in story.said["log of node 0"][1]
    local = compile_job(CompileRequest(("backend=local", "procs=2", "launcher=spawn", *TRAIN)))
    program = write_compiled_job(local, tmp_path / "artifacts") / "jobctl"
    done = subprocess.run([program, "submit"], cwd=tmp_path, capture_output=True, text=True, check=True, timeout=170)
    found = re.findall(r"sha256 (\w{64})", log)
    assert len(found) == 1 and found == re.findall(r"sha256 (\w{64})", done.stdout)
    assert "first/final/weights.pt" in story.listed["resumed"]


def test_a_trainjob_forks_a_run_that_is_in_the_bucket_only(story: Story) -> None:
    code, said = story.said["fork"]
    assert code == 0, said
    assert "second/final/weights.pt" in story.listed["forked"] and "first/final/weights.pt" in story.listed["forked"]


def test_shell_and_smoke_work_without_a_live_run(story: Story) -> None:
    code, said = story.said["shell alone"]
    assert code == 3 and "alone in " in said, said
    code, said = story.said["smoke"]
    assert code == 0 and "all-reduce" in said, said
    assert ".checks" not in story.listed["forked"]


def test_clean_empties_the_bucket(story: Story) -> None:
    code, said = story.said["clean"]
    assert code == 0 and not story.listed["cleaned"], said
