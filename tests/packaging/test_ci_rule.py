"""In CI a skipped test is a failure, whether one process runs the tests or several."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CONFTEST = Path(__file__).resolve().parents[1] / "conftest.py"
SKIPPING = "import pytest\ndef test_runs(): pass\n@pytest.mark.skip(reason='no engine')\ndef test_skips(): pass\n"


@pytest.mark.parametrize("processes", ["0", "2"])
@pytest.mark.parametrize(("ci", "status"), [("true", 1), ("", 0)])
def test_a_skipped_test_fails_in_ci_only(tmp_path: Path, processes: str, ci: str, status: int):
    shutil.copy(CONFTEST, tmp_path / "conftest.py")
    (tmp_path / "test_some.py").write_text(SKIPPING)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    command = [sys.executable, "-m", "pytest", "-ra", "-n", processes, "-c", os.devnull, "--rootdir", "."]
    result = subprocess.run(
        command, cwd=tmp_path, env={**environment, "CI": ci}, capture_output=True, text=True, check=False
    )
    assert result.returncode == status, result.stdout + result.stderr
    assert "no engine" in result.stdout
    assert "1 passed, 1 skipped" in result.stdout.splitlines()[-1]
