"""Backend local with several nodes on this machine: the same training, and separate GPUs of the requested type."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from jobc.compiler.pipeline.compile import compile_job, write_compiled_job
from jobc.compiler.pipeline.types import CompileRequest

NVIDIA_SMI = """#!/bin/sh
case $1 in
  --query-compute-apps*) ;;
  *) for gpu in 0 1 2 3; do echo "$gpu, NVIDIA H100 80GB HBM3, 4, GPU-$gpu"; done ;;
esac
"""


def run(project: Path, verb: str, *words: str, command: tuple[str, ...] | None = None) -> tuple[int, str]:
    """Exit code and output of a verb of the job, compiled in the project."""
    compiled = compile_job(CompileRequest(("backend=local", "launcher=spawn", *words), command))
    artifact = write_compiled_job(compiled, project / "artifacts", force=True)
    environment = {**os.environ, "PATH": f"{project}:{os.environ['PATH']}"}
    environment.pop("CUDA_VISIBLE_DEVICES", None)
    command = [artifact / "jobctl", verb]
    done = subprocess.run(
        command, cwd=project, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.timeout(400)
def test_two_nodes_here_train_to_the_weights_of_one(tmp_path: Path) -> None:
    train = ("task=digits", "loop.epochs=null", "loop.steps=3")
    two, one = (
        run(tmp_path, "submit", *train, *size) for size in (("nodes=2", "procs=1"), ("nodes=1", "procs=2", "name=one"))
    )
    assert "2 ranks on 2 nodes" in two[1], two[1]
    sums = [re.findall(r"sha256 (\w{64})", said) for _, said in (two, one)]
    assert sums[0] and sums[0] == sums[1]


def test_nodes_have_gpus_of_their_own_and_of_the_type_that_is_asked(tmp_path: Path) -> None:
    (tmp_path / "nvidia-smi").write_text(NVIDIA_SMI)
    (tmp_path / "nvidia-smi").chmod(0o755)
    size = ("nodes=2", "gpus=2", "procs=1", "code=none")
    program = ("bash", "-c", "echo sees $CUDA_VISIBLE_DEVICES")
    code, said = run(tmp_path, "submit", *size, "gpu_type=H100", command=program)
    assert code == 0, said
    logs = [(log.name, log.read_text()) for log in tmp_path.glob("runs/*/*/logs/rank_*.log")]
    seen = {(name, found) for name, text in logs for found in re.findall(r"^sees (.*)$", text, re.MULTILINE)}
    assert seen == {("rank_00.log", "0,1"), ("rank_01.log", "2,3")}
    code, said = run(tmp_path, "submit", *size, "gpu_type=A100", command=program)
    assert code == 65 and "NVIDIA H100 80GB HBM3; required: A100" in said, said
    code, said = run(tmp_path, "preflight", *size, "gpu_type=A100", command=program)
    assert code == 1 and re.search(r"^FAIL .*NVIDIA H100 80GB HBM3; required: A100$", said, re.MULTILINE), said
    code, said = run(tmp_path, "submit", "nodes=1", *size[1:], "gpu_type=A100", command=program)
    assert code == 65 and "required: A100" in said, said


def test_a_value_of_the_run_reaches_each_node(tmp_path: Path) -> None:
    program = ("bash", "-c", 'echo "got $0 $1 $TRIAL"', "${jobc:node_rank}", "it's ${jobc:attempt}")
    code, said = run(
        tmp_path, "submit", "nodes=2", "procs=1", "code=none", "env.TRIAL=t-${jobc:run_id}", command=program
    )
    assert code == 0, said
    (folder,) = tmp_path.glob("runs/*/*")
    for rank in range(2):
        assert f"got {rank} it's 0 t-{folder.name}\n" in (folder / f"logs/rank_0{rank}.log").read_text()
