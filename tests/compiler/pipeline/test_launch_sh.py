"""launch.sh of a job without setup lines: it is short, and a node without python3 gets a clear error."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from jobc.compiler.pipeline.compile import compile_job
from jobc.compiler.pipeline.types import CompileRequest


def launch_sh(*words: str) -> str:
    compiled = compile_job(CompileRequest(("backend=local", *words), ("train.py",)))
    return next(file.text for file in compiled.artifacts if file.path == "launch.sh")


@pytest.mark.parametrize(
    "word", ["setup=[module list]", "python.modules=[gcc]", "python.interpreter=python3.12", "container.workdir=/w"]
)
def test_only_a_job_whose_setup_can_fail_reports_failures_with_jobctl(word: str) -> None:
    assert "node_failure" in launch_sh(word)
    assert "node_failure" not in launch_sh()


def test_a_node_without_python3_says_so(tmp_path: Path) -> None:
    for name in ("bash", "dirname", "env", "uname"):
        (tmp_path / name).symlink_to(str(shutil.which(name)))
    (tmp_path / "launch.sh").write_text(launch_sh())
    environment = {**os.environ, "PATH": str(tmp_path)}
    done = subprocess.run(
        ["bash", "launch.sh"], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 65 and done.stderr.startswith("error: python3 not found on "), done
