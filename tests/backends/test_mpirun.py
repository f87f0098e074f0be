"""launcher=mpirun, beyond what test_on_hosts.py tests for every way; and srun and mpirun started by someone else."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from jobc.tests.backends.jobs import AS_ROOT, STEPS, make, read, said_by_steps
from jobc.tests.backends.pods import Rack
from jobc.tests.podrunner import PodRunner
from jobc.tests.testbed import Cluster, wait_for

pytestmark = pytest.mark.engine


def test_a_stop_of_slurm_reaches_the_ranks_and_not_mpirun(cluster: Cluster, tmp_path: Path) -> None:
    words = ("nodes=2", "procs=2", "launcher=mpirun", *AS_ROOT)
    job = make(cluster, tmp_path / "my, project", "slurm", *words, command=("program.py", "-", "300"))
    code, said = job("submit")
    assert code == 0, said
    wait_for(lambda: all("up" in read(job.run / f"logs/rank_{rank:02}.log") for rank in range(4)), "four ranks")
    code, said = job("stop")  # scancel signals every process of the step
    assert code == 0 and "stopped by jobctl stop" in said, said
    wait_for(lambda: not cluster.processes("program.py|jobctl launch|orted|mpirun"), "an end of all", 20)
    assert read(job.run / "exit/0/rank_03").splitlines()[0] == "0"


@pytest.mark.slow
def test_one_mpirun_spans_pods_which_have_no_sshd(cluster: Cluster, tmp_path: Path) -> None:
    with PodRunner(cluster) as runner:
        rack = Rack(runner, tmp_path)
        job = rack.make("launcher=mpirun", *AS_ROOT, *STEPS, program="0 0")
        code, said = job("submit", "--wait")
        told = [read(job.run / f"logs/rank_{rank:02}.log").splitlines()[-1] for rank in range(4)]
        ended = [read(job.run / f"exit/0/rank_{rank:02}").splitlines()[0] for rank in range(4)]
        rack.clear()
    assert (code, told, ended) == (0, ["then"] * 4, ["0"] * 4), said
    assert said_by_steps(job.run, 4, 2)


def test_root_is_told_what_mpirun_asks_of_root(cluster: Cluster, tmp_path: Path) -> None:
    words = ("nodes=2", "launcher=mpirun")
    job = make(cluster, tmp_path / "root", "ssh", *words, command=("true",))
    code, said = job("submit")
    assert code == 65 and "mpirun refuses to run as root" in said and "env.OMPI_ALLOW_RUN_AS_ROOT=1" in said, said


# What the trainer understands of its launcher.
ASK = f"""
import os, sys
sys.path.insert(0, {str(Path(__file__).parents[2] / ".dev")!r})
from jobc.trainer.dist.env import BrokenInput, parse_environment
try:
    e = parse_environment(os.environ)
    print("rank", e.rank, e.world_size, e.local_rank, e.local_world_size, e.group_rank, e.master_addr, flush=True)
except BrokenInput as error:
    print(error)
    sys.exit(65)
"""
BATCH = """#!/bin/bash
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
where="-x MASTER_ADDR=$(uname -n) -x MASTER_PORT=29500"
mpirun $where -np 4 --map-by ppr:2:node --bind-to none PYTHON ask.py
"""


def test_a_rank_of_somebodys_own_srun_or_mpirun_knows_its_place(cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "ask.py").write_text(ASK)
    (tmp_path / "batch.sh").write_text(BATCH.replace("PYTHON", sys.executable))
    ranks = [f"rank {rank} 4 {rank % 2} 2 {rank // 2} node1" for rank in range(4)]

    def said(command: str, code: int = 0) -> list[str]:
        done = cluster.login.run(["bash", "-c", command], cwd=tmp_path, timeout_s=100)
        assert done.returncode == code, done.stdout + done.stderr
        return sorted(line for line in done.stdout.splitlines() if line.strip())

    srun = f"srun --nodes=2 --ntasks=4 --ntasks-per-node=2 {sys.executable} ask.py"
    assert said(srun) == ranks
    sbatch = "sbatch --wait --nodes=2 --ntasks-per-node=2 --output=out.log batch.sh >/dev/null; cat out.log"
    assert said(sbatch) == ranks  # its daemons are tasks of srun
    left = "\n".join(said(f"RANK=0 WORLD_SIZE=1 LOCAL_RANK=0 {srun}", 65))
    assert "RANK=0 WORLD_SIZE=1 are set, but srun sets SLURM_PROCID=3 SLURM_STEP_NUM_TASKS=4" in left, left
