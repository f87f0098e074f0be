"""In CI a skipped test is a failure, whether one process runs the tests or several."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CONFTEST = Path(__file__).resolve().parents[1] / "conftest.py"
GROUPED = """import os, pytest
@pytest.mark.xdist_group("one")
@pytest.mark.parametrize("n", range(6))
def test_on(n): print("worker", os.environ["PYTEST_XDIST_WORKER"])
"""
OUTER = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
ENVIRONMENT = {**OUTER, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}  # importing them takes a second
PYTEST = [sys.executable, "-m", "pytest", "-p", "xdist.plugin", "-c", os.devnull, "--rootdir", "."]
SKIPPING = "import pytest\ndef test_runs(): pass\n@pytest.mark.skip(reason='no engine')\ndef test_skips(): pass\n"


@pytest.mark.parametrize("processes", ["0", "2"])
@pytest.mark.parametrize(("ci", "status"), [("true", 1), ("", 0)])
def test_a_skipped_test_fails_in_ci_only(tmp_path: Path, processes: str, ci: str, status: int):
    shutil.copy(CONFTEST, tmp_path / "conftest.py")
    (tmp_path / "test_some.py").write_text(SKIPPING)
    command = [*PYTEST, "-ra", "-n", processes]
    result = subprocess.run(
        command, cwd=tmp_path, env={**ENVIRONMENT, "CI": ci}, capture_output=True, text=True, check=False
    )
    assert result.returncode == status, result.stdout + result.stderr
    assert "no engine" in result.stdout
    assert "1 passed, 1 skipped" in result.stdout.splitlines()[-1]


def test_a_group_is_one_workers(tmp_path: Path) -> None:
    """pytest 9.2 broke this silently: every worker created shared runs again."""
    (tmp_path / "test_some.py").write_text(GROUPED)
    command = [*PYTEST, "-rP", "-n", "2", "--dist", "loadgroup"]
    said = subprocess.run(command, cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, check=True).stdout
    workers = [line for line in said.splitlines() if line.startswith("worker ")]
    assert len(workers) == 6 and len(set(workers)) == 1
