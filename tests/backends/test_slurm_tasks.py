"""Slurm on the test bed: what srun's tasks receive, and runs in an existing allocation."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from jobc.tests.backends.jobs import SPAWN, SRUN, Job, make, read, start
from jobc.tests.testbed import Cluster, wait_for

pytestmark = pytest.mark.engine


@pytest.mark.parametrize("way", [SPAWN, SRUN])
def test_every_rank_sees_the_gpus_of_its_job_and_no_others(cluster: Cluster, tmp_path: Path, way: str) -> None:
    other = cluster.login.popen("srun --nodes=2 --gpus-per-node=1 sleep 100")
    wait_for(lambda: "RUNNING" in cluster.login.run("squeue --noheader --format=%T").stdout, "the other job")
    words = ("nodes=2", "procs=1", "gpus=1", "cpus=4", "queue.nodelist=node[1-2]")
    job = make(cluster, tmp_path / "one", way, *words, command=("bash", "-c", "echo sees=$CUDA_VISIBLE_DEVICES"))
    code, said = job("submit", "--wait")
    other.kill()
    assert code == 0, said
    assert ["sees=1" in read(job.run / "logs" / f"rank_0{rank}.log") for rank in range(2)] == [True] * 2
    words = ("nodes=2", "procs=2", "gpus=2", "cpus=4")
    job = make(cluster, tmp_path / "two", way, *words, command=("bash", "-c", "echo sees=$CUDA_VISIBLE_DEVICES"))
    assert job("submit", "--wait")[0] == 0
    assert ["sees=0,1" in read(job.run / "logs" / f"rank_0{rank}.log") for rank in range(4)] == [True] * 4


def test_a_job_may_use_gpus_that_it_does_not_request_from_slurm(cluster: Cluster, tmp_path: Path) -> None:
    other = cluster.login.popen("srun --nodes=4 --ntasks-per-node=1 --gpus-per-node=2 sleep 100")
    wait_for(lambda: "RUNNING" in cluster.login.run("squeue --noheader --format=%T").stdout, "the other job")
    words = ("nodes=2", "gpus=2", "cpus=4", "backend.gpus_as=none")
    job = make(cluster, tmp_path / "job", SPAWN, *words, command=("bash", "-c", "echo rank $LOCAL_RANK of $WORLD_SIZE"))
    code, said = job("submit", "--wait")
    other.kill()
    assert code == 0, said
    logs = [read(job.run / f"logs/rank_0{rank}.log") for rank in range(4)]
    assert all(f"rank {rank % 2} of 4\n" in log for rank, log in enumerate(logs)), logs


@pytest.mark.parametrize("victim", ["jobctl spawn --task 1", "jobctl launch", "jobctl spawn --tasks"])
def test_a_task_that_is_killed_takes_all_with_it(cluster: Cluster, tmp_path: Path, victim: str) -> None:
    words = ("nodes=3", "procs=2", "lifecycle.max_requeues=0")
    job = make(cluster, tmp_path / "job", SRUN, *words, command=("program.py", "-", "300"))
    start(job, SRUN)
    port = re.findall(r"^port=(\d+)", read(job.run / "state/link"), re.MULTILINE)[0]
    linked = f"ss --no-header --tcp state established 'sport = :{port}'"
    wait_for(lambda: len(cluster.nodes[0].run(linked).stdout.splitlines()) == 2, "links to two nodes")
    (seen, *_) = cluster.nodes[1].processes(rf"^\S+ -I -S \S+/{victim} ")  # others have it among their arguments
    cluster.nodes[1].run(["kill", "-9", str(seen.own_pid)], check=True)
    wait_for(lambda: not cluster.processes("program.py|jobctl launch|jobctl spawn"), "an end of all", 100)
    cluster.wait_idle()
    assert "failed (exit" in job("status")[1]


@pytest.mark.parametrize("way", [SPAWN, SRUN])
def test_here_runs_in_the_allocation_and_plain_submit_makes_a_job(cluster: Cluster, tmp_path: Path, way: str) -> None:
    words = ("nodes=2", "procs=2", "cpus=4")
    job = make(cluster, tmp_path / "job", way, *words, command=("bash", "-c", "echo in $JOBC_JOB_ID"))
    code, number, said = in_allocation(job, "--ntasks-per-node=4", "--here --run-id here")
    assert code == 0, said
    assert {rank_said(job, "here", rank) for rank in range(4)} == {f"in {number}"}
    code, number, said = in_allocation(job, "--ntasks-per-node=4", "--wait --run-id job")
    assert code == 0 and "done (exit 0)" in said, said
    assert rank_said(job, "job", 3).startswith("in ") and rank_said(job, "job", 3) != f"in {number}"


def test_an_allocation_without_room_for_the_tasks_is_refused(cluster: Cluster, tmp_path: Path) -> None:
    words = ("nodes=2", "procs=2", "cpus=4")
    job = make(cluster, tmp_path / "job", SRUN, *words, command=("program.py", "-", "300"))
    code, _, said = in_allocation(job, "--ntasks=8", "--here")  # seven on one node, one on the other
    assert code == 65 and "this job needs 2(x2)" in said, said
    assert "failed (exit 65" in job("status")[1]


def test_a_run_in_an_allocation_is_its_own_step_alone(cluster: Cluster, tmp_path: Path) -> None:
    """Of an allocation that has been requeued itself: it ends, goes on and ends, and what else is in there stays."""
    words = ("nodes=2", "procs=2", "cpus=4", "lifecycle.max_requeues=0")
    job = make(cluster, tmp_path / "job", SPAWN, *words, command=("program.py", "-", "300"))
    is_live = f"squeue -s -h -o %j | grep -q bash && [[ $({job.artifact}/jobctl status) == *live* ]]"
    live = f"until {is_live}; do sleep 0.2; done"
    ranks = 'until (($(grep -c "^up$" runs/job/one/logs/rank_03.log) == attempts)); do sleep 0.2; done'
    inside = f"""
        export SLURM_RESTART_COUNT=1
        srun --overlap --nodes=1 --ntasks=1 sleep 300 &
        other=$!
        for attempts in 1 2; do
            if ((attempts == 1)); then words='--run-id one'; else words='--resume one'; fi
            {job.artifact}/jobctl submit --here $words &
            {live}; {ranks} 2>/dev/null
            {job.artifact}/jobctl stop
            wait $!; echo "here: $?"
            {job.artifact}/jobctl status
        done
        squeue --steps --noheader --jobs=$SLURM_JOB_ID --format='own: %j'
        kill $other"""  # not scancel: salloc 22.05 then sometimes spins without a child
    command = ["timeout", "140", "salloc", "--quiet", "--nodes=2", "--ntasks-per-node=4", "bash", "-c", inside]
    said = job.cluster.login.run(command, cwd=job.project, timeout_s=150).stdout
    assert said.count("here: 0") == 2 and said.count(": stopped by jobctl stop (exit 0)") == 4, said
    assert "attempt 1: stopped" in said and "own: sleep" in said, said


def in_allocation(job: Job, tasks: str, options: str) -> tuple[int, str, str]:
    """Submit in a shell from salloc. Return (exit code, allocation ID, output of jobctl submit)."""
    inside = f"echo $SLURM_JOB_ID; {job.artifact}/jobctl submit {options}"
    command = ["salloc", "--quiet", "--nodes=2", tasks, "--cpus-per-task=2", "bash", "-c", inside]
    ended = job.cluster.login.run(command, cwd=job.project, timeout_s=60)
    number, _, said = ended.stdout.partition("\n")
    return ended.returncode, number, said + ended.stderr


def rank_said(job: Job, run: str, rank: int) -> str:
    return read(job.project / "runs" / "job" / run / "logs" / f"rank_0{rank}.log").splitlines()[1]


def test_a_shell_is_on_a_node_of_the_live_run_or_on_one_of_its_own(cluster: Cluster, tmp_path: Path) -> None:
    job = make(cluster, tmp_path / "job", SPAWN, "nodes=3", "procs=2", command=("program.py", "-", "300"))
    start(job, SPAWN)
    for node, known in (("2", 0), ("3", 2), ("02", 2), ("abc", 2)):
        code, said = job("shell", node, "--", "uname", "-n")
        told = f"error: node {node} does not exist\n  hint: nodes are numbered from 0 to 2; put the command after --\n"
        assert (code, said) == (known, told if known else "node3\n"), said
    (job.artifact / "launch.sh").write_text("exit 9\n")  # as another compile might: the run has its own
    known = "$JOBC_RUN_DIR $JOBC_ATTEMPT $JOBC_JOB_ID $JOBC_HEAD_ADDR $JOBC_NODE_RANK $GLOO_SOCKET_IFNAME"
    code, said = job("shell", "1", "--", "bash", "-c", f"echo {known}")
    shutil.copy(job.run / "artifact" / "0" / "launch.sh", job.artifact)
    job_id = read(job.run / "state" / "job_0").splitlines()[0].removeprefix("job_id=")
    assert (code, said) == (0, f"{job.run} 0 {job_id} node1 1 eth0\n"), said
    assert job("stop")[0] == 0
    code, said = job("shell", "--", "uname", "-n")
    assert code == 0 and re.search("^node[1-4]$", said, re.MULTILINE), said
    code, said = job("shell", "1", "--", "true")
    assert code == 2 and said.startswith("error: node 1 does not exist, because no run is live\n"), said


def test_the_cores_per_task_of_an_allocation_cut_no_rank(cluster: Cluster, tmp_path: Path) -> None:
    """Slurm 22.05 and 23.02 read SRUN_CPUS_PER_TASK, others SLURM_CPUS_PER_TASK, which salloc sets."""
    job = make(cluster, tmp_path / "job", SPAWN, "nodes=2", command=("bash", "-c", "echo $SLURM_CPUS_ON_NODE cores"))
    inside = f"export SRUN_CPUS_PER_TASK=1; {job.artifact}/jobctl submit --here --run-id here"
    command = ["salloc", "--quiet", "--nodes=2", "--ntasks-per-node=4", "--cpus-per-task=2", "bash", "-c", inside]
    assert job.cluster.login.run(command, cwd=job.project, timeout_s=60).returncode == 0
    assert rank_said(job, "here", 1) == "8 cores"


def test_srun_makes_one_mpi_job_of_the_ranks(cluster: Cluster, tmp_path: Path) -> None:
    words = ("nodes=2", "procs=2", "cpus=4", "backend.mpi=pmi2", "backend.cpu_bind=none", "backend.label=true")
    command = ("bash", "-c", "echo mpi $PMI_RANK of $PMI_SIZE")
    words += ("backend.srun_extra.unbuffered=true", "backend.output=logs/%x-%j.out")
    job = make(cluster, tmp_path / "job", SRUN, *words, command=command)
    code, said = job("submit", "--wait")
    assert code == 0, said
    logs = [read(job.run / "logs" / f"rank_0{rank}.log") for rank in range(4)]
    assert all(f"mpi {rank} of 4\n" in log for rank, log in enumerate(logs)), logs
    (log,) = job.run.glob("logs/slurm-*.log")
    assert re.search("^0: .*mpi 0 of 4$", read(log), re.MULTILINE), read(log)
    number = log.stem.removeprefix("slurm-")
    assert read(job.project / f"logs/job-{number}.out") == read(log), "backend.output names it too"


@pytest.mark.parametrize("way", [SPAWN, SRUN])  # torchrun, which closes inherited descriptors, and srun
def test_the_stderr_of_all_ranks_is_in_a_file_of_its_own(cluster: Cluster, tmp_path: Path, way: str) -> None:
    command = ("bash", "-c", "echo out $RANK; echo err $RANK >&2")
    words = ("nodes=2", "procs=2", "cpus=4", "backend.stderr=logs/%x-%j.err")
    job = make(cluster, tmp_path / "job", way, *words, command=command, launcher="torchrun")
    code, said = job("submit", "--wait")
    assert code == 0 and {"out 0", "err 0"} <= {line.rpartition("| ")[2] for line in said.splitlines()}, said
    for rank in range(4):
        log = read(job.run / f"logs/rank_0{rank}.log")
        assert f"out {rank}\n" in log and f"err {rank}\n" in log, log
    (errors,) = job.project.glob("logs/job-*.err")
    lines = [line for line in read(errors).splitlines() if not line.startswith("srun: ")]  # "step creation … retrying"
    assert sorted(lines) == [f"err {rank}" for rank in range(4)]
    assert errors.resolve().name == f"slurm-{errors.stem.removeprefix('job-')}.stderr.log"


NUMBERS = {
    "SLURM_PROCID": "RANK", "SLURM_LOCALID": "LOCAL_RANK", "SLURM_NTASKS": "WORLD_SIZE", "SLURM_NPROCS": "WORLD_SIZE",
    "SLURM_STEP_NUM_TASKS": "WORLD_SIZE", "SLURM_NTASKS_PER_NODE": "LOCAL_WORLD_SIZE", "SLURM_NODEID": "GROUP_RANK",
}  # fmt: skip


def test_the_variables_of_slurm_and_of_torchrun_count_the_same_ranks(cluster: Cluster, tmp_path: Path) -> None:
    words = ("nodes=2", "procs=2", "cpus=4")
    names = {*NUMBERS, *NUMBERS.values(), "SLURM_STEP_TASKS_PER_NODE", "SLURM_GTIDS", "SLURM_CPUS_PER_TASK"}
    command = ("bash", "-c", "; ".join(f"echo {name}=${name}" for name in sorted(names)))
    job = make(cluster, tmp_path / "job", SPAWN, *words, command=command, launcher="torchrun")
    code, said = job("submit", "--wait")
    assert code == 0, said
    for rank in range(4):
        seen = dict(re.findall(r"^([A-Z_]+)=(.*)$", read(job.run / "logs" / f"rank_0{rank}.log"), re.MULTILINE))
        assert (seen["RANK"], seen["WORLD_SIZE"]) == (str(rank), "4")
        assert {name: seen[name] for name in NUMBERS} == {name: seen[other] for name, other in NUMBERS.items()}
        assert (seen["SLURM_STEP_TASKS_PER_NODE"], seen["SLURM_CPUS_PER_TASK"]) == ("2(x2)", "2")
        assert seen["SLURM_GTIDS"] == ("0,1", "2,3")[rank // 2]
