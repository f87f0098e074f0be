"""--update-golden writes what compiles now, but only where a person can review it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SUITE = """
from pathlib import Path
from jobc.compiler.testing.suite import BackendSuite

class TestLocal(BackendSuite):
    backend = "local"
    golden = Path(__file__).parent / "golden"
    neutral_files = True
"""


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    """A test folder with one stale case."""
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["jobc.compiler.testing.suite"]\n')
    (tmp_path / "test_suite.py").write_text(SUITE)
    case = tmp_path / "golden" / "one"
    (case / "expected").mkdir(parents=True)
    (case / "expected" / "orphan.sh").write_text("left behind by an older jobc\n")
    (case / "overrides.txt").write_text("backend=local\n")
    return tmp_path


def pytest_in(folder: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    outer = {k: v for k, v in os.environ.items() if k != "CI" and not k.startswith("PYTEST_")}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "test_goldens and not run", *words]
    return subprocess.run(
        command, cwd=folder, env={**outer, **environment}, capture_output=True, text=True, check=False
    )


def test_it_accepts_what_compiles_now_and_removes_orphans(suite: Path) -> None:
    stale = pytest_in(suite)
    assert stale.returncode == 1
    assert "only in expected/: orphan.sh" in stale.stdout and "not in expected/: launch.sh" in stale.stdout
    assert pytest_in(suite, "--update-golden").returncode == 0
    expected = suite / "golden" / "one" / "expected"
    assert not (expected / "orphan.sh").exists() and os.access(expected / "launch.sh", os.X_OK)
    assert pytest_in(suite).returncode == 0


@pytest.mark.parametrize(("words", "environment"), [((), {"CI": "true"}), (("-n", "2"), {})], ids=["in CI", "by xdist"])
def test_it_refuses_where_nobody_sees_the_difference(
    suite: Path, words: tuple[str, ...], environment: dict[str, str]
) -> None:
    refused = pytest_in(suite, "--update-golden", *words, **environment)
    assert refused.returncode == pytest.ExitCode.USAGE_ERROR
    assert "--update-golden: not" in refused.stderr
    assert (suite / "golden" / "one" / "expected" / "orphan.sh").exists()
