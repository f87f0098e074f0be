"""Backend kubernetes on the pod runner: what its verbs print before, during and after a run, and what they leave
behind.
"""

from __future__ import annotations

import hashlib
import os
import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from jobc.tests.backends.pods import Job, Rack
from jobc.tests.podrunner import KUBECTL, PodRunner
from jobc.tests.testbed import Cluster, wait_for

pytestmark = pytest.mark.engine


@pytest.fixture(scope="module")
def runner(cluster: Cluster) -> Iterator[PodRunner]:
    with PodRunner(cluster) as runner:
        yield runner


@pytest.fixture
def make(runner: PodRunner, tmp_path: Path) -> Iterator[Callable[..., Job]]:
    rack = Rack(runner, tmp_path)
    yield rack.make
    rack.clear()


def test_logs_are_of_the_node_or_the_rank_that_was_asked_for(make: Callable[..., Job]) -> None:
    job = make(program="0 200")
    for verb in ("logs", "status", "stop"):
        assert job(verb)[0] == 1, "there is no run"
    assert job("submit", "--run-id", "a")[0] == 0
    job.wait_until_up(4, attempt=0)
    assert job("status", "--all") == (0, f"{'a':<22} live, in namespace testbed of context testbed\n")
    assert re.search(r"^  node 01  pod job-\S*-1-\S* running on node\d$", job("status")[1], re.MULTILINE)
    for words, file in (
        ((), "node_00"),
        (("--node", "01"), "node_01"),
        (("--rank", "3"), "rank_03"),
        (("--run", "a", "--rank", "00"), "rank_00"),
    ):
        assert job("logs", *words) == (0, (job.run / f"logs/{file}.log").read_text()), words
    code, said = job("logs", "--rank", "9")
    assert code == 1 and "run a has no logs/rank_09.log on the storage" in said, said
    assert job("logs", "--run", "b")[0] == 1
    assert job("shell", "--node", "2", "--", "true")[0] == 2

    followers = [follow(job), follow(job, "--node", "1"), follow(job, "--rank", "3")]
    code, said = job("stop")
    assert code == 0 and "stopping run a: it has 5 s to exit" in said, said
    said = [follower.communicate(timeout=90) for follower in followers]
    assert all(follower.returncode == 0 for follower in followers) and not any(errors for _, errors in said), said
    everything, of_node, of_rank = (output for output, _ in said)
    assert {line[:3] for line in everything.splitlines()[:-1]} == {"0: ", "1: "} and "stopped" in everything
    assert {line[:3] for line in of_node.splitlines()[:-1]} == {"1: "} and "stopped" in of_node
    assert of_rank.startswith((job.run / "logs/rank_03.log").read_text())
    assert re.match(r"stopping\b|stopped by jobctl stop \(exit 0\)$", of_rank.splitlines()[-1]), (
        "as jobctl status says it"
    )

    assert job("stop")[0] == 1, "it has ended"
    for words in ((), ("--follow", "--node", "0")):
        assert "exit 0: stopped" in job("logs", *words)[1]
    assert job("logs", "--node", "1") == (0, (job.run / "logs/node_01.log").read_text())
    wait_for(lambda: not shells(job), "no pod beside the job")


def shells(job: Job) -> list[str]:
    """Pods in which a verb looked at the storage."""
    names = [str(pod["metadata"]["name"]) for pod in job.runner.pods()]
    return [name for name in names if "-shell-" in name]


def follow(job: Job, *words: str) -> subprocess.Popen[str]:
    path = f"{os.path.dirname(KUBECTL)}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "KUBECONFIG": str(job.runner.kubeconfig)}
    command = [str(job.artifact / "jobctl"), "logs", "--follow", *words]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_a_job_compiled_again_asks_for_the_object_that_its_run_has(make: Callable[..., Job]) -> None:
    first = make(program="0 200")
    assert first("submit", "--run-id", "a")[0] == 0
    first.wait_until_up(4, attempt=0)
    job = make("time=2h", "backend.flavor=jobset", program="0 200")
    assert job.artifact == first.artifact and job.name != (kept := record(job, "a"))["object"]
    assert job("status", "--all") == (0, f"{'a':<22} live, in namespace testbed of context testbed\n")
    code, said = job("status")
    assert code == 0 and said.count(f"pod {kept['object']}-") == 2, said
    assert job("logs", "--rank", "3") == (0, (job.run / "logs/rank_03.log").read_text())
    assert job("shell", "--node", "1", "--", "bash", "-c", "echo $JOBC_RUN_ID") == (0, "a\n")
    code, said = job("submit", "--resume", "a")
    assert code == 1 and "run a is live" in said, said
    code, said = job("clean", "--keep", "0", "--yes")
    assert code == 0 and f"run a is kept: job.batch {kept['object']} is live" in said, said
    assert job.run.is_dir() and kept == record(job, "a")

    code, said = job("stop")
    assert code == 0 and "stopped by jobctl stop" in said, said
    code, said = job("submit", "--resume", "a")
    assert code == 0, said
    job.wait_until_up(4, attempt=1)
    assert record(job, "a", attempt=1)["object"] == job.name and job("stop", "--now")[0] == 0
    code, said = job("clean", "--keep", "0", "--yes")
    assert code == 0 and said.endswith("removed a\n"), said


def record(job: Job, run: str, attempt: int = 0) -> dict[str, str]:
    file = job.artifact.parents[2] / "runs/job" / run / "state" / f"job_{attempt}"
    return dict(line.split("=", 1) for line in file.read_text().splitlines())


def test_a_second_job_of_a_live_run_ends_when_it_sees_the_first(
    make: Callable[..., Job], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As from another machine, which has no record of the run."""
    first = make(program="0 200")
    assert first("submit", "--run-id", "a")[0] == 0
    first.wait_until_up(4, attempt=0)
    pods = first.pods("Running")
    with monkeypatch.context() as elsewhere:
        elsewhere.setenv("JOBC_RUN_ROOT", str(tmp_path / "elsewhere"))
        second = make("time=2h", program="0 200")
        code, said = second("submit", "--wait", "--run-id", "a")
        assert code == 1, said
        (pod, *_) = second.runner.pods("Failed")
        assert re.search("run a is live: node 0[01] of another job is writing to it", second.runner.log(pod))
    assert len(pods) == 2 and {*pods} == {pod["metadata"]["name"] for pod in first.runner.pods("Running")}
    assert [start.name[:2] for start in (first.run / "starts").iterdir()] == ["0."]
    assert first("stop", "--now")[0] == 0


def test_dashes_at_the_end_of_a_line_do_not_cut_what_a_pod_beside_the_job_gets(make: Callable[..., Job]) -> None:
    job = make("nodes=1", "env.BANNER='--- hello ---'", program="0 0 ---")
    items = {item["kind"]: item for item in yaml.safe_load_all((job.artifact / "job.yaml").read_text())}
    files = items["ConfigMap"]["data"]
    assert re.search(" ---$", files["launch.sh"], re.MULTILINE)
    code, said = job("shell", "--", "bash", "-c", "echo $BANNER; sha256sum /jobc/artifact/launch.sh")
    assert code == 0 and said.startswith("--- hello ---\n"), said
    assert hashlib.sha256(files["launch.sh"].encode()).hexdigest() in said
    wait_for(lambda: not list(job.runner.store.all("configmaps")), "the ConfigMap goes with its pod")


def test_a_refused_trainjob_leaves_no_runtime_and_no_run(make: Callable[..., Job]) -> None:
    """And the runtime comes first also for who creates them by hand."""
    job = make("backend.flavor=trainjob", program="0 0")
    printed = (job.artifact / "job.yaml").read_text()
    assert re.findall("^kind: (.*)", printed, re.MULTILINE) == ["TrainingRuntime", "TrainJob", "ConfigMap"]
    code, said = job("preflight", "--queue-only")
    assert code == 0 and said.startswith("ok    the cluster accepts the job"), said
    text = (job.artifact / "job.yaml").read_text()
    (job.artifact / "job.yaml").write_text(text.replace("  trainer:\n", "  trainner: {}\n  trainer:\n", 1))
    code, said = job("submit")
    assert code == 1 and "the cluster rejects the job" in said and "TrainJob" in said, said
    assert job("preflight", "--queue-only")[0] == 1
    kinds = ("trainjobs", "trainingruntimes", "configmaps")
    assert not [item for kind in kinds for item in job.runner.store.all(kind)] and job("status")[0] == 1


@pytest.mark.parametrize("flavor", ["job", "jobset"])
def test_a_job_whose_pods_are_refused_says_why(make: Callable[..., Job], flavor: str) -> None:
    job = make(f"backend.flavor={flavor}", "queue.priority=urgent", program="0 0")
    assert job("submit", "--run-id", "a")[0] == 0
    wait_for(lambda: "FailedCreate" in job("status")[1], "the event")
    code, said = job("status")
    assert code == 0 and "live, 0 of 2 pods exist, in namespace testbed" in said, said
    assert "\n  FailedCreate: Error creating: pods" in said and "no PriorityClass with name urgent was found\n" in said
    assert "0 of 2 pods exist" in job("status", "--all")[1]
    assert "stopped by jobctl stop; its object was deleted" in job("stop")[1]


def test_every_call_is_for_the_context_and_namespace_of_the_run(
    make: Callable[..., Job], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = make(program="0 200")
    assert job("submit", "--run-id", "a")[0] == 0
    job.wait_until_up(4, attempt=0)
    other = tmp_path / "kubeconfig"
    text = job.runner.kubeconfig.read_text().replace("current-context: testbed", "current-context: other")
    other.write_text(text.replace("namespace: testbed", "namespace: elsewhere"))
    monkeypatch.setattr(job.runner, "kubeconfig", other)
    assert "cannot query namespace elsewhere of context other" in job("submit", "--fork", "a")[1]
    assert " live, in namespace testbed of context testbed\n" in job("status", "--all")[1]
    assert job("status")[1].count(" running on node") == 2
    assert job("logs", "--rank", "3") == (0, (job.run / "logs/rank_03.log").read_text())
    assert job("shell", "--", "bash", "-c", "echo $JOBC_RUN_ID") == (0, "a\n")
    code, said = job("stop")
    assert code == 0 and "stopped by jobctl stop" in said, said
    assert job("logs", "--node", "1") == (0, (job.run / "logs/node_01.log").read_text()), "through a pod of its own"
    code, said = job("clean", "--keep", "0", "--yes")
    assert code == 0 and said.endswith("removed a\n") and not list(job.storage.glob("runs/job/*")), said


def test_what_the_server_refuses_is_not_there_afterwards(make: Callable[..., Job]) -> None:
    job = make(program="0 0")
    text = (job.artifact / "job.yaml").read_text()
    (job.artifact / "job.yaml").write_text(text.replace("completionMode:", "completionsMode:"))
    code, said = job("submit", "--run-id", "a")
    assert code == 1 and "error: the cluster rejects the job in namespace testbed" in said and "completionsMode" in said
    assert f"hint: {job.artifact}/jobctl preflight --queue-only" in said
    assert not [item for kind in ("jobs", "services", "configmaps") for item in job.runner.store.all(kind)]
    assert not list(job.artifact.parents[2].glob("runs/job/*")) and "has no run" in job("status")[1]
    (job.artifact / "job.yaml").write_text(text)
    code, said = job("submit", "--wait", "--run-id", "a")
    assert code == 0, said


def test_clean_looks_into_each_cluster_that_has_had_a_run(
    make: Callable[..., Job], cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = make("nodes=1", program="0 0")
    first = job.runner
    assert job("submit", "--wait", "--run-id", "a")[0] == 0
    with PodRunner(cluster, claims=first.claims) as second:
        both = tmp_path / "kubeconfig"
        text = first.kubeconfig.read_text().replace('127.0.0.1:1"', f'127.0.0.1:{second.server.port}"')
        text = text.replace("namespace: elsewhere", "namespace: testbed")
        both.write_text(text.replace("current-context: testbed", "current-context: other"))
        monkeypatch.setattr(first, "kubeconfig", both)
        code, said = job("submit", "--wait", "--run-id", "b")
        assert code == 0 and "in namespace testbed of context other" in said, said
        code, said = job("clean", "--keep", "0", "--yes")
        assert code == 0 and said.endswith("removed b\nremoved a\n") and not list(job.storage.glob("runs/job/*")), said
        for runner in (first, second):
            wait_for(
                lambda runner=runner: all("-shell" not in pod["metadata"]["name"] for pod in runner.pods()), "none"
            )
    both.write_text(text)


def test_a_pod_that_cannot_end_is_told_with_what_lets_another_take_its_place(make: Callable[..., Job]) -> None:
    """A frozen one, as on a node that has no power."""
    job = make("nodes=1", program="0 200")
    assert job("submit", "--run-id", "a")[0] == 0
    job.wait_until_up(2, attempt=0)
    assert "no power" not in job("status")[1]
    (pod,) = job.runner.pods("Running")
    process = job.runner.process(pod)
    assert process is not None
    os.kill(process.pid, signal.SIGSTOP)
    pod["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "grace": 600}
    said = job("status")[1]
    os.kill(process.pid, signal.SIGCONT)
    host = pod["spec"]["nodeName"]
    assert f"should have ended by 2026-01-01T00:00:00Z, but node {host} has not confirmed this" in said, said
    assert f"kubectl taint node {host} node.kubernetes.io/out-of-service=nodeshutdown:NoExecute\n" in said
