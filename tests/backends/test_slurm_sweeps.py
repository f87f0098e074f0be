"""Slurm on the test bed: sweeps as job arrays."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from jobc.compiler.pipeline.compile import write_compiled_job
from jobc.compiler.pipeline.sweeps import compile_sweep, group_points_into_folders
from jobc.compiler.pipeline.types import CompileRequest
from jobc.tests.backends.jobs import Job, read, write_programs
from jobc.tests.testbed import Cluster, wait_for

pytestmark = pytest.mark.engine


def sweep(cluster: Cluster, project: Path, *words: str, command: tuple[str, ...]) -> Job:
    """The directory of a sweep."""
    write_programs(project)
    base = ("backend=slurm", "name=job", f"python.interpreter={sys.executable}", "lifecycle.grace=5s", "nodes=2")
    (folder,), _ = group_points_into_folders(compile_sweep(CompileRequest((*base, *words), command)))
    return Job(cluster, project, write_compiled_job(folder, project / "artifacts"))


@pytest.mark.parametrize("launcher", ["spawn", "srun"])
def test_a_sweep_is_one_array_with_a_run_for_each_point(cluster: Cluster, tmp_path: Path, launcher: str) -> None:
    words = (f"launcher={launcher}", "procs=2", "env.TOKEN=a,b", "env.OTHER=1,2", "backend.array_limit=2")
    job = sweep(cluster, tmp_path / "job", *words, command=("bash", "-c", "echo $JOBC_JOB_ID; [[ $TOKEN == a ]]"))
    code, said = job("submit", "--wait")
    assert code == 1 and said.count("done (exit 0)") == 2 and said.count("failed (exit 1: crashed)") == 2, said
    runs = sorted(path.parent for path in job.project.glob("runs/job+*=*/*/state"))
    ids = [read(run / "state" / "job_0").splitlines()[0].removeprefix("job_id=") for run in runs]
    array = ids[0].partition("_")[0]
    assert ids == [f"{array}_{element}" for element in range(4)]
    assert [len(list((run / "logs").glob(f"slurm-{array}_*.log"))) for run in runs] == [1] * 4
    assert f"{ids[0]}\n" in read(runs[0] / "logs" / "rank_03.log")
    code, said = job("status")
    assert code == 1 and "4 points" not in said and said.count("done (exit 0)") == 2, said


def test_an_element_of_an_array_is_requeued_alone(cluster: Cluster, tmp_path: Path) -> None:
    """The last element has the number of the whole array as its own: what is meant for it must not reach the others."""
    words = ("launcher=spawn", "procs=1", "env.R=0,1", "env.S=0,1")
    job = sweep(cluster, tmp_path / "job", *words, command=("steps.py", "999"))
    code, said = job("submit")
    assert code == 0, said
    runs = [path.parent for path in sorted(job.project.glob("runs/job+*=*/*/artifact"))]
    wait_for(lambda: sum((run / "steps_1").exists() for run in runs) == 4, "all points")
    (array,) = (line.split()[-1] for line in said.splitlines() if "job array" in line)
    array = array.partition("_")[0]
    last = next(run for run in runs if f"job {array}_3\n" in read(run / "logs" / "rank_01.log"))
    cluster.login.run(["scancel", "--batch", "--signal=USR2", f"{array}_3"], check=True)
    wait_for(lambda: "1 " in read(last / "steps_1").splitlines()[-1][:2], "its second attempt")
    assert all(read(run / "steps_1").splitlines()[-1].startswith("0 ") for run in runs if run != last)
    ended = tmp_path / "ended"
    follower = cluster.login.popen(f"{last}/artifact/1/jobctl logs --follow >/dev/null 2>&1; echo $? >{ended}")
    time.sleep(3)
    assert not ended.exists()
    code, said = job("stop")
    assert code == 0 and said.count("stopped by jobctl stop") == 4, said
    follower.wait(20)
    assert read(ended) == "0\n"
    assert not cluster.jobs() and not cluster.processes("steps.py|jobctl launch")


def test_stopping_a_sweep_starts_none_of_those_that_wait(cluster: Cluster, tmp_path: Path) -> None:
    words = ("launcher=spawn", "env.S=0,1,2", "backend.array_limit=1", "secrets.T=env:T")
    job = sweep(cluster, tmp_path / "job", *words, command=("program.py", "-", "300"))
    assert job("submit", T="abc")[0] == 0
    wait_for(lambda: bool(list(job.project.glob("runs/*/*/logs/rank_00.log"))), "the first point")
    assert "waiting for other points of the sweep" in job("status")[1]
    code, said = job("stop")
    assert code == 0 and said.count("stopped by jobctl stop") == 3, said
    assert len(list(job.project.glob("runs/*/*/logs/rank_00.log"))) == 1
    assert not cluster.jobs()
    assert not list(cluster.login.home.glob(".jobc/secrets/*"))
