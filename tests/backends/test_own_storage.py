"""ssh, pdsh and clush between hosts that share no storage: storage.run=node, on the test bed with the real programs."""

from __future__ import annotations

import itertools
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from jobc.compiler.pipeline.compile import compile_job, write_compiled_job
from jobc.compiler.pipeline.types import CompileRequest
from jobc.tests.backends.jobs import AS_ROOT
from jobc.tests.testbed import Cluster, Host, Shape, wait_for
from jobc.tests.testbed.fixtures import MakeCluster

pytestmark = [pytest.mark.engine, pytest.mark.xdist_group("own_storage")]

CLIENTS = {"ssh": ("backend=ssh",), "pdsh": ("backend=pdsh",), "clush": ("backend=pdsh", "backend.client=clush")}
SECRET = "s3cret-canary"  # of no account

PROGRAM = """
import os, signal, sys, time
if sys.argv[1] == os.environ["RANK"]:
    raise RuntimeError("the disk is broken")
word = os.environ.get("TOKEN") or os.environ.get("LABEL")
if word:
    print("token of", len(word), flush=True)
signal.signal(signal.SIGTERM, lambda *_: sys.exit(75))
print("up", open("greeting.txt").read(), flush=True)
time.sleep(float(sys.argv[2]))
"""


@pytest.fixture(scope="module")
def rack(make_cluster: MakeCluster) -> Cluster:
    """A login host and three nodes; each has its own file system. The start-up files of one of them talk."""
    rack = make_cluster(Shape(nodes=3, gpus_per_node=0, shared=False))
    rack.nodes[1].run("echo 'echo Welcome to $HOSTNAME' >~/.bashrc", check=True)  # bash reads it below sshd too
    return rack


@pytest.fixture(autouse=True)
def _leave_nothing(rack: Cluster) -> Iterator[None]:
    yield
    for host in rack.hosts:
        if not host.is_on:
            host.power_on()
        host.restore_link()
    rack.login.run("scancel --user=root; true")
    for node in rack.nodes:
        for seen in node.processes("jobctl launch"):
            node.run(["kill", "-QUIT", str(seen.pid)])
    wait_for(lambda: not rack.processes("jobctl launch"), "an end of all supervisors")


@dataclass
class Job:
    """One artifact, with its scripts, on the login host of a cluster without shared storage."""

    rack: Cluster
    project: Path  # as the login host sees it
    artifact: Path

    def __call__(self, verb: str, *words: str, **env: str) -> tuple[int, str]:
        done = self.rack.login.run(
            [str(self.artifact / "jobctl"), verb, *words], cwd=self.project, env=env, timeout_s=120
        )
        return done.returncode, done.stdout + done.stderr

    @property
    def runs(self) -> Path:
        return self.project / "runs" / "job"

    @property
    def run(self) -> Path:
        """Return the run folder's path on every host."""
        (made,) = (file.parents[1] for file in self.rack.login.outside(self.runs).glob("*/state/run"))
        return self.runs / made.name

    def read(self, host: Host, path: str) -> str:
        """A file of the run, of that host's own."""
        file = host.outside(self.run) / path
        return file.read_text(errors="replace") if file.exists() else ""


def make(rack: Cluster, name: str, client: str, *words: str, command: tuple[str, ...] | None = None) -> Job:
    project = rack.shared / name
    here = rack.login.outside(project)
    here.mkdir(exist_ok=True)
    (here / "program.py").write_text(PROGRAM)
    (here / "greeting.txt").write_text("good morning")
    base = ("name=job", "nodes=3", "hosts=node[1-3]", "storage.run=node", "lifecycle.grace=5s")
    python = f"python.interpreter={sys.executable}"
    compiled = compile_job(CompileRequest((*CLIENTS[client], *base, python, *words), command))
    artifact = write_compiled_job(compiled, here / "artifacts")
    return Job(rack, project, project / artifact.relative_to(here))


def start(job: Job, *words: str, **env: str) -> None:
    code, said = job("submit", "--detach", *words, **env)
    assert code == 0, said
    for rank, node in enumerate(job.rack.nodes):
        wait_for(lambda node=node, rank=rank: "up" in job.read(node, f"logs/rank_{rank:02}.log"), f"rank {rank}")


@pytest.mark.parametrize("client", CLIENTS)
def test_a_run_is_sent_started_followed_and_told(rack: Cluster, client: str) -> None:
    job = make(rack, f"done {client}", client, "launcher=spawn", command=("program.py", "-", "1"))
    code, said = job("submit")
    assert code == 0 and "up good morning" in said and "done (exit 0)" in said, said
    status = job("status")[1]
    assert status.count(", exit 0") == 3 and "node 02  ended on node3" in status, status
    assert "up good morning" in job("logs", "--rank", "2")[1]
    assert not list(rack.login.outside(job.run).glob(".*"))
    assert not [f for node in rack.nodes for f in node.outside(job.run).glob(".*")]


@pytest.mark.parametrize("client", ["ssh", "pdsh"])
def test_all_nodes_get_what_submit_was_given(rack: Cluster, client: str) -> None:
    job = make(rack, f"given {client}", client, "launcher=spawn", command=("program.py",))
    code, said = job("submit", "--env", "LABEL=abc", "--", "-", "1")
    assert code == 0 and said.count("token of 3\n") == 1, said
    assert ["token of 3\n" in job.read(node, f"logs/rank_0{rank}.log") for rank, node in enumerate(rack.nodes)] == [
        True
    ] * 3
    assert "  submitted with: --env LABEL=abc -- - 1\n" in job("status")[1]


@pytest.mark.parametrize("client", CLIENTS)
def test_stop_reaches_every_node_and_a_rank_that_fails_ends_all(rack: Cluster, client: str) -> None:
    job = make(rack, f"stop {client}", client, "launcher=spawn", command=("program.py", "-", "300"))
    start(job)
    assert "live" in job("status")[1]
    code, said = job("stop")
    assert code == 0 and "stopped by jobctl stop" in said, said
    wait_for(lambda: not rack.processes("program.py|jobctl launch"), "an end of all", 20)
    assert "stopped" in job("status", "--all")[1]

    job = make(rack, f"fails {client}", client, "launcher=spawn", command=("program.py", "2", "300"))
    code, said = job("submit")
    assert code == 1 and "failed (exit 1: crashed)" in said and "the disk is broken" in said, said
    assert not rack.processes("program.py|jobctl launch")
    assert "reason: node 2: rank 2" in job("status")[1]


def test_the_ranks_wait_for_the_steps_of_nodes_whose_folders_they_do_not_see(rack: Cluster) -> None:
    words = ("before=sleep 2; date +%s.%N >../before", "per_node=sleep $((2 * JOBC_NODE_RANK)); date +%s.%N >../staged")
    command = ("bash", "-c", "date +%s.%N >../began")
    words += ("then=['date +%s.%N >../then','date +%s.%N >../end']", "after=date +%s.%N >../after")
    job = make(rack, "steps", "ssh", "launcher=spawn", *words, command=command)
    code, said = job("submit")
    assert code == 0 and "done (exit 0)" in said, said

    def times(name: str) -> list[float]:
        return [float(text) for node in rack.nodes if (text := job.read(node, name))]

    (before,), (after,) = times("before"), times("after")
    on_all = [times(name) for name in ("staged", "began", "then", "end")]
    assert [len(moments) for moments in on_all] == [3] * 4
    assert all(max(one) < min(next_one) for one, next_one in itertools.pairwise(on_all))
    assert before < min(on_all[0]) and max(on_all[-1]) < after


TRAINING = ("task=digits", "loop.epochs=null", "loop.steps=60", "checkpoint.every_steps=10")


def test_resumed_it_ends_with_the_weights_of_an_undisturbed_run(rack: Cluster) -> None:
    words = ("nodes=2", "launcher=spawn", *TRAINING)
    whole = make(rack, "whole", "ssh", *words)
    code, said = whole("submit")
    assert code == 0, said
    wanted = re.findall(r"sha256 (\w{64})", said)

    job = make(rack, "resumed", "ssh", *words)
    code, said = job("submit", "--detach")
    assert code == 0, said
    wait_for(lambda: "step_00000010" in job.read(rack.nodes[0], "logs/node_00.log"), "a checkpoint")
    (wrapper,) = re.findall(r"^pid=(\d+)$", job.read(rack.nodes[1], "state/rank_01"), re.MULTILINE)
    rack.nodes[1].run(["pkill", "-KILL", "-P", wrapper], check=True)  # only the rank: its supervisor records the end
    wait_for(lambda: "failed" in job("status")[1], "the end")
    refused = make(rack, "resumed", "ssh", *words, "hosts=node[2-3]")
    code, said = refused("submit", "--resume", job.run.name)
    assert code == 1 and "may have checkpoints on node1, which is not one of the hosts" in said, said
    moved = make(rack, "resumed", "ssh", *words, "hosts=node3,node1")
    code, said = moved("submit", "--resume", job.run.name)
    assert code == 0 and re.search(r"checkpoints/step_\d+ of rank 1", said), said
    assert re.findall(r"sha256 (\w{64})", said) == wanted
    assert "done (exit 0)" in moved("status")[1] and moved("logs", "--rank", "1")[0] == 0


def test_what_a_host_cannot_take_stays_on_none(rack: Cluster) -> None:
    job = make(rack, "refused", "ssh", "launcher=spawn", command=("program.py", "-", "1"))
    foreign = rack.nodes[1].outside(job.runs / "mine")
    foreign.mkdir(parents=True)
    (foreign / "thesis.txt").write_text("the only copy")
    code, said = job("submit", "--run-id", "mine")
    assert code == 65 and "node2: FAIL" in said and "already exists and belongs to another run" in said, said
    assert [file.name for file in foreign.iterdir()] == ["thesis.txt"]
    assert not [host for host in rack.hosts if host is not rack.nodes[1] and host.outside(job.runs / "mine").exists()]

    for place, mounts in {"read-only": "-o ro", "full": "-o size=64k"}.items():
        rack.nodes[2].run(f"mkdir -p {job.runs.parent} && mount -t tmpfs {mounts} tmpfs {job.runs.parent}", check=True)
        code, said = job("submit", "--run-id", place)
        rack.nodes[2].run(["umount", job.runs.parent], check=True)
        assert code == 1 and "node3: FAIL  cannot" in said and "it was not started" in said, said
        assert "Read-only file system" in said or "is the disk full?" in said, said
        assert not [host for host in rack.hosts if host.outside(job.runs / place).exists()]
    assert not rack.processes("jobctl launch")


def test_a_secret_is_on_the_hosts_only_until_they_are_up(rack: Cluster) -> None:
    job = make(rack, "secret", "ssh", "launcher=spawn", "secrets.TOKEN=env:TOKEN", command=("program.py", "-", "300"))
    start(job, TOKEN=SECRET)
    assert f"token of {len(SECRET)}" in job.read(rack.nodes[2], "logs/rank_02.log")
    assert SECRET not in "".join(seen.command for found in rack.processes().values() for seen in found)
    assert job("stop")[0] == 0
    for host in rack.hosts:
        folder = host.outside(rack.shared)
        assert not [f for f in folder.rglob("*") if f.is_file() and SECRET.encode() in f.read_bytes()]


def test_rsync_sends_what_the_last_run_did_not_have(rack: Cluster) -> None:
    job = make(rack, "rsync", "ssh", "launcher=spawn", "code=rsync", command=("program.py", "-", "0"))
    here = rack.login.outside(job.project)
    (here / "sub dir").mkdir()
    (here / "sub dir" / "big").write_text("x" * 100_000)
    assert job("submit", "--run-id", "a")[0] == 0
    (here / "greeting.txt").write_text("good evening")
    (here / "sub dir" / "new").write_text("x")
    code, said = job("submit", "--run-id", "b")
    assert code == 0 and "up good evening" in said, said
    a, b = (rack.nodes[1].outside(job.runs / run) / "code" for run in "ab")
    big = [(run / "sub dir" / "big").stat() for run in (a, b)]
    assert big[0].st_ino != big[1].st_ino and big[0].st_size == big[1].st_size  # a script may write to its copy
    assert (a / "greeting.txt").read_text() == "good morning" and (b / "sub dir" / "new").exists()
    rack.nodes[1].run("mount --bind /dev/null /usr/bin/rsync", check=True)
    code, said = job("submit", "--run-id", "c")
    rack.nodes[1].run("umount /usr/bin/rsync", check=True)
    assert code == 65 and "node2: FAIL  rsync not found" in said and "it was not started" in said, said
    assert not [host for host in rack.hosts if host.outside(job.runs / "c").exists()]


def test_preflight_and_smoke_leave_nothing(rack: Cluster) -> None:
    job = make(rack, "checks", "ssh", "nodes=2", "launcher=spawn", command=("program.py", "-", "0"))
    code, said = job("preflight")
    assert "ok    node[1-2]  python 3" in said, said
    code, said = job("smoke")
    assert code == 0, said
    assert not [f for host in rack.hosts for f in host.outside(job.project).glob("runs/job/*")]


def test_one_mpirun_spans_hosts_that_share_nothing(rack: Cluster) -> None:
    say = "echo rank $OMPI_COMM_WORLD_RANK of $OMPI_COMM_WORLD_SIZE is $RANK on $(uname -n)"
    job = make(rack, "mpi", "ssh", "nodes=3", "procs=2", "launcher=mpirun", *AS_ROOT, command=("bash", "-c", say))
    code, said = job("submit")
    assert code == 0, said
    ends = [job.read(rack.nodes[rank // 2], f"logs/rank_{rank:02}.log") for rank in range(6)]
    assert [end.splitlines()[-1] for end in ends] == [f"rank {r} of 6 is {r} on node{r // 2 + 1}" for r in range(6)]


@pytest.mark.slow
def test_a_link_cut_for_5_s_does_no_harm_and_for_good_ends_the_others_within_35_s(rack: Cluster) -> None:
    job = make(rack, "cut", "ssh", "launcher=spawn", command=("program.py", "-", "300"))
    start(job)
    rack.nodes[2].cut_link()
    rack.nodes[0].run("sleep 5", check=True)
    rack.nodes[2].restore_link()
    rack.nodes[0].run("sleep 25", check=True)
    assert len(rack.processes("program.py")) == 3 and "live" in job("status")[1]
    rack.nodes[2].cut_link()
    wait_for(lambda: set(rack.processes("program.py")) <= {"node3"}, "an end of the others", 35)
    wait_for(lambda: "failed (exit 69" in job("status")[1], "the verdict: a host may be silent for 90 s", 150)
    assert "node 2 (node3) does not respond" in job("status")[1]
