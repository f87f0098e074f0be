"""jobc init on a real login host, and jobs submitted with the profile that it wrote."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from jobc.tests.testbed import Cluster

pytestmark = pytest.mark.engine

ROOT = Path(__file__).parents[2]


def jobc(cluster: Cluster, folder: Path, *words: str) -> tuple[int, str]:
    """Run jobc as a user of the login host, in the virtual environment of these tests."""
    environment = {"PYTHONPATH": str(ROOT / ".dev"), "VIRTUAL_ENV": sys.prefix}
    command = [sys.executable, "-m", "jobc", *words]
    done = cluster.login.run(command, cwd=folder, env=environment, timeout_s=120)
    return done.returncode, done.stdout + done.stderr


@pytest.fixture
def folder(cluster: Cluster, tmp_path: Path) -> Path:
    """Return a project that all hosts can access. No profile is left in root's home there."""
    shutil.rmtree(cluster.shared / "home" / ".config", ignore_errors=True)
    return tmp_path


def test_init_on_a_login_host_writes_what_compiles_and_runs(cluster: Cluster, folder: Path) -> None:
    code, said = jobc(cluster, folder, "init")
    assert code == 0, said
    assert "main: {nodes: 4, gpus: 2, gpu_types: [fake], cpus: 16, mem: 64000MiB, time: 1h}" in said
    words = ("cluster=testbed", "name=x", "nodes=2", "gpus=2", "gpu_type=fake", "time=5m", "launcher=spawn")
    code, said = jobc(cluster, folder, "run", *words, "--", "bash", "-c", "echo rank $RANK on $(uname -n)")
    assert code == 0, said
    job = folder / "artifacts" / "x" / "slurm"
    cluster.wait_idle()
    assert "done (exit 0)" in cluster.login.run([str(job / "jobctl"), "status"], cwd=folder).stdout


def test_what_the_site_does_not_have_is_refused_before_slurm_is_asked(cluster: Cluster, folder: Path) -> None:
    assert jobc(cluster, folder, "init")[0] == 0
    words = ("nodes=5", "gpus=4", "gpu_type=H100", "cpus=32", "mem=1TiB", "time=2h")
    code, said = jobc(cluster, folder, "cluster=testbed", *words)
    assert code == 1
    for number in ("JC2060", "JC2061", "JC2062", "JC2063", "JC2065"):
        assert f"[{number} " in said
    assert "[JC2064 " in jobc(cluster, folder, "cluster=testbed", "queue.name=shrot")[1]


def test_init_looks_at_the_first_of_the_hosts(cluster: Cluster, folder: Path) -> None:
    (folder / "node_ip_list.txt").write_text("node2\nnode3\n")
    code, said = jobc(cluster, folder, "init", "pair", "backend=ssh", "hosts=@node_ip_list.txt")
    assert code == 0 and "gpus: 2                 # nvidia-smi: Fake GPU" in said, said
    words = ("cluster=pair", "name=y", "nodes=2", "procs=1", "launcher=spawn")
    code, said = jobc(cluster, folder, "run", *words, "--", "bash", "-c", "echo rank $RANK on $(uname -n)")
    assert code == 0 and "rank 0 on node2" in said, said
