"""`make` on machines that lack something: one message that says what to do, and nothing half made."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.xdist_group("packaging")


def make(checkout: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS", "JOBC_"))}
    command = ["make", "--no-print-directory", *arguments]
    return subprocess.run(
        command, cwd=checkout, env={**clean, **environment}, capture_output=True, text=True, check=False
    )


@pytest.fixture
def without_ensurepip(tmp_path: Path) -> dict[str, str]:
    """Environment in which every Python lacks ensurepip, as on Debian without python3-venv."""
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text("import sys\nsys.modules['ensurepip'] = None\n")
    return {"PYTHONPATH": str(folder)}


def test_missing_ensurepip_is_one_message_that_says_what_to_install(
    checkout: Path, tmp_path: Path, without_ensurepip: dict[str, str]
):
    venv = tmp_path / "venv"
    result = make(checkout, "demo", JOBC_VENV=str(venv), **without_ensurepip)
    assert result.returncode != 0
    assert "lacks ensurepip\n  install it:    " in result.stderr
    assert "Traceback" not in result.stdout + result.stderr
    assert not venv.exists()


def test_no_python_is_one_message(checkout: Path, tmp_path: Path):
    result = make(checkout, "test", f"PYTHON={tmp_path}/none", JOBC_VENV=str(tmp_path / "venv"))
    assert result.returncode != 0
    assert "error: jobc needs Python 3.10 or newer" in result.stderr


def test_a_folder_of_somebody_else_is_left_alone(checkout: Path, tmp_path: Path):
    (tmp_path / "thesis.tex").write_text("all of it")
    result = make(checkout, "demo", JOBC_VENV=str(tmp_path))
    assert result.returncode != 0
    assert "is not empty and no virtual environment" in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_what_an_interrupted_call_left_is_not_taken_as_finished(
    checkout: Path, tmp_path: Path, without_ensurepip: dict[str, str]
):
    venv = tmp_path / "venv"
    (venv / "bin").mkdir(parents=True)
    (venv / "bin" / "python").symlink_to("/usr/bin/env")
    (venv / "jobc-bootstrap.json").write_text(json.dumps({"ours": True}))
    result = make(checkout, "demo", JOBC_VENV=str(venv), **without_ensurepip)
    assert result.returncode != 0  # for it starts afresh, and cannot here
    assert not venv.exists()


def test_make_lists_its_targets(checkout: Path):
    listed = make(checkout).stdout
    assert all(f"make {target}" in listed for target in ("demo", "test", "check"))
