"""A user's script on Kubernetes with nothing but an image: jobctl submit sends the code; runs are deleted with the
pods.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobc.compiler.pipeline.compile import compile_job, write_compiled_job
from jobc.compiler.pipeline.types import CompileRequest
from jobc.tests.backends.pods import Job
from jobc.tests.podrunner import KUBECTL, PodRunner
from jobc.tests.testbed import Cluster, wait_for

pytestmark = pytest.mark.engine

TRAIN = """
import sys
import helper
import torch.distributed as dist
dist.init_process_group("gloo")
print("rank", dist.get_rank(), "of", dist.get_world_size(), helper.WORD, sys.argv[1:], flush=True)
dist.destroy_process_group()
"""
NO_TORCH = """
import os, sys, time
import helper
print("rank", os.environ["RANK"], helper.WORD, flush=True)
if "--fail" in sys.argv and os.environ["RANK"] == "1":
    raise KeyError("label_17")
time.sleep(float(sys.argv[1]))
"""


@pytest.fixture(scope="module")
def runner(cluster: Cluster) -> Iterator[PodRunner]:
    with PodRunner(cluster) as runner:
        yield runner


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "train.py").write_text(TRAIN)
    (folder / "no_torch.py").write_text(NO_TORCH)
    (folder / "helper.py").write_text("WORD = 'from the submit host'\n")
    (folder / ".gitignore").write_text("data/\n")
    (folder / "data").mkdir()
    (folder / "data/large.bin").write_bytes(os.urandom(1 << 20))
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    return folder


@pytest.fixture
def make(runner: PodRunner, project: Path) -> Iterator[object]:
    made: list[Job] = []

    def job(*words: str, command: tuple[str, ...]) -> Job:
        given = ("backend=kubernetes", "image=x", "nodes=2", "procs=1", "name=own", "lifecycle.grace=5s")
        compiled = compile_job(CompileRequest((*given, *words), command))
        made.append(Job(runner, project, write_compiled_job(compiled, project / "artifacts", force=True)))
        return made[-1]

    yield job
    environment = {**os.environ, "KUBECONFIG": str(runner.kubeconfig)}
    subprocess.run([KUBECTL, "delete", "jobs,jobsets", "--all", "--cascade=foreground"], env=environment, check=True)
    for each in made:
        wait_for(lambda each=each: not each.pods(), "no pods")


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize("flavor", ["job", "jobset"])
def test_the_code_is_sent_and_two_pods_train(make, flavor: str) -> None:  # type: ignore[no-untyped-def]
    job = make(f"backend.flavor={flavor}", command=("train.py", "0", "--lr", "1"))
    code, said = job("submit", "--wait")
    assert code == 0, said
    code, said = job("logs", "--node", "0")
    assert "rank 0 of 2 from the submit host ['0', '--lr', '1']" in said, said
    code, said = job("submit", "--resume", "anything")
    assert code == 65 and "deleted with their pods" in said
    assert "done (exit 0)" in job("status")[1]


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_failed_rank_ends_the_job_with_its_code_and_no_pod_starts_again(make) -> None:  # type: ignore[no-untyped-def]
    job = make("launcher=spawn", "lifecycle.max_requeues=3", command=("no_torch.py", "60", "--fail"))
    code, said = job("submit", "--wait")
    assert code == 1, said
    assert len(job.pods()) <= 2
    said = job("status")[1]
    assert "failed (exit 1" in said and "rank 1 failed first" in said and "--resume" not in said, said


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_preflight_and_stop(make) -> None:  # type: ignore[no-untyped-def]
    job = make("launcher=spawn", command=("no_torch.py", "300"))
    code, said = job("preflight")
    assert code == 0 and "ready: 2 nodes" in said, said
    code, said = job("submit")
    assert code == 0, said
    wait_for(lambda: "from the submit host" in job("logs", "--node", "0")[1], "its node is up")
    code, said = job("stop")
    assert code == 0, said
    assert "stopped" in job("status")[1]


def test_without_the_code_a_pod_says_what_it_lacks(make) -> None:  # type: ignore[no-untyped-def]
    job = make("launcher=spawn", command=("no_torch.py", "0"))
    environment = {**os.environ, "KUBECONFIG": str(job.runner.kubeconfig)}
    subprocess.run(
        [KUBECTL, "apply", "-f", str(job.artifact / "job.yaml")], env=environment, check=True, capture_output=True
    )
    wait_for(lambda: job.pods("Failed"), "a pod that failed")
    done = subprocess.run(
        [KUBECTL, "logs", job.pods("Failed")[0]], env=environment, capture_output=True, text=True, check=False
    )
    assert "the code was not sent with this job" in done.stdout + done.stderr
