"""The named experiments on the test bed, each started as its team would start it, but small enough for CPUs."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from jobc.compiler.pipeline.compile import compile_job, write_compiled_job
from jobc.compiler.pipeline.types import CompileRequest
from jobc.tests.testbed import Cluster

pytestmark = pytest.mark.engine

ON_CPUS = ("gpus=0", "procs=1", "lifecycle.grace=5s", f"python.interpreter={sys.executable}")
TEXT = ("data.max_bytes=60000", "data.val_fraction=0.3")


def run(cluster: Cluster, project: Path, *words: str) -> str:
    """Compile in a project that all hosts see and submit on the login host; what its node 0 said."""
    job = write_compiled_job(compile_job(CompileRequest((*words, *ON_CPUS))), project / "artifacts")
    wait = ["--wait"] if "backend=slurm" in words else []
    done = cluster.login.run([str(job / "jobctl"), "submit", *wait], cwd=project, timeout_s=180)
    assert done.returncode == 0, done.stdout + done.stderr
    (log,) = project.glob("runs/*/*/logs/node_00.log")
    return log.read_text()


def test_qwen_image_over_ssh(cluster: Cluster, tmp_path: Path) -> None:
    small = ("queue.nodelist=node1,node3", "model.layers=1", "data.val_samples=16", "loop.epochs=null", "loop.steps=4")
    assert re.search(r"sha256 \w{64}", run(cluster, tmp_path, "+experiment=qwen_image", "backend=ssh", *small))


def test_slurm_ddp_by_sbatch(cluster: Cluster, tmp_path: Path) -> None:
    small = ("queue.nodelist=node[3-4]", "cpus=2", "mem=1GiB", "threads=1", "loop.epochs=5")
    assert re.search(r"sha256 \w{64}", run(cluster, tmp_path, "+experiment=slurm_ddp", "backend=slurm", *small))
    steps = sorted(path.name for path in tmp_path.glob("runs/*/*/checkpoints/*"))
    assert any("115" in step for step in steps), steps


def test_aorta_from_its_list_of_addresses(cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    addresses = [node.address for node in cluster.nodes[:2]]
    Path("node_ip_list.txt").write_text("".join(f"{address}\n" for address in addresses))
    small = ("model.layers=1", *TEXT, "loop.steps=2")
    said = run(cluster, tmp_path, "+experiment=aorta", "backend=ssh", "hosts=@node_ip_list.txt", *small)
    assert re.search(r"sha256 \w{64}", said)


def test_audio_encoder_by_pdsh_with_the_team_s_own_program(cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "local3.yaml").write_text("train: {batch_size: 64}\n")
    (tmp_path / "train.py").write_text(
        "import os, sys\n"
        "assert sys.argv[1:] == ['--config', 'config/local3.yaml', '--distributed-backend', 'nccl']\n"
        "print('rank', os.environ['RANK'], 'of', os.environ['WORLD_SIZE'], open(sys.argv[2]).read().strip())\n"
    )
    small = ("hosts=node[1-4]", "nodes=4", "launcher=spawn")
    said = run(cluster, tmp_path, "+experiment=audio_encoder", "backend=pdsh", *small)
    assert "rank 0 of 4 train: {batch_size: 64}" in said
