"""`sky launch` on the test bed's Slurm: 4 x 2 ranks with accelerate train to the local hash; stop ends the run."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobc.compiler.pipeline.compile import compile_job, write_compiled_job
from jobc.compiler.pipeline.types import CompileRequest
from jobc.tests.backends.jobs import STEPS, said_by_steps
from jobc.tests.skypilot.bed import ON_BED, SKY, SkyBed
from jobc.tests.testbed import Cluster
from jobc.tests.testbed.fixtures import start
from jobc.tests.testbed.process import wait_for
from jobc.tests.testbed.settings import Shape

pytestmark = [pytest.mark.engine, pytest.mark.timeout(900)]

TRAIN = ("task=digits", "loop.epochs=1", "name=train")
PROGRAM = (
    "import os, signal, sys, time; signal.signal(signal.SIGTERM, lambda *_: sys.exit(75)); print('up', flush=True)"
)


@pytest.fixture(scope="module")
def cluster(testbed: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with start(Shape(nodes=4, gpu_type="H100", visible=(SKY,)), tmp_path_factory) as cluster:
        (cluster.shared / "project").mkdir()
        yield cluster


@pytest.fixture(scope="module")
def bed(cluster: Cluster) -> Iterator[SkyBed]:
    with SkyBed(cluster) as bed:
        yield bed


def write(cluster: Cluster, *words: str, command: tuple[str, ...] | None = None) -> Path:
    """Return the artifact, in a project that all hosts can access."""
    compiled = compile_job(CompileRequest((*ON_BED, f"storage.root={cluster.shared}/storage", *words), command))
    return write_compiled_job(compiled, cluster.shared / "project" / "artifacts", force=True)


def weights(runs: Path) -> str:
    (file,) = runs.glob("train/*/final/weights.pt")
    return hashlib.sha256(file.read_bytes()).hexdigest()


def local_weights(folder: Path) -> str:
    compiled = compile_job(CompileRequest(("backend=local", "procs=8", "threads=1", "launcher=spawn", *TRAIN)))
    artifact = write_compiled_job(compiled, folder / "artifacts")
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    subprocess.run([artifact / "jobctl", "submit"], env=environment, capture_output=True, check=True)
    return weights(folder / "runs")


def test_sky_launch(cluster: Cluster, bed: SkyBed, tmp_path: Path) -> None:
    """Use one SkyPilot cluster for all tests, because each launch takes a minute."""
    bed.seed("train")
    artifact = write(cluster, "threads=1", "launcher=accelerate", *TRAIN)
    said = bed.run(f"{artifact}/jobctl preflight --queue-only", check=True).stdout
    assert "ok    SkyPilot would launch the job" in said
    done = bed.run(f"{artifact}/jobctl submit --wait")
    assert done.returncode == 0 and "done (exit 0)" in done.stdout, done.stdout + done.stderr
    assert weights(cluster.shared / "storage") == local_weights(tmp_path)
    status = bed.run(f"{artifact}/jobctl status", check=True).stdout
    assert "done (exit 0)" in status and "jobctl stop --down deletes it" in status

    # D13: SkyPilot sees the code of the run, and not that of what it killed after the first node had ended.
    (cluster.shared / "project" / "program.py").write_text(f"{PROGRAM}\nsys.exit(int(sys.argv[1]))\n")
    artifact = write(cluster, "name=code", "backend.cluster=train", "launcher=spawn", command=("program.py", "75"))
    done = bed.run(f"{artifact}/jobctl submit --wait")
    assert done.returncode == 75 and "return code list: [75]" in done.stdout, done.stdout + done.stderr

    # D14: jobctl stop reaches the nodes by SkyPilot's own ssh; on Slurm the cluster goes with its last run.
    (cluster.shared / "project" / "program.py").write_text(f"{PROGRAM}\ntime.sleep(300)\n")
    artifact = write(cluster, "name=stopped", "backend.cluster=train", "launcher=spawn", command=("program.py",))
    bed.run(f"{artifact}/jobctl submit", check=True)
    logs = cluster.shared / "storage" / "stopped"
    wait_for(lambda: len([f for f in logs.glob("*/logs/rank_*.log") if "up" in f.read_text()]) == 8, "ranks", 120)
    done = bed.run(f"{artifact}/jobctl stop")
    assert done.returncode == 0 and "stopped by jobctl stop" in done.stdout, done.stdout + done.stderr
    assert "no longer costs" in done.stdout and cluster.jobs() == [], done.stdout + done.stderr


def test_a_cluster_of_slurm_ends_by_itself(cluster: Cluster, bed: SkyBed) -> None:
    """backend.autostop: the allocation ends a minute after its last job, without any query."""
    bed.seed("idle")
    (cluster.shared / "project" / "hello.py").write_text("print('hello')\n")
    words = ("name=idle", "nodes=1", "procs=1", "launcher=spawn", "backend.autostop=1m", *STEPS)
    artifact = write(cluster, *words, command=("hello.py",))
    done = bed.run(f"{artifact}/jobctl submit --wait")
    assert done.returncode == 0 and cluster.jobs(), done.stdout + done.stderr
    (run,) = (cluster.shared / "storage" / "idle").glob("*/")
    assert said_by_steps(run, 1, 1)
    wait_for(lambda: cluster.jobs() == [], "the end of the cluster", 300)
    status = bed.run(f"{artifact}/jobctl status", check=True).stdout
    assert "cluster idle has been deleted and no longer costs anything" in status
