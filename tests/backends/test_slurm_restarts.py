"""Slurm on the test bed: which jobs are restarted after a time limit or a preemption, and which are not."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from jobc.tests.backends.jobs import SPAWN, SRUN, Job, done, make, read, steps, submitted
from jobc.tests.testbed import Cluster, Shape, wait_for
from jobc.tests.testbed.fixtures import MakeCluster

pytestmark = pytest.mark.engine


def goes_on(job: Job, attempts: int) -> None:
    """The ranks run attempt after attempt, and no step is done twice or left out."""
    wait_for(lambda: all(done(job, rank)[-1][0] == attempts - 1 for rank in range(4)), f"attempt {attempts - 1}")
    for rank in range(4):
        assert [step for _, step in done(job, rank)] == list(range(1, len(done(job, rank)) + 1))


def state(cluster: Cluster, job_id: str) -> str:
    return cluster.login.run(["scontrol", "show", "job", job_id], check=True).stdout


@pytest.mark.parametrize("way", [SPAWN, SRUN])
def test_the_notice_of_the_limit_requeues_at_most_so_often(cluster: Cluster, tmp_path: Path, way: str) -> None:
    """scancel --batch --signal sends what --signal=B:USR2 sends."""
    job = steps(cluster, tmp_path / "job", way, "lifecycle.max_requeues=1")
    number = submitted(job)
    cluster.login.run(["scancel", "--batch", "--signal=USR2", number], check=True)
    goes_on(job, 2)
    cluster.login.run(["scancel", "--batch", "--signal=USR2", number], check=True)
    cluster.wait_idle()
    assert "stopped early (exit 75)" in job("status")[1]
    assert read(job.run / "logs" / f"slurm-{number}.log").count("exit 75: stopped early") >= 2  # one log, appended
    assert done(job)[-1][0] == 1
    assert os.readlink(job.run / "artifact/1") == "0", "a requeue copies nothing"
    assert sorted(path.name for path in (job.run / "exit/0").iterdir()) == ["node_00", "node_01"]
    assert sorted(path.name for path in job.run.glob("state/*_[0-9]")) == ["job_0", "job_1"]


def test_a_requeue_repeats_what_submit_was_given(cluster: Cluster, tmp_path: Path) -> None:
    job = make(cluster, tmp_path / "job", SRUN, "nodes=2", "procs=2", command=("steps.py",))
    code, said = job("submit", "--env", "LABEL=abc", "--", "1000")
    assert code == 0, said
    wait_for(lambda: all(len(done(job, rank)) > 2 for rank in range(4)), "steps")
    number = read(job.run / "state/job_0").splitlines()[0].removeprefix("job_id=")
    cluster.login.run(["scancel", "--batch", "--signal=USR2", number], check=True)
    goes_on(job, 2)
    assert [read(job.run / f"logs/rank_0{rank}.log").count("token abc") for rank in range(4)] == [2] * 4
    assert "  submitted with: --env LABEL=abc -- 1000\n" in job("status")[1]
    assert job("stop")[0] == 0


def test_the_limit_of_the_partition_gives_notice_too(make_cluster: MakeCluster, tmp_path: Path) -> None:
    main = "PartitionName=main Nodes=ALL Default=YES DefaultTime=1 MaxTime=1"
    cluster = make_cluster(Shape(nodes=2, partitions=(main,)))
    job = steps(cluster, tmp_path / "job", SPAWN)
    assert "TimeLimit=00:01:00" in state(cluster, submitted(job))
    wait_for(lambda: done(job)[-1][0] == 1, "the second attempt", 100)
    goes_on(job, 2)
    assert job("stop")[0] == 0


def test_a_job_started_by_sbatch_itself_goes_on_in_its_run(cluster: Cluster, tmp_path: Path) -> None:
    job = steps(cluster, tmp_path / "job", SPAWN)
    out = f"--output={tmp_path}/hand.log"
    done_ = cluster.login.run(["sbatch", "--parsable", out, job.artifact / "job.sbatch"], cwd=job.project, check=True)
    wait_for(lambda: bool(list(job.project.glob("runs/*/*/steps_3"))) and len(done(job, 3)) > 2, "steps")
    cluster.login.run(["scancel", "--batch", "--signal=USR2", done_.stdout.strip()], check=True)
    goes_on(job, 2)
    assert job("stop")[0] == 0


def test_scancel_saves_and_nothing_starts_again(cluster: Cluster, tmp_path: Path) -> None:
    job = steps(cluster, tmp_path / "job", SRUN)
    cluster.login.run(["scancel", submitted(job)], check=True)
    cluster.wait_idle()
    assert "was cancelled with scancel" in job("status")[1]
    assert (job.run / "saved_3").exists() and not cluster.processes("steps.py|jobctl launch")


def test_a_job_that_was_done_is_not_done_again(cluster: Cluster, tmp_path: Path) -> None:
    """Slurm 24.05 and later start one again that ends in the GraceTime of a preemption; scontrol does always."""
    job = steps(cluster, tmp_path / "job", SPAWN, last=3)
    number = submitted(job)
    cluster.wait_idle()
    cluster.login.run(["scontrol", "requeue", number], check=True)
    wait_for(lambda: "finished before Slurm started it again" in read(job.run / "state" / "job_1"), "its end", 60)
    assert done(job)[-1] == (0, 3) and "done (exit 0)" in job("status")[1]


@pytest.mark.parametrize("way", [SPAWN, SRUN])
def test_a_preempted_job_saves_and_goes_on_with_its_secrets(cluster: Cluster, tmp_path: Path, way: str) -> None:
    """Without GraceTime: Slurm requeues it itself, and kills after KillWait."""
    job = steps(cluster, tmp_path / "job", way, "secrets.TOKEN=env:TOKEN")
    number = submitted(job, TOKEN="abc")
    urgent(cluster)
    goes_on(job, 2)
    assert "Restarts=1" in state(cluster, number)
    assert read(job.run / "logs" / "rank_03.log").count("token abc") == 2
    assert job("stop")[0] == 0


def test_a_job_preempted_with_grace_saves_and_goes_on(make_cluster: MakeCluster, tmp_path: Path) -> None:
    """The trainer, through torchrun: it ends with 75 in its GraceTime, and the job asks to be requeued itself."""
    main = "PartitionName=main Nodes=ALL Default=YES DefaultTime=10 MaxTime=60 PriorityTier=1 GraceTime=60"
    second = "PartitionName=urgent Nodes=ALL DefaultTime=10 MaxTime=60 PriorityTier=10"
    cluster = make_cluster(Shape(nodes=2, partitions=(main, second)))
    words = ("nodes=2", "lifecycle.grace=50s", "task=digits", "loop.epochs=null", "loop.steps=1000000")
    job = make(cluster, tmp_path / "job", SPAWN, *words)
    code, said = job("submit")
    assert code == 0, said
    metrics = "metrics/rank_00.jsonl"
    wait_for(lambda: read(job.run / metrics).count("\n") > 5, "steps")
    urgent(cluster)
    wait_for(lambda: '"attempt": 1' in read(job.run / metrics), "the second attempt")
    log = read(job.run / "logs" / "node_00.log")
    assert "exit 75: stopped early" in log
    assert job("stop")[0] == 0
    seen = [(int(at["attempt"]), int(at["step"])) for at in json_lines(job.run / metrics) if "loss" in at]
    last = max(step for attempt, step in seen if attempt == 0)
    assert min(step for attempt, step in seen if attempt == 1) == last + 1


def json_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in read(path).splitlines()]


def urgent(cluster: Cluster) -> None:
    """A job of the other partition that needs all nodes for a moment, waited for."""
    cluster.login.run(f"srun --partition=urgent --nodes={len(cluster.nodes)} --exclusive sleep 1", check=True)


def test_a_job_waits_for_another_and_says_so(cluster: Cluster, tmp_path: Path) -> None:
    first = cluster.login.run(
        ["sbatch", "--parsable", "--wrap=until [ -e end ]; do sleep 0.2; done; exit 1"], cwd=tmp_path, check=True
    )
    job = steps(cluster, tmp_path / "job", SPAWN, f"queue.after=[{first.stdout.strip()}]")
    assert job("submit")[0] == 0
    assert "the jobs that it depends on (queue.after) have not ended" in job("status")[1]
    (tmp_path / "end").touch()
    wait_for(lambda: "can never be met" in job("status")[1], "the end of the first job")
    assert job("stop")[0] == 0
    late = make(cluster, tmp_path / "late", SPAWN, command=("bash", "-c", "true"))
    code, said = late("submit", "--wait", "--after", f"afternotok:{first.stdout.strip()}")
    assert code == 0 and "done (exit 0)" in said, said
