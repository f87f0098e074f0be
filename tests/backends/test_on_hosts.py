"""ssh, pdsh, clush and Slurm on the test bed: the same job through each, on real hosts with the real programs."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from jobc.runtime.run_folder.run import quote_shell_word
from jobc.tests.backends.jobs import WAYS, Job, make, read, start
from jobc.tests.testbed import Cluster, wait_for

pytestmark = pytest.mark.engine

SECRET = "s3cret-canary"  # of no account


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def submit(job: Job, way: str, **env: str) -> tuple[int, str]:
    return job("submit", *(["--wait"] if "backend=slurm" in WAYS[way] else []), **env)


def test_a_rank_that_fails_ends_all_nodes_and_is_shown(cluster: Cluster, tmp_path: Path, way: str) -> None:
    words = ("nodes=3", "procs=2")
    job = make(cluster, tmp_path / "my, project", way, *words, command=("program.py", "4", "60"))
    code, said = submit(job, way)
    assert code == 1, said
    assert "failed (exit 1: crashed)" in said
    check_what_is_shown(said, job)
    wait_for(lambda: not cluster.processes("program.py"), "an end of all", 20)


@pytest.mark.parametrize("way", ["ssh", "slurm"])
def test_a_rank_that_fails_below_torchrun_is_shown_first_too(cluster: Cluster, tmp_path: Path, way: str) -> None:
    job = make(cluster, tmp_path / "project", way, "nodes=4", command=("program.py", "2", "60"))
    code, said = submit(job, way)
    assert code == 1, said
    check_what_is_shown(said, job, rank=2)


def check_what_is_shown(said: str, job: Job, rank: int = 4) -> None:
    """Check the output of --wait, jobctl status and jobctl logs: the node that failed first and its traceback, then the
    rest.
    """
    why = f"rank {rank}: RuntimeError: the disk is broken (program.py:4)"
    log = quote_shell_word(f"{job.run}/logs/rank_{rank:02}.log")
    told = f"jobc: node 2 failed first: {why}; the end of {log}:\n"
    shown = (
        re.escape(told)
        + r"(\[rank\d\]: )?Traceback \(most recent call last\):\n(.*\n)+?RuntimeError: the disk is broken\n"
    )
    assert re.search(f"^{shown}", said, re.MULTILINE) and said.index(told) < said.index("| jobc: node 2 failed"), said
    status = job("status")[1].splitlines()
    assert status[1] == f"  reason: node 2: {why}", status
    assert status[2].startswith("  node 00  ended on node1 at ") and re.search("node 02 .*, exit 1", status[4]), status
    logs = job("logs")[1]
    assert re.match(shown, logs) and "\nnode 1  | === jobc: attempt 0, node 1 on node2" in logs, logs
    assert job("logs", "--node", "2")[1].startswith("=== jobc: attempt 0, node 2 on node3")


def test_a_live_run_is_shown_keeps_its_secret_and_ends_on_every_node(
    cluster: Cluster, tmp_path: Path, way: str
) -> None:
    words = ("nodes=3", "procs=2", "secrets.TOKEN=env:TOKEN")
    job = make(cluster, tmp_path / "project", way, *words, command=("program.py", "-", "300"))
    start(job, way, TOKEN=SECRET)
    check_that_nothing_shows_the_secret(cluster, job)
    (job.run / "metrics").mkdir()
    (job.run / "metrics/rank_02.jsonl").write_text('{"step": 40, "loss": 3.083304286003113}\n{"step": 41, "lo')
    status = job("status")[1].splitlines()
    assert re.fullmatch(r"  node 00  up on node1 since .* UTC, last seen \d s ago", status[1]), status
    assert re.fullmatch(r"  node 01  up on node2 since .* UTC, last seen \d s ago, step 40, loss 3.083", status[2]), (
        status
    )
    logs = job("logs")[1]
    assert all(f"node {node}  | === jobc: attempt 0, node {node} on node{node + 1}" in logs for node in range(3)), logs
    assert "node 0  | up\n" in logs
    code, said = job("stop")
    assert code == 0 and "stopped by jobctl stop" in said, said
    wait_for(lambda: not cluster.processes("program.py|jobctl launch"), "an end of all", 20)
    cluster.wait_idle()
    assert "stopped" in job("status")[1]
    for folder in (tmp_path, *(host.outside("/var/spool") for host in cluster.hosts)):
        assert not [f for f in folder.rglob("*") if f.is_file() and SECRET.encode() in f.read_bytes()]


def check_that_nothing_shows_the_secret(cluster: Cluster, job: Job) -> None:
    shown = "".join(
        cluster.login.run(["scontrol", "show", "job", "--details", job_id]).stdout for job_id in cluster.jobs()
    )
    shown += "".join(seen.command for found in cluster.processes().values() for seen in found)
    assert SECRET not in shown
    assert f"token of {len(SECRET)}" in read(job.run / "logs" / "rank_05.log")


@pytest.mark.parametrize(
    ("way", "hosts"),
    [("ssh", "node1,node2,node9"), ("pdsh", "node9,node1,node2")],
)
def test_a_host_that_does_not_answer_leaves_nothing_started(
    cluster: Cluster, tmp_path: Path, way: str, hosts: str
) -> None:
    """Nor does anything wait for it, a first host either: rendezvous.timeout is longer than a script may take here."""
    job = make(cluster, tmp_path / way, way, "nodes=3", f"hosts={hosts}", command=("program.py", "-", "300"))
    code, said = job("submit")
    assert code != 0 and "node9" in said and "not all of the 3 nodes could be started" in said, said
    code, said = job("smoke")
    assert code == 1 and "node9" in said and "not all of the 3 hosts respond" in said, said
    wait_for(lambda: not cluster.processes("program.py|jobctl launch"), "an end of all")


@pytest.mark.parametrize(("way", "lacking"), [("slurm", 0), ("slurm", 1), ("ssh", 1)])
def test_a_node_that_cannot_start_is_named_and_no_other_waits(
    cluster: Cluster, tmp_path: Path, way: str, lacking: int
) -> None:
    has = cluster.nodes[1 - lacking].outside("/tmp/python")
    has.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    has.chmod(0o755)
    try:
        words = ("nodes=2", "python.interpreter=/tmp/python", "launcher=torchrun")
        words += ("hosts=node[1-2]",) if way == "ssh" else ("queue.nodelist=node[1-2]",)
        job = make(cluster, tmp_path / "project", way, *words, command=("program.py", "-", "300"))
        code, said = submit(job, way)
    finally:
        has.unlink()
    assert code == 65 and "python not found: /tmp/python" in said, said
    assert job("status")[1].splitlines()[1] == f"  reason: node {lacking}: python not found: /tmp/python"
    started = "program.py|jobctl launch|torch.distributed.run"
    wait_for(lambda: not cluster.processes(started), "an end of all", 20)


def test_slurm_names_the_nodes_that_do_not_see_the_run(cluster: Cluster, tmp_path: Path) -> None:
    job = make(
        cluster,
        tmp_path / "project",
        "slurm",
        "nodes=2",
        "queue.nodelist=node[1-2]",
        command=("program.py", "-", "300"),
    )
    runs = tmp_path / "project" / "runs"
    runs.mkdir()
    cluster.nodes[1].run(["mount", "-t", "tmpfs", "none", str(runs)], check=True)
    try:
        code, said = submit(job, "slurm")
    finally:
        cluster.nodes[1].run(["umount", str(runs)], check=True)
    assert code == 65 and f"node 1 failed first: node2 cannot read {job.run}/artifact/0: storage.root" in said, said


def test_slurm_says_why_a_job_waits_and_what_it_would_refuse(cluster: Cluster, tmp_path: Path) -> None:
    job = make(cluster, tmp_path / "big", "slurm", "nodes=9", command=("program.py", "-", "1"))
    code, said = job("preflight", "--queue-only")
    assert code == 1 and "Slurm rejects the job" in said
    busy = cluster.login.popen("srun --nodes=4 --exclusive sleep 100")
    wait_for(lambda: "RUNNING" in cluster.login.run("squeue --noheader --format=%T").stdout, "the other job")
    job = make(cluster, tmp_path / "next", "slurm", "nodes=4", command=("program.py", "-", "1"))
    assert job("submit")[0] == 0
    wait_for(lambda: "waiting for free nodes" in job("status")[1], "the reason")
    assert "stopped by jobctl stop before it started" in job("stop")[1]
    busy.kill()


def test_sbatch_by_hand_makes_its_own_run(cluster: Cluster, tmp_path: Path) -> None:
    job = make(cluster, tmp_path / "hand", "slurm", "nodes=2", command=("program.py", "-", "0"))
    out = f"--output={tmp_path}/hand.log"
    cluster.login.run(["sbatch", "--wait", out, str(job.artifact / "job.sbatch")], cwd=job.project, check=True)
    assert "done (exit 0)" in job("status")[1]


def test_nodes_start_by_hand_in_any_order(cluster: Cluster, tmp_path: Path) -> None:
    words = ("nodes=3", "procs=2", "launcher=spawn")
    job = make(cluster, tmp_path / "hand", "ssh", *words, command=("program.py", "-", "1"))
    code, said = job("submit", "--only-prepare")
    assert code == 0 and said.splitlines()[0] == str(job.run)
    launch_sh = job.run / "artifact" / "0" / "launch.sh"
    started = [cluster.nodes[rank].popen([launch_sh, str(rank)], stdout=subprocess.PIPE) for rank in (2, 0, 1)]
    said = "".join(process.communicate(timeout=60)[0] for process in started)
    assert [process.returncode for process in started] == [0, 0, 0], said
    assert "world size 6, on node1,node2,node3" in said
    assert "done (exit 0)" in job("status")[1]


MEET = """
import os, torch, torch.distributed as dist
dist.init_process_group("gloo")
ones = torch.ones(1)
dist.all_reduce(ones)
print("rank", dist.get_rank(), "of", int(ones), "on", os.uname().nodename, os.environ["GROUP_RANK"], flush=True)
dist.destroy_process_group()
"""


MEETINGS = {
    "c10d": ("ssh", 2, "rendezvous.backend=c10d", "hosts=[node2,node1]"),  # torchrun would sort them by address
    "c10d under accelerate": ("ssh", 2, "rendezvous.backend=c10d", "hosts=[node2,node1]", "launcher=accelerate"),
    "c10d on slurm": ("slurm", 1, "rendezvous.backend=c10d"),
    "torch.distributed.launch": ("ssh", 1, "launcher=torch_distributed_launch", "hosts=[node2,node1]"),
}


@pytest.mark.parametrize(("way", "procs", "words"), [(w, n, rest) for w, n, *rest in MEETINGS.values()], ids=MEETINGS)
def test_ranks_meet_and_are_numbered_by_the_places_of_their_hosts(
    cluster: Cluster, tmp_path: Path, way: str, procs: int, words: list[str]
) -> None:
    sizes = ("nodes=2", f"procs={procs}", "launcher=torchrun")
    job = make(cluster, tmp_path / "project", way, *sizes, *words, command=("meet.py",))
    (job.project / "meet.py").write_text(MEET)
    code, said = submit(job, way)
    assert code == 0, said
    hosts = ("node1", "node2") if way == "slurm" else ("node2", "node1")
    for rank in range(2 * procs):
        node = rank // procs
        assert f"rank {rank} of {2 * procs} on {hosts[node]} {node}\n" in read(job.run / f"logs/rank_{rank:02}.log")


@pytest.mark.parametrize("way", ["ssh", "slurm"])
def test_a_shell_does_without_the_secret_of_a_run(cluster: Cluster, tmp_path: Path, way: str) -> None:
    """On ssh it is removed when all nodes are up; and without a run there is none."""
    command = ("program.py", "-", "300")
    job = make(cluster, tmp_path / "project", way, "nodes=2", "secrets.TOKEN=env:TOKEN", command=command)
    code, said = job("shell", "--", "bash", "-c", "echo in $JOBC_JOB_NAME: ${TOKEN-nothing}")
    assert code == 0 and "warning: secret TOKEN is not in this shell" in said and "in job: nothing" in said, said


def test_a_detached_run_survives_the_host_it_was_submitted_from(cluster: Cluster, tmp_path: Path) -> None:
    job = make(cluster, tmp_path / "project", "ssh", "nodes=2", command=("program.py", "-", "4"))
    code, said = job("submit", "--detach")
    assert code == 0, said
    cluster.login.power_off()
    wait_for(lambda: len(list((job.run / "exit/0").glob("node_*"))) == 2, "the end of both nodes")
    cluster.login.power_on()
    wait_for(lambda: "done (exit 0)" in job("status")[1], "the end, in words")


def test_two_runs_that_derive_one_port_start_on_the_same_hosts(cluster: Cluster, tmp_path: Path) -> None:
    """Of one name, so of one derived port; each worker gets the port that its own node 0 could have."""
    jobs = [
        make(cluster, tmp_path / name, "ssh", "nodes=2", command=("program.py", "-", "20")) for name in ("one", "two")
    ]
    for job in jobs:
        code, said = job("submit", "--detach", "--run-id", "same")
        assert code == 0, said
    ports = {int(re.findall(r"^port=(\d+)$", read(job.run / "state/head"), re.MULTILINE)[0]) for job in jobs}
    assert len(ports) == 2 and all(f"at node1:{port}" in "".join(map(shown, jobs)) for port in ports)
    for job in jobs:
        wait_for(lambda job=job: "done (exit 0)" in job("status")[1], "the end")


def shown(job: Job) -> str:
    return read(job.run / "logs/node_00.log")
