"""ssh, pdsh, clush and Slurm on the test bed: the same job through each, on real hosts with the real programs."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from jobc.compiler.driver import Request, compile_job, write_job
from jobc.tests.testbed import Cluster, wait_for

pytestmark = pytest.mark.engine

WAYS = {
    "ssh": ("backend=ssh", "hosts=node[1-4]"),
    "pdsh": ("backend=pdsh", "hosts=node[1-4]"),
    "clush": ("backend=pdsh", "backend.client=clush", "hosts=node[1-4]"),
    "slurm": ("backend=slurm",),
    "srun": ("backend=slurm", "launcher=srun"),
}
SECRET = "s3cret-canary"  # of no account

PROGRAM = """
import os, signal, sys, time
if sys.argv[1] == os.environ["RANK"]:
    raise RuntimeError("the disk is broken")
if os.environ.get("TOKEN"):
    print("token of", len(os.environ["TOKEN"]), flush=True)
signal.signal(signal.SIGTERM, lambda *_: sys.exit(75))
print("up", flush=True)
time.sleep(float(sys.argv[2]))
"""


@dataclass
class Job:
    """One artifact in a project folder that all hosts see, and its scripts, run on the login host."""

    cluster: Cluster
    project: Path
    artifact: Path

    def __call__(self, script: str, *words: str, **env: str) -> tuple[int, str]:
        command = [str(self.artifact / script), *words]
        done = self.cluster.login.run(command, cwd=self.project, env=env, timeout_s=120)
        return done.returncode, done.stdout + done.stderr

    @property
    def run(self) -> Path:
        (run,) = (file.parents[1] for file in self.project.glob("runs/*/*/state/run"))
        return run


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def make(cluster: Cluster, project: Path, way: str, *words: str, command: tuple[str, ...] | None = None) -> Job:
    project.mkdir(exist_ok=True)
    (project / "program.py").write_text(PROGRAM)
    base = ["name=job", f"python.interpreter={sys.executable}", "lifecycle.grace=5s"]
    if command and way != "srun":
        base.append("launcher=spawn")  # faster to start than torchrun
    compiled = compile_job(Request((*WAYS[way], *base, *words), command))
    return Job(cluster, project, write_job(compiled, project / "artifacts"))


def submit(job: Job, way: str, **env: str) -> tuple[int, str]:
    return job("submit.sh", *(["--wait"] if "backend=slurm" in WAYS[way] else []), **env)


def start(job: Job, way: str, **env: str) -> None:
    code, said = job("submit.sh", *([] if "backend=slurm" in WAYS[way] else ["--detach"]), **env)
    assert code == 0, said
    ranks = [f"logs/rank_{rank:02}.log" for rank in range(6)]
    wait_for(lambda: all("up" in read(job.run / path) for path in ranks), "six ranks")


def read(file: Path) -> str:
    return file.read_text(errors="replace") if file.exists() else ""


def test_every_way_ends_with_the_same_weights(cluster: Cluster, tmp_path: Path) -> None:
    found = {}
    for way in WAYS:
        job = make(cluster, tmp_path / way, way, "nodes=2", "procs=2", "task=digits", "loop.epochs=1")
        code, said = submit(job, way)
        assert code == 0, said
        found[way] = re.findall(r"sha256 (\w{64})", read(job.run / "logs" / "node_00.log"))
    assert len(set(map(tuple, found.values()))) == 1 and found["ssh"], found


def test_a_rank_that_fails_ends_all_nodes_and_is_shown(cluster: Cluster, tmp_path: Path, way: str) -> None:
    words = ("nodes=3", "procs=2")
    job = make(cluster, tmp_path / "my project", way, *words, command=("program.py", "4", "60"))
    code, said = submit(job, way)
    assert code == 1, said
    assert "failed (exit 1: crashed)" in said
    assert "the disk is broken" in said + read(job.run / "logs" / "node_02.log")
    assert not cluster.processes("program.py")
    assert "node 2: rank 4" in job("status.sh")[1]


def test_stop_ends_every_process_and_nothing_starts_again(cluster: Cluster, tmp_path: Path, way: str) -> None:
    words = ("nodes=3", "procs=2")
    job = make(cluster, tmp_path / "project", way, *words, command=("program.py", "-", "300"))
    start(job, way)
    code, said = job("stop.sh")
    assert code == 0 and "stopped by stop.sh" in said, said
    assert not cluster.processes("program.py|supervise.py")
    cluster.wait_idle()
    assert "stopped" in job("status.sh")[1]


def test_a_secret_reaches_the_ranks_and_nothing_else(cluster: Cluster, tmp_path: Path, way: str) -> None:
    words = ("nodes=3", "procs=2", "secrets.TOKEN=env:TOKEN")
    job = make(cluster, tmp_path / "project", way, *words, command=("program.py", "-", "300"))
    start(job, way, TOKEN=SECRET)
    shown = "".join(
        cluster.login.run(["scontrol", "show", "job", "--details", job_id]).stdout for job_id in cluster.jobs()
    )
    shown += "".join(seen.command for found in cluster.processes().values() for seen in found)
    assert SECRET not in shown
    assert f"token of {len(SECRET)}" in read(job.run / "logs" / "rank_05.log")
    assert job("stop.sh")[0] == 0
    for folder in (tmp_path, *(host.outside("/var/spool") for host in cluster.hosts)):
        assert not [f for f in folder.rglob("*") if f.is_file() and SECRET.encode() in f.read_bytes()]


def test_a_host_that_does_not_answer_leaves_nothing_started(cluster: Cluster, tmp_path: Path) -> None:
    for way in ("ssh", "pdsh", "clush"):
        words = ("nodes=3", "hosts=node1,node2,node9")
        job = make(cluster, tmp_path / way, way, *words, command=("program.py", "-", "300"))
        code, said = job("submit.sh")
        assert code != 0 and "node9" in said and "not all of the 3 nodes could be started" in said, said
        wait_for(lambda: not cluster.processes("program.py|supervise.py"), "an end of all")


def test_slurm_says_why_a_job_waits_and_what_it_would_refuse(cluster: Cluster, tmp_path: Path) -> None:
    job = make(cluster, tmp_path / "big", "slurm", "nodes=9", command=("program.py", "-", "1"))
    code, said = job("preflight.sh", "--queue-only")
    assert code == 1 and "Slurm refuses the job" in said
    busy = cluster.login.popen("srun --nodes=4 --exclusive sleep 100")
    wait_for(lambda: "RUNNING" in cluster.login.run("squeue --noheader --format=%T").stdout, "the other job")
    job = make(cluster, tmp_path / "next", "slurm", "nodes=4", command=("program.py", "-", "1"))
    assert job("submit.sh")[0] == 0
    wait_for(lambda: "waits until nodes are free" in job("status.sh")[1], "the reason")
    assert "stopped by stop.sh before it had started" in job("stop.sh")[1]
    busy.kill()


def test_sbatch_by_hand_makes_its_own_run(cluster: Cluster, tmp_path: Path) -> None:
    job = make(cluster, tmp_path / "hand", "slurm", "nodes=2", command=("program.py", "-", "0"))
    out = f"--output={tmp_path}/hand.log"
    cluster.login.run(["sbatch", "--wait", out, str(job.artifact / "job.sbatch")], cwd=job.project, check=True)
    assert "done (exit 0)" in job("status.sh")[1]
