"""Slurm on the test bed, what only Slurm has: tasks of srun, allocations, requeues, preemption, arrays, refusals."""

from __future__ import annotations

import json
import re
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from jobc.compiler.driver import Request, compile_sweep, sweep_folders, write_job
from jobc.tests.backends.test_on_hosts import PROGRAM, Job, make, read, start
from jobc.tests.testbed import Cluster, Shape, wait_for
from jobc.tests.testbed.fixtures import MakeCluster

pytestmark = pytest.mark.engine

# Counts steps in the run folder, goes on where it was, and saves as the trainer does: at the end of a step.
STEPS = """
import os, pathlib, signal, sys, time
rank, run, last = os.environ["RANK"], pathlib.Path(os.environ["JOBC_RUN_DIR"]), int(sys.argv[1])
stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(1))
saved, log = run / f"saved_{rank}", run / f"steps_{rank}"
step = int(saved.read_text()) if saved.exists() else 0
print("token", os.environ.get("TOKEN"), "job", os.environ["JOBC_JOB_ID"], flush=True)
while step < last:
    time.sleep(0.2)
    step += 1
    with log.open("a") as lines:
        print(os.environ["JOBC_ATTEMPT"], step, file=lines)
    if stop:
        saved.write_text(str(step))
        sys.exit(75)
"""
SPAWN, SRUN = "slurm", "srun"  # ways of test_on_hosts


def steps(cluster: Cluster, project: Path, way: str, *words: str, last: int = 1000) -> Job:
    project.mkdir()
    (project / "steps.py").write_text(STEPS)
    return make(cluster, project, way, "nodes=2", "procs=2", *words, command=("steps.py", str(last)))


def submitted(job: Job, **env: str) -> str:
    """The id of its Slurm job, which has done two steps on every rank."""
    code, said = job("submit.sh", **env)
    assert code == 0, said
    wait_for(lambda: all(len(done(job, rank)) > 2 for rank in range(4)), "steps")
    return read(job.run / "state" / "job_0").splitlines()[0].removeprefix("job_id=")


def done(job: Job, rank: int = 0) -> list[tuple[int, int]]:
    """(attempt, step) of every step of a rank, in order."""
    lines = read(job.run / f"steps_{rank}").splitlines()
    return [(int(line.split()[0]), int(line.split()[1])) for line in lines]


def goes_on(job: Job, attempts: int) -> None:
    """The ranks run attempt after attempt, and no step is done twice or left out."""
    wait_for(lambda: all(done(job, rank)[-1][0] == attempts - 1 for rank in range(4)), f"attempt {attempts - 1}")
    for rank in range(4):
        assert [step for _, step in done(job, rank)] == list(range(1, len(done(job, rank)) + 1))


def state(cluster: Cluster, job_id: str) -> str:
    return cluster.login.run(["scontrol", "show", "job", job_id], check=True).stdout


# ---- tasks of srun, and what they get -------------------------------------------------------------------------------


@pytest.mark.parametrize("way", [SPAWN, SRUN])
def test_every_rank_sees_the_gpus_of_its_job_and_no_others(cluster: Cluster, tmp_path: Path, way: str) -> None:
    other = cluster.login.popen("srun --nodes=2 --gpus-per-node=1 sleep 100")
    wait_for(lambda: "RUNNING" in cluster.login.run("squeue --noheader --format=%T").stdout, "the other job")
    words = ("nodes=2", "procs=1", "gpus=1", "cpus=4", "queue.nodelist=node[1-2]")
    job = make(cluster, tmp_path / "one", way, *words, command=("bash", "-c", "echo sees=$CUDA_VISIBLE_DEVICES"))
    code, said = job("submit.sh", "--wait")
    other.kill()
    assert code == 0, said
    assert ["sees=1" in read(job.run / "logs" / f"rank_0{rank}.log") for rank in range(2)] == [True] * 2
    words = ("nodes=2", "procs=2", "gpus=2", "cpus=4")
    job = make(cluster, tmp_path / "two", way, *words, command=("bash", "-c", "echo sees=$CUDA_VISIBLE_DEVICES"))
    assert job("submit.sh", "--wait")[0] == 0
    assert ["sees=0,1" in read(job.run / "logs" / f"rank_0{rank}.log") for rank in range(4)] == [True] * 4


@pytest.mark.parametrize("victim", ["spawn.py --task 1", "supervise.py", "spawn.py --tasks"])
def test_a_task_that_is_killed_takes_all_with_it(cluster: Cluster, tmp_path: Path, victim: str) -> None:
    words = ("nodes=3", "procs=2", "lifecycle.max_requeues=0")
    job = make(cluster, tmp_path / "job", SRUN, *words, command=("program.py", "-", "300"))
    start(job, SRUN)
    port = re.findall(r"^port=(\d+)", read(job.run / "state/link"), re.MULTILINE)[0]
    linked = f"ss --no-header --tcp state established 'sport = :{port}'"
    wait_for(lambda: len(cluster.nodes[0].run(linked).stdout.splitlines()) == 2, "links to two nodes")
    (seen, *_) = cluster.nodes[1].processes(rf"^\S+ -I -S \S+/{victim} ")  # others have it among their arguments
    cluster.nodes[1].run(["kill", "-9", str(seen.own_pid)], check=True)
    wait_for(lambda: not cluster.processes("program.py|supervise.py|spawn.py"), "an end of all", 100)
    cluster.wait_idle()
    assert "failed (exit" in job("status.sh")[1]


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
    assert "failed (exit 65" in job("status.sh")[1]


def test_a_run_in_an_allocation_is_its_own_step_alone(cluster: Cluster, tmp_path: Path) -> None:
    """Of an allocation that has been requeued itself: it ends, goes on and ends, and what else is in there stays."""
    words = ("nodes=2", "procs=2", "cpus=4", "lifecycle.max_requeues=0")
    job = make(cluster, tmp_path / "job", SPAWN, *words, command=("program.py", "-", "300"))
    live = f"until squeue -s -h -o %j | grep -q bash && [[ $({job.artifact}/status.sh) == *live* ]]; do sleep 0.2; done"
    ranks = 'until (($(grep -c "^up$" runs/job/one/logs/rank_03.log) == attempts)); do sleep 0.2; done'
    inside = f"""
        export SLURM_RESTART_COUNT=1
        srun --overlap --nodes=1 --ntasks=1 sleep 300 &
        for attempts in 1 2; do
            if ((attempts == 1)); then words='--run-id one'; else words='--resume one'; fi
            {job.artifact}/submit.sh --here $words &
            {live}; {ranks} 2>/dev/null
            {job.artifact}/stop.sh
            wait $!; echo "here: $?"
            {job.artifact}/status.sh
        done
        squeue --steps --noheader --jobs=$SLURM_JOB_ID --format='own: %j'
        scancel $SLURM_JOB_ID"""
    command = ["timeout", "60", "salloc", "--quiet", "--nodes=2", "--ntasks-per-node=4", "bash", "-c", inside]
    said = job.cluster.login.run(command, cwd=job.project, timeout_s=70).stdout
    assert said.count("here: 0") == 2 and said.count(": stopped by stop.sh or Ctrl-C (exit 0)") == 4, said
    assert "attempt 1: stopped" in said and "own: sleep" in said, said


def in_allocation(job: Job, tasks: str, options: str) -> tuple[int, str, str]:
    """(exit code, number of the allocation, what submit.sh said), from a shell that salloc gives."""
    inside = f"echo $SLURM_JOB_ID; {job.artifact}/submit.sh {options}"
    command = ["salloc", "--quiet", "--nodes=2", tasks, "--cpus-per-task=2", "bash", "-c", inside]
    ended = job.cluster.login.run(command, cwd=job.project, timeout_s=60)
    number, _, said = ended.stdout.partition("\n")
    return ended.returncode, number, said + ended.stderr


def rank_said(job: Job, run: str, rank: int) -> str:
    return read(job.project / "runs" / "job" / run / "logs" / f"rank_0{rank}.log").splitlines()[1]


# ---- starting again -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", [SPAWN, SRUN])
def test_the_notice_of_the_limit_requeues_at_most_so_often(cluster: Cluster, tmp_path: Path, way: str) -> None:
    """scancel --batch --signal sends what --signal=B:USR2 sends."""
    job = steps(cluster, tmp_path / "job", way, "lifecycle.max_requeues=1")
    number = submitted(job)
    cluster.login.run(["scancel", "--batch", "--signal=USR2", number], check=True)
    goes_on(job, 2)
    cluster.login.run(["scancel", "--batch", "--signal=USR2", number], check=True)
    cluster.wait_idle()
    assert "stopped early (exit 75)" in job("status.sh")[1]
    assert read(job.run / "logs" / f"slurm-{number}.log").count("exit 75: stopped early") >= 2  # one log, appended
    assert done(job)[-1][0] == 1


def test_the_limit_of_the_partition_gives_notice_too(make_cluster: MakeCluster, tmp_path: Path) -> None:
    main = "PartitionName=main Nodes=ALL Default=YES DefaultTime=1 MaxTime=1"
    cluster = make_cluster(Shape(nodes=2, partitions=(main,)))
    job = steps(cluster, tmp_path / "job", SPAWN)
    assert "TimeLimit=00:01:00" in state(cluster, submitted(job))
    wait_for(lambda: done(job)[-1][0] == 1, "the second attempt", 100)
    goes_on(job, 2)
    assert job("stop.sh")[0] == 0


def test_a_job_started_by_sbatch_itself_goes_on_in_its_run(cluster: Cluster, tmp_path: Path) -> None:
    job = steps(cluster, tmp_path / "job", SPAWN)
    out = f"--output={tmp_path}/hand.log"
    done_ = cluster.login.run(["sbatch", "--parsable", out, job.artifact / "job.sbatch"], cwd=job.project, check=True)
    wait_for(lambda: bool(list(job.project.glob("runs/*/*/steps_3"))) and len(done(job, 3)) > 2, "steps")
    cluster.login.run(["scancel", "--batch", "--signal=USR2", done_.stdout.strip()], check=True)
    goes_on(job, 2)
    assert job("stop.sh")[0] == 0


def test_scancel_saves_and_nothing_starts_again(cluster: Cluster, tmp_path: Path) -> None:
    job = steps(cluster, tmp_path / "job", SRUN)
    cluster.login.run(["scancel", submitted(job)], check=True)
    cluster.wait_idle()
    assert "was cancelled by hand" in job("status.sh")[1]
    assert (job.run / "saved_3").exists() and not cluster.processes("steps.py|supervise.py")


@pytest.mark.parametrize("way", [SPAWN, SRUN])
def test_a_preempted_job_saves_and_goes_on_with_its_secrets(cluster: Cluster, tmp_path: Path, way: str) -> None:
    """Without GraceTime: Slurm requeues it itself, and kills after KillWait."""
    job = steps(cluster, tmp_path / "job", way, "secrets.TOKEN=env:TOKEN")
    number = submitted(job, TOKEN="abc")
    urgent(cluster)
    goes_on(job, 2)
    assert "Restarts=1" in state(cluster, number)
    assert read(job.run / "logs" / "rank_03.log").count("token abc") == 2
    assert job("stop.sh")[0] == 0


def test_a_job_preempted_with_grace_saves_and_goes_on(make_cluster: MakeCluster, tmp_path: Path) -> None:
    """The trainer, through torchrun: it ends with 75 in its GraceTime, and the job asks to be requeued itself."""
    main = "PartitionName=main Nodes=ALL Default=YES DefaultTime=10 MaxTime=60 PriorityTier=1 GraceTime=60"
    second = "PartitionName=urgent Nodes=ALL DefaultTime=10 MaxTime=60 PriorityTier=10"
    cluster = make_cluster(Shape(nodes=2, partitions=(main, second)))
    words = ("nodes=2", "procs=2", "lifecycle.grace=50s", "loop.steps=100000", "metrics.every_steps=1")
    job = make(cluster, tmp_path / "job", SPAWN, *words)
    code, said = job("submit.sh")
    assert code == 0, said
    metrics = "metrics/rank_00.jsonl"
    wait_for(lambda: read(job.run / metrics).count("\n") > 5, "steps")
    urgent(cluster)
    wait_for(lambda: '"attempt": 1' in read(job.run / metrics), "the second attempt")
    log = read(job.run / "logs" / "node_00.log")
    assert "exit 75: stopped early" in log
    assert job("stop.sh")[0] == 0
    seen = [(int(at["attempt"]), int(at["step"])) for at in json_lines(job.run / metrics) if "loss" in at]
    last = max(step for attempt, step in seen if attempt == 0)
    assert min(step for attempt, step in seen if attempt == 1) == last + 1


def json_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in read(path).splitlines()]


def urgent(cluster: Cluster) -> None:
    """A job of the other partition that needs all nodes for a moment, waited for."""
    cluster.login.run(f"srun --partition=urgent --nodes={len(cluster.nodes)} --exclusive sleep 1", check=True)


def test_a_job_waits_for_another_and_says_so(cluster: Cluster, tmp_path: Path) -> None:
    first = cluster.login.run(["sbatch", "--parsable", "--wrap=sleep 3; exit 1"], cwd=tmp_path, check=True)
    job = steps(cluster, tmp_path / "job", SPAWN, f"queue.after=[{first.stdout.strip()}]")
    assert job("submit.sh")[0] == 0
    assert "the jobs in queue.after have not ended" in job("status.sh")[1]
    wait_for(lambda: "it will never start" in job("status.sh")[1], "the end of the first job")
    assert job("stop.sh")[0] == 0


# ---- when Slurm does not answer -------------------------------------------------------------------------------------

SILENT = """#!/bin/bash
if [[ ! -e {down} ]]; then exec /usr/bin/squeue "$@"; fi
echo 'slurm_load_jobs error: Unable to contact slurm controller (connect failure)' >&2
exit 1
"""


def path_with_silence(folder: Path) -> tuple[str, Path]:
    """A PATH, and the file that silences the controller for squeue while it exists."""
    down, squeue = folder / "down", folder / "bin" / "squeue"
    squeue.parent.mkdir()
    squeue.write_text(SILENT.format(down=down))
    squeue.chmod(0o755)
    return f"{squeue.parent}:/usr/local/bin:/usr/bin:/bin", down


def held(cluster: Cluster, project: Path) -> Job:
    """Queued, with a secret, and not started before somebody releases it."""
    words = ("nodes=2", "backend.directives=[--hold]", "secrets.T=env:T")
    job = make(cluster, project, SPAWN, *words, command=("program.py", "-", "1"))
    code, said = job("submit.sh", T="abc")
    assert code == 0, said
    return job


def test_a_silent_controller_is_no_end_of_a_run(cluster: Cluster, tmp_path: Path) -> None:
    job = held(cluster, tmp_path / "job")
    path, down = path_with_silence(tmp_path)
    down.touch()
    why = "Slurm does not answer: Unable to contact slurm controller (connect failure)"
    code, said = job("clean.sh", "--keep", "0", "--yes", PATH=path)
    assert code == 0 and f"run {job.run.name} stays: {why}" in said, said
    for script, *words in (["submit.sh", "--resume", job.run.name], ["stop.sh"], ["logs.sh", "--follow"]):
        code, said = job(script, *words, PATH=path, T="abc")
        assert code == 1 and said.startswith(f"error: {why}\n"), said
    assert f"attempt 0: not known, for {why}" in job("status.sh", PATH=path)[1]
    assert not (job.run / "control" / "STOP").exists() and len(cluster.jobs()) == 1
    assert list(cluster.login.home.glob(".jobc/secrets/*"))
    code, said = job("stop.sh")
    assert code == 0 and "stopped by stop.sh before it had started" in said, said
    assert not list(cluster.login.home.glob(".jobc/secrets/*"))


def test_who_follows_waits_until_the_controller_is_back(cluster: Cluster, tmp_path: Path) -> None:
    job = held(cluster, tmp_path / "job")
    path, down = path_with_silence(tmp_path)
    log = tmp_path / "log"
    command = f"PATH={path} {job.artifact}/logs.sh --follow >{log} 2>&1; echo ended $? >>{log}"
    follower = cluster.login.popen(command)
    time.sleep(2)
    down.touch()
    wait_for(lambda: "asking again" in read(log), "a question without an answer")
    time.sleep(1)
    assert "ended" not in read(log)
    down.unlink()
    assert job("stop.sh")[0] == 0
    wait_for(lambda: "ended 0" in read(log), "the end")
    follower.wait(10)


# ---- what Slurm refuses ---------------------------------------------------------------------------------------------

REFUSED = {
    "queue.name=nosuch": "invalid partition specified: nosuch",
    "gpus=3": "no node has all of gpus, gpu_type, cpus and mem",
    "gpu_type=h100 gpus=1": "no node has all of gpus, gpu_type, cpus and mem",
    "mem=900GiB": "Memory specification can not be satisfied",
    "cpus=400": "400 cores a node, and partition main has nodes of at most 16",
    "time=5d": "a time limit of 5-00:00:00, and partition main allows 01:00:00",
    "nodes=9": "9 nodes, and partition main has or allows 4",
    "backend.constraint=a100": "Invalid feature specification",
    "queue.nodelist=node9": "hosts, queue.nodelist or queue.exclude",
    "queue.reservation=none": "scontrol show reservation",
}


@pytest.mark.parametrize("words", REFUSED)
def test_a_mistake_is_one_clear_line_and_nothing_stays(cluster: Cluster, tmp_path: Path, words: str) -> None:
    job = make(cluster, tmp_path / "job", SPAWN, "secrets.T=env:T", *words.split(), command=("program.py", "-", "1"))
    code, said = job("submit.sh", T="abc")
    assert code == 1 and REFUSED[words] in said and said.count("\n") == 2, said
    assert said.startswith("error: Slurm does not take the job: ")
    assert not list(job.project.glob("runs/job/*")) and not cluster.jobs()
    assert not list(cluster.login.home.glob(".jobc/secrets/*"))


def test_submit_where_slurm_is_not_says_so(cluster: Cluster, tmp_path: Path) -> None:
    job = make(cluster, tmp_path / "job", SPAWN, command=("program.py", "-", "1"))
    bare = tmp_path / "bin"
    bare.mkdir()
    for program in cluster.login.run("ls /usr/bin").stdout.split():
        if not program.startswith(("sbatch", "srun", "squeue")):
            (bare / program).symlink_to(f"/usr/bin/{program}")
    code, said = job("submit.sh", PATH=str(bare))
    assert code == 1 and "no sbatch on login" in said, said
    assert not (job.project / "runs").exists()


# ---- arrays ---------------------------------------------------------------------------------------------------------


def sweep(cluster: Cluster, project: Path, *words: str, command: tuple[str, ...]) -> Job:
    """The folder that starts all points of one sweep."""
    project.mkdir()
    (project / "program.py").write_text(PROGRAM)
    (project / "steps.py").write_text(STEPS)
    base = ("backend=slurm", "name=job", f"python.interpreter={sys.executable}", "lifecycle.grace=5s", "nodes=2")
    compiled = compile_sweep(Request((*base, *words), command))
    (folder,) = sweep_folders(compiled)
    for one in compiled:
        write_job(one, project / "artifacts")
    return Job(cluster, project, write_job(folder, project / "artifacts"))


@pytest.mark.parametrize("launcher", ["spawn", "srun"])
def test_a_sweep_is_one_array_with_a_run_for_each_point(cluster: Cluster, tmp_path: Path, launcher: str) -> None:
    words = (f"launcher={launcher}", "procs=2", "env.TOKEN=a,b", "env.OTHER=1,2", "backend.array_limit=2")
    job = sweep(cluster, tmp_path / "job", *words, command=("bash", "-c", "echo $JOBC_JOB_ID; [[ $TOKEN == a ]]"))
    code, said = job("submit.sh", "--wait")
    assert code == 1 and said.count("done (exit 0)") == 2 and said.count("failed (exit 1: crashed)") == 2, said
    runs = sorted(path.parent for path in job.project.glob("runs/job+*=*/*/state"))
    ids = [read(run / "state" / "job_0").splitlines()[0].removeprefix("job_id=") for run in runs]
    array = ids[0].partition("_")[0]
    assert ids == [f"{array}_{element}" for element in range(4)]
    assert [len(list((run / "logs").glob(f"slurm-{array}_*.log"))) for run in runs] == [1] * 4
    assert f"{ids[0]}\n" in read(runs[0] / "logs" / "rank_03.log")


def test_an_element_of_an_array_is_requeued_alone(cluster: Cluster, tmp_path: Path) -> None:
    """The last element has the number of the whole array as its own: what is meant for it must not reach the others."""
    words = ("launcher=spawn", "procs=1", "env.R=0,1", "env.S=0,1")
    job = sweep(cluster, tmp_path / "job", *words, command=("steps.py", "999"))
    code, said = job("submit.sh")
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
    follower = cluster.login.popen(f"{last}/artifact/1/logs.sh --follow >/dev/null 2>&1; echo $? >{ended}")
    time.sleep(3)
    assert not ended.exists()
    code, said = job("stop.sh")
    assert code == 0 and said.count("stopped by stop.sh") == 4, said
    follower.wait(20)
    assert read(ended) == "0\n"
    assert not cluster.jobs() and not cluster.processes("steps.py|supervise.py")


def test_stopping_a_sweep_starts_none_of_those_that_wait(cluster: Cluster, tmp_path: Path) -> None:
    words = ("launcher=spawn", "env.S=0,1,2", "backend.array_limit=1", "secrets.T=env:T")
    job = sweep(cluster, tmp_path / "job", *words, command=("program.py", "-", "300"))
    assert job("submit.sh", T="abc")[0] == 0
    wait_for(lambda: bool(cluster.processes("program.py")), "the first point")
    assert "other points of the sweep come first" in job("status.sh")[1]
    code, said = job("stop.sh")
    assert code == 0 and said.count("stopped by stop.sh") == 3, said
    assert len(list(job.project.glob("runs/*/*/logs/rank_00.log"))) == 1
    assert not cluster.jobs()
    assert not list(cluster.login.home.glob(".jobc/secrets/*"))


def test_a_sweep_that_slurm_refuses_leaves_nothing(cluster: Cluster, tmp_path: Path) -> None:
    words = ("queue.name=nosuch", "env.S=0,1", "secrets.T=env:T")
    job = sweep(cluster, tmp_path / "job", *words, command=("program.py", "-", "1"))
    code, said = job("submit.sh", T="abc")
    assert code == 1 and "invalid partition specified: nosuch" in said, said
    assert not list(job.project.glob("runs/*/*")) and not list(cluster.login.home.glob(".jobc/secrets/*"))


def test_points_that_need_other_nodes_are_no_array(tmp_path: Path) -> None:
    (folder,) = sweep_folders(compile_sweep(Request(("backend=slurm", "nodes=2,4", "seed=0,1"))))
    (note,) = folder.diagnostics
    assert note.code == "JC4308" and note.key == "nodes" and "--nodes" in note.title and not folder.artifacts
