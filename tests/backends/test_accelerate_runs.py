"""Ranks started by the real `accelerate launch`: weights, exit codes, edited files, and a program that uses
accelerate.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from jobc.compiler.pipeline.compile import compile_job, write_compiled_job
from jobc.compiler.pipeline.types import CompileRequest
from jobc.tests.backends.jobs import AS_ROOT, STEPS, said_by_steps
from jobc.tests.testbed import Cluster

pytest.importorskip("accelerate", reason="accelerate is an extra: pip install 'jobc[accelerate]'")
pytestmark = [pytest.mark.engine, pytest.mark.slow]

BASE = ("name=job", f"python.interpreter={sys.executable}", "procs=2")
SMALL = ("task=digits", "loop.epochs=null", "loop.steps=8")


def artifact(project: Path, *words: str, command: tuple[str, ...] | None = None) -> Path:
    return write_compiled_job(compile_job(CompileRequest((*BASE, *words), command)), project / "artifacts")


def submitted(folder: Path, *words: str) -> tuple[int, str]:
    command = [str(folder / "jobctl"), "submit", *words]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("JOBC_", "ACCELERATE_"))}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=200, check=False
    )
    return done.returncode, done.stdout + done.stderr


def test_two_hosts_end_with_the_same_weights_through_each_launcher(cluster: Cluster, tmp_path: Path) -> None:
    found = {}
    for launcher in ("torchrun", "accelerate", "mpirun"):
        project = tmp_path / launcher
        project.mkdir()
        sizes = ("hosts=node[1-2]", "nodes=2", "procs=1")
        words = ("backend=ssh", *sizes, f"launcher={launcher}", "rendezvous.timeout=4m", *AS_ROOT)
        done = cluster.login.run(
            [str(artifact(project, *words, *SMALL) / "jobctl"), "submit"], cwd=project, timeout_s=220
        )
        assert done.returncode == 0, done.stdout + done.stderr
        found[launcher] = re.findall(r"sha256 (\w{64})", done.stdout)
    assert found["torchrun"] == found["accelerate"] == found["mpirun"] and found["torchrun"], found


@pytest.mark.parametrize("code", [65, 75, 1])
def test_the_exit_code_of_a_rank_survives_accelerate(code: int, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(
        "import os, sys\nsys.exit(int(sys.argv[1]) if os.environ['RANK'] == '1' else 0)"
    )
    job = artifact(tmp_path, "backend=accelerate", command=("program.py", str(code)))
    assert submitted(job)[0] == code


@pytest.mark.parametrize(
    ("edit", "words", "told"),
    [
        (("num_processes: 2", "num_processes: 4"), (), "world_size 2"),
        (('mixed_precision: "no"', "mixed_precision: bf16"), (), "mixed_precision: bf16, not no"),
        (("distributed_type: MULTI_GPU", "distributed_type: NO"), (), "WORLD_SIZE=1"),
        (("distributed_type: DEEPSPEED", "distributed_type: MULTI_GPU"), ("parallel=deepspeed",), "not DEEPSPEED"),
    ],
    ids=["world", "precision", "one_process", "parallel"],
)
def test_a_yaml_that_was_edited_ends_the_trainer_with_65_and_both_names(
    edit: tuple[str, str], words: tuple[str, ...], told: str, tmp_path: Path
) -> None:
    job = artifact(tmp_path, "backend=accelerate", *SMALL, *words)
    yaml = job / "accelerate.yaml"
    assert edit[0] in yaml.read_text()
    yaml.write_text(yaml.read_text().replace(*edit))
    code, said = submitted(job)
    assert code == 65, said
    assert told in said and "accelerate.yaml" in said and "train.json" in said


PROGRAM = """
import torch
from accelerate import Accelerator
accelerator = Accelerator()
total = accelerator.reduce(torch.ones(1), reduction="sum")
print("sum", total.item(), accelerator.mixed_precision, accelerator.num_processes, accelerator.device.type, flush=True)
accelerator.end_training()
"""


def test_for_a_program_that_uses_accelerate_the_yaml_is_what_counts(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(PROGRAM)
    job = artifact(tmp_path, "backend=accelerate", "loop.precision=bf16", command=("train.py",))
    code, said = submitted(job)
    assert code == 0 and "sum 2.0 bf16 2 cpu" in said, said
    yaml = job / "accelerate.yaml"
    yaml.write_text(yaml.read_text().replace("mixed_precision: bf16", 'mixed_precision: "no"'))
    code, said = submitted(job)
    assert code == 0 and "sum 2.0 no 2 cpu" in said, said


def test_one_process_and_other_backends_start_it_as_well(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(PROGRAM)
    code, said = submitted(artifact(tmp_path, "backend=accelerate", "procs=1", command=("train.py",)))
    assert code == 0 and "sum 1.0 no 1 cpu" in said, said
    job = artifact(tmp_path, "backend=local", "launcher=accelerate", *STEPS, command=("train.py",))
    code, said = submitted(job)
    assert code == 0 and "sum 2.0 no 2 cpu" in said, said
    *_, run = sorted(tmp_path.glob("runs/job/*"))
    assert said_by_steps(run, 2, 1)


def test_deepspeed_trains_below_accelerate_as_below_torchrun(tmp_path: Path) -> None:
    pytest.importorskip("deepspeed", reason="DeepSpeed is an extra")
    found = {}
    for backend in ("local", "accelerate"):
        project = tmp_path / backend
        project.mkdir()
        job = artifact(project, f"backend={backend}", *SMALL, "parallel=deepspeed", "parallel.zero_stage=3")
        code, said = submitted(job)
        assert code == 0, said
        found[backend] = re.findall(r"sha256 (\w{64})", said)
    assert found["local"] == found["accelerate"] and found["local"], found
