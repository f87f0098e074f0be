"""An artifact runs where jobc is not installed, with only bash and Python with torch."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from jobc.compiler.pipeline.compile import compile_job, write_compiled_job
from jobc.compiler.pipeline.types import CompileRequest

NOT_THERE = ("jobc", "hydra", "omegaconf", "antlr4", "jinja2", "yaml", "rich", "pytest")
TORCH_NEEDS = (
    "torch", "torchgen", "numpy", "numpy.libs", "typing_extensions.py", "sympy", "mpmath", "networkx", "filelock",
    "fsspec", "nvidia", "triton", "setuptools",
)  # fmt: skip


@pytest.fixture(scope="module")
def bare_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python that sees torch, what torch imports, and nothing else: links in the site-packages of a new venv.

    jinja2 is one of torch's dependencies, for torch.compile only, and is left out too.
    """
    venv = tmp_path_factory.mktemp("bare") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
    site = venv / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    spec = importlib.util.find_spec("torch")
    assert spec is not None and spec.origin is not None
    source = Path(spec.origin).parents[1]
    for name in TORCH_NEEDS:
        if (source / name).exists():
            (site / name).symlink_to(source / name)
    return venv / "bin"


@pytest.mark.engine
def test_the_trainer_trains_without_jobc(bare_python: Path, tmp_path: Path) -> None:
    words = ("task=digits", "name=bare", "procs=2", "loop.steps=3", "loop.epochs=null", "optim.warmup_steps=1")
    compiled = compile_job(CompileRequest((*words, "validation.every_steps=3", "checkpoint.every_steps=3")))
    artifact = write_compiled_job(compiled, tmp_path / "artifacts")
    environment = {"PATH": f"{bare_python}:/usr/bin:/bin", "HOME": str(tmp_path)}
    seen = "import importlib.util as u, sys; print([n for n in sys.argv[1:] if u.find_spec(n)])"
    command = ["python3", "-c", seen, *NOT_THERE]
    found = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"

    moved = tmp_path / "another cluster" / "artifacts" / "bare" / "local"
    shutil.copytree(artifact, moved)
    shutil.rmtree(tmp_path / "artifacts")
    done = subprocess.run(
        [moved / "jobctl", "submit"], env=environment, cwd="/", capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr

    (run,) = (tmp_path / "another cluster" / "runs" / "bare").iterdir()
    lines = [json.loads(line) for line in (run / "metrics" / "rank_00.jsonl").read_text().splitlines()]
    assert max(line.get("step", 0) for line in lines) == 3
    assert os.listdir(run / "checkpoints")
