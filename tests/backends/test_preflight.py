"""jobctl preflight and the network on the test bed: what it reports for good nodes and for every reproducible
defect.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from jobc.compiler.pipeline.compile import compile_job, write_compiled_job
from jobc.compiler.pipeline.types import CompileRequest
from jobc.tests.testbed import Cluster, Shape
from jobc.tests.testbed.fixtures import MakeCluster

pytestmark = pytest.mark.engine

WAYS = {
    "ssh": ("backend=ssh", "hosts=node[1-4]", "backend.connect_timeout=2s"),
    "pdsh": ("backend=pdsh", "hosts=node[1-4]", "backend.connect_timeout=2s"),
    "clush": ("backend=pdsh", "backend.client=clush", "hosts=node[1-4]", "backend.connect_timeout=2s"),
    "slurm": ("backend=slurm",),
}
TORCH = """
from types import SimpleNamespace
__version__ = {version!r}
version = SimpleNamespace(cuda="12.8", hip=None)
cuda = SimpleNamespace(device_count=lambda: 2, nccl=SimpleNamespace(version=lambda: (2, {nccl}, 3)))
"""
PYTHON = "/tmp/env/python"  # each host has a /tmp of its own


class Job:
    """An artifact in a project folder that all hosts see; its scripts run on the login host."""

    def __init__(self, cluster: Cluster, project: Path, way: str, *words: str, command: str = "program.py") -> None:
        project.mkdir(parents=True, exist_ok=True)
        (project / "program.py").write_text("import os\nprint(os.environ['GLOO_SOCKET_IFNAME'], flush=True)\n")
        base = ("name=job", "nodes=4", "gpus=2", f"python.interpreter={sys.executable}", "lifecycle.grace=5s")
        compiled = compile_job(CompileRequest((*WAYS[way], *base, *words), (command,)))
        self.cluster, self.project = cluster, project
        self.artifact = write_compiled_job(compiled, project / "artifacts")

    def __call__(self, verb: str, *words: str) -> tuple[int, str]:
        done = self.cluster.login.run([str(self.artifact / "jobctl"), verb, *words], cwd=self.project, timeout_s=120)
        return done.returncode, done.stdout + done.stderr

    def table(self) -> tuple[int, list[tuple[str, str, str]], str]:
        """Status of jobctl preflight, the rows (level, where, text), and all that it said."""
        code, said = self("preflight")
        rows = re.findall(r"^(ok|FAIL) +(\S+) +(.*)$", said, re.MULTILINE)
        return code, [row for row in rows if row[1] != "Slurm"], said


def make_environment(cluster: Cluster, **versions: str) -> None:
    """A python with a torch of its own on each node that is named: `node1="2.13.0"`."""
    for node in cluster.nodes:
        if version := versions.get(node.hostname):
            site = node.outside("/tmp/env/site/torch")
            site.mkdir(parents=True)
            nccl = 27 if version.startswith("2.13") else 21
            (site / "__init__.py").write_text(TORCH.format(version=version, nccl=nccl))
            python = node.outside(PYTHON)
            python.write_text(f'#!/bin/sh\nPYTHONPATH=/tmp/env/site exec {sys.executable} "$@"\n')
            python.chmod(0o755)


def test_good_nodes_are_ready(cluster: Cluster, tmp_path: Path) -> None:
    for way in WAYS:
        code, rows, said = Job(cluster, tmp_path / way, way, "launcher=spawn", "network=ethernet").table()
        assert code == 0 and "\nready: 4 nodes\n" in said, said
        assert {level for level, _, _ in rows} == {"ok"}
        assert ("ok", "node[2-4]", "reachable from node 0") in rows, said
        assert ("ok", "node[1-4]", "the same on all nodes: GPU Fake GPU") in rows
        assert not list((tmp_path / way).glob("runs/*/*")), "the temporary run is removed"


def test_each_defect_is_told_with_its_node(make_cluster: MakeCluster, tmp_path: Path) -> None:
    cluster = make_cluster(Shape())
    one, two, three, four = cluster.nodes
    make_environment(cluster, node1="2.13.0", node2="2.13.0", node3="2.12.1", node4="2.13.0")
    for node, text in ((one, "1"), (two, "1"), (three, "1"), (four, "2")):
        node.outside("/tmp/code").mkdir()
        (node.outside("/tmp/code") / "program.py").write_text(text)
    for node in (one, two, three):
        node.outside("/tmp/data").mkdir()
    listener = one.popen(
        [sys.executable, "-c", "import socket, time; s = socket.create_server(('', 29999)); time.sleep(99)"]
    )
    two.run("echo 40000 >/run/gpus/1", check=True)
    defects = {
        ("node1", "rendezvous port 29999 is in use"),
        ("node2", "free GPUs: 1 of 2, required: 2: GPU 1 has 40000 MiB in use"),
        ("node3", "torch 2.12.1, but torch 2.13.0 on node[1-2,4]"),
        ("node3", "NCCL 2.21.3, but NCCL 2.27.3 on node[1-2,4]"),
        ("node4", "data folder /tmp/data: No such file or directory"),
    }
    words = (
        "storage.data=/tmp/data",
        "rendezvous.port=29999",
        f"python.interpreter={PYTHON}",
        "code=shared",
        "code.root=/tmp/code",
    )
    try:
        for way in ("ssh", "slurm"):
            code, rows, said = Job(cluster, tmp_path / way, way, *words).table()
            failed = {(where, text) for level, where, text in rows if level == "FAIL"}
            other_code = {pair for pair in failed if pair[0] == "node4" and "code" in pair[1]}
            assert code == 1 and len(other_code) == 1 and failed - other_code == defects, said
            assert f"not ready: {len(failed)} of {len(rows)} checks failed" in said
    finally:
        listener.kill()


def test_a_host_that_does_not_answer_is_told_with_the_reason(make_cluster: MakeCluster, tmp_path: Path) -> None:
    cluster = make_cluster(Shape())
    _, two, _, four = cluster.nodes
    make_environment(cluster, node1="2.13.0", node2="2.13.0", node4="2.13.0")
    keys = cluster.login.home / ".ssh" / "authorized_keys"
    two.run(["mount", "--bind", "/dev/null", keys], check=True)
    four.cut_link()
    for way in ("ssh", "clush"):  # pdsh says what ssh says
        code, rows, said = Job(cluster, tmp_path / way, way, f"python.interpreter={PYTHON}").table()
        failed = {where: text for level, where, text in rows if level == "FAIL"}
        assert code == 1 and set(failed) == {"node2", "node3", "node4"}, said
        assert "Permission denied" in failed["node2"] and "ssh-copy-id root@node2" in said
        assert f"python not found: {PYTHON}" in failed["node3"]
        assert re.search("timed out|No route to host", failed["node4"])


def test_storage_that_is_not_shared_or_not_written_is_told(make_cluster: MakeCluster, tmp_path: Path) -> None:
    cluster = make_cluster(Shape())
    _, two, three, _ = cluster.nodes
    job = Job(cluster, tmp_path / "project", "ssh", "launcher=spawn")
    two.run(["mount", "-t", "tmpfs", "none", job.project], check=True)
    three.run(f"mount --bind {job.project} {job.project} && mount -o remount,ro,bind {job.project}", check=True)
    code, rows, said = job.table()
    failed = [(where, text) for level, where, text in rows if level == "FAIL"]
    assert code == 1 and {where for where, _ in failed} == {"node2", "node3"}, said
    assert "must be on storage that all hosts share" in dict(failed)["node2"]
    assert any("Read-only file system" in text for where, text in failed if where == "node3")


def test_a_network_that_drops_what_one_node_sends_is_told(make_cluster: MakeCluster, tmp_path: Path) -> None:
    cluster = make_cluster(Shape())
    cluster.nodes[2].run(f"ip route add unreachable {cluster.nodes[0].address}", check=True)
    code, rows, said = Job(cluster, tmp_path / "project", "ssh", "launcher=spawn").table()
    failed = {where: text for level, where, text in rows if level == "FAIL"}
    assert code == 1 and set(failed) == {"node3"} and "node1" in said


def test_each_node_takes_the_interface_that_leads_to_the_head(make_cluster: MakeCluster, tmp_path: Path) -> None:
    cluster = make_cluster(Shape())
    decoys = "".join(
        f"ip link add {name} type bridge; ip addr add {address} dev {name}; ip link set {name} up; "
        for name, address in (("aaa0", "10.99.0.1/16"), ("docker0", "172.17.0.1/16"))
    )
    for node in cluster.nodes:
        node.run(decoys, check=True)
    cluster.nodes[1].run("ip link set eth0 down; ip link set eth0 name fast7; ip link set fast7 up", check=True)
    job = Job(cluster, tmp_path / "project", "ssh", "launcher=spawn")
    assert job("submit")[0] == 0
    logs = sorted(job.project.glob("runs/job/*/logs/rank_*.log"))
    assert [log.read_text().split()[-1] for log in logs] == ["eth0"] * 2 + ["fast7"] * 2 + ["eth0"] * 4


def test_a_fabric_that_is_promised_and_missing_ends_the_job_at_its_start(cluster: Cluster, tmp_path: Path) -> None:
    for way in ("ssh", "slurm"):
        job = Job(cluster, tmp_path / way, way, "launcher=spawn", "network=infiniband")
        code, said = job("submit", *(["--wait"] if way == "slurm" else []))
        logs = "".join(log.read_text() for log in job.project.glob("runs/job/*/logs/*"))
        assert code == 65 and "network=infiniband, but node1 has no active InfiniBand port" in said + logs, said
        assert not list(job.project.glob("runs/job/*/logs/rank_*")), "no rank has started"
        assert (
            "FAIL",
            "node[1-4]",
            "network=infiniband, but this node has no active InfiniBand port (no adapter at all)",
        ) in job.table()[1]


def test_a_worker_says_which_port_it_waits_for_and_why_in_vain(cluster: Cluster, tmp_path: Path) -> None:
    job = Job(cluster, tmp_path, "ssh", "gpus=0", "rendezvous.timeout=16s")
    run = tmp_path / "run"
    (run / "state").mkdir(parents=True)
    (run / "state/run").write_text("job=job\n")
    env = {"JOBC_RUN_DIR": str(run), "JOBC_HEAD_ADDR": "node1", "JOBC_HEAD_PORT": "29555"}
    done = cluster.nodes[1].run([job.artifact / "launch.sh", "1", "train"], env=env, cwd=tmp_path)
    assert done.returncode == 71, done.stdout + done.stderr
    assert "waiting for node 0 at node1:29555: connection refused; giving up in " in done.stdout
    assert "jobc: node 0 at node1:29555 did not respond within 16 s: connection refused\n" in done.stdout


def test_smoke_is_a_collective_and_a_proof_of_sharding(cluster: Cluster, tmp_path: Path) -> None:
    job = Job(cluster, tmp_path, "ssh", "nodes=2", "gpus=0")
    code, said = job("smoke")
    assert code == 0, said
    assert "process group: 4 ranks on 2 hosts" in said
    assert "sharding: 1000 samples, each seen by exactly one of 4 ranks" in said
