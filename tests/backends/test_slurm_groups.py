"""Heterogeneous jobs on the test bed: other groups of nodes, whose commands run next to the ranks."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobc.tests.backends.jobs import SPAWN, SRUN, Job, done, make, read, steps, submitted
from jobc.tests.testbed import Cluster, wait_for

pytestmark = pytest.mark.engine

# Tells the ranks where the group runs, and knows where the ranks meet.
SERVER = "echo $(uname -n) for $JOBC_HEAD_ADDR in $(basename $PWD) >$JOBC_RUN_DIR/server; exec sleep 317"
CLIENT = 'until [[ -s $JOBC_RUN_DIR/server ]]; do sleep 0.2; done; echo "found $(cat $JOBC_RUN_DIR/server)"'


def with_group(cluster: Cluster, project: Path, way: str, command: str, client: str) -> Job:
    project.mkdir()
    (project / "group.sh").write_text(command)
    words = ("nodes=2", "procs=2", "cpus=2", "backend.groups=[{nodes: 1, cpus: 2, command: bash group.sh}]")
    return make(cluster, project, way, *words, command=("bash", "-c", client))


def test_each_group_gets_the_resources_that_it_requests(cluster: Cluster, tmp_path: Path) -> None:
    command = "echo gpus=$CUDA_VISIBLE_DEVICES cores=$SLURM_CPUS_PER_TASK"
    groups = f"[{{gpus: 1, cpus: 3, mem: 1GiB, command: {command!r}}}, {{cpus: 2, mem: 500MiB, command: {command!r}}}]"
    words = ("nodes=1", "procs=2", "gpus=2", "cpus=4", "mem=2GiB", f"backend.groups={groups}")
    client = "until [[ -s $JOBC_RUN_DIR/logs/group_1.log && -s $JOBC_RUN_DIR/logs/group_2.log ]]; do sleep 0.2; done"
    job = make(cluster, tmp_path / "job", SPAWN, *words, command=("bash", "-c", client))
    code, said = job("submit", "--wait")
    assert code == 0, said
    assert read(job.run / "logs/group_1.log").splitlines()[-1] == "gpus=0 cores=3"
    assert read(job.run / "logs/group_2.log").splitlines()[-1] == "gpus= cores=2"


@pytest.mark.parametrize("way", [SPAWN, SRUN])
def test_a_group_runs_until_the_ranks_have_ended(cluster: Cluster, tmp_path: Path, way: str) -> None:
    job = with_group(cluster, tmp_path / "job", way, SERVER, CLIENT)
    code, said = job("submit", "--wait")
    assert code == 0 and "done (exit 0)" in said, said
    assert read(job.run / "logs/rank_03.log").splitlines()[-1] == "found node3 for node1 in code"
    cluster.wait_idle()
    assert not cluster.processes("^sleep 317")


def test_a_group_that_fails_stops_the_ranks_and_fails_the_job(cluster: Cluster, tmp_path: Path) -> None:
    job = with_group(cluster, tmp_path / "job", SPAWN, "echo out of memory; exit 3", "sleep 317")
    code, said = job("submit", "--wait")
    assert code == 1
    assert "the command of group 1 exited with 3: see logs/group_1.log" in job("status")[1], said
    assert "out of memory" in read(job.run / "logs/group_1.log")
    cluster.wait_idle()


def test_a_job_with_groups_is_requeued_and_stopped_as_one(cluster: Cluster, tmp_path: Path) -> None:
    group = "backend.groups=[{command: exec sleep 317}]"
    job = steps(cluster, tmp_path / "job", SPAWN, group)
    number = submitted(job)
    assert f"live, job {number}" in job("status")[1]
    cluster.login.run(["scancel", "--batch", "--signal=USR2", number], check=True)
    wait_for(lambda: done(job)[-1][0] == 1, "the second attempt", 100)
    assert len(cluster.processes("^sleep 317")) == 1
    assert job("stop")[0] == 0
    cluster.wait_idle()
    assert "stopped" in job("status")[1]
    assert not cluster.processes("^sleep 317")
