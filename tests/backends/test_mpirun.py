"""launcher=mpirun, beyond what test_on_hosts.py shows of every way: in a job of Slurm, and as root."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobc.tests.backends.jobs import AS_ROOT, make, read
from jobc.tests.testbed import Cluster, wait_for

pytestmark = pytest.mark.engine


def test_a_stop_of_slurm_reaches_the_ranks_and_not_mpirun(cluster: Cluster, tmp_path: Path) -> None:
    words = ("nodes=2", "procs=2", "launcher=mpirun", *AS_ROOT)
    job = make(cluster, tmp_path / "my, project", "slurm", *words, command=("program.py", "-", "300"))
    code, said = job("submit.sh")
    assert code == 0, said
    wait_for(lambda: all("up" in read(job.run / f"logs/rank_{rank:02}.log") for rank in range(4)), "four ranks")
    code, said = job("stop.sh")  # scancel signals every process of the step
    assert code == 0 and "stopped by stop.sh" in said, said
    assert not cluster.processes("program.py|supervise.py|orted|mpirun")
    assert read(job.run / "exit/0/rank_03").splitlines()[0] == "0"


def test_root_is_told_what_mpirun_asks_of_root(cluster: Cluster, tmp_path: Path) -> None:
    words = ("nodes=2", "launcher=mpirun")
    job = make(cluster, tmp_path / "root", "ssh", *words, command=("true",))
    code, said = job("submit.sh")
    assert code == 65 and "mpirun refuses to run as root" in said and "env.OMPI_ALLOW_RUN_AS_ROOT=1" in said, said
