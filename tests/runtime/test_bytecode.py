"""jobctl's modules are compiled once, and their bytecode is then read from the user's cache."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from jobc.compiler.cli import main

COMPILED = """
import runpy, sys
compiled = []
sys.addaudithook(lambda event, values: event == "compile" and compiled.append(str(values[1])))
sys.argv[:] = sys.argv[1:]
try:
    runpy.run_path(sys.argv[0], run_name="__main__")
finally:
    print("compiled:", sum("jobc_" in name and not name.endswith(BEFORE_CACHE) for name in compiled), file=sys.stderr)
"""
BEFORE_CACHE = ("jobc_runtime/__init__.py", "system/__init__.py", "system/bytecode.py", "system/user_cache.py")


@pytest.fixture
def jobctl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    assert main(["name=job", "--", "true"]) == 0
    return tmp_path / "artifacts/job/local/jobctl"


def compiled(jobctl: Path, cache: Path, *options: str) -> int:
    """Return how many modules `jobctl launch` compiled."""
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache)}
    code = f"BEFORE_CACHE = {BEFORE_CACHE}{COMPILED}"
    command = [sys.executable, "-I", "-S", *options, "-c", code, str(jobctl), "launch", "0", "0", "check"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert "the launch line of launch.sh has no command after --" in done.stderr
    return int(done.stderr.rpartition("compiled: ")[2])


def test_modules_are_compiled_once_for_all_copies(jobctl: Path, tmp_path: Path) -> None:
    first = compiled(jobctl, tmp_path)
    assert first > 10
    shutil.copytree(jobctl.parent, tmp_path / "copy")
    assert compiled(tmp_path / "copy/jobctl", tmp_path) == 0
    assert compiled(jobctl, tmp_path, "-O") == first, "other bytecode"


def test_a_changed_module_is_compiled_again(jobctl: Path, tmp_path: Path) -> None:
    """Both versions are then in the cache, so that two artifacts do not replace each other's bytecode."""
    first = compiled(jobctl, tmp_path)
    before = jobctl.read_bytes()
    with zipfile.ZipFile(jobctl) as old:
        modules = {name: old.read(name) for name in old.namelist()}
    modules["jobc_runtime/exit_codes.py"] += b"# changed\n"
    with zipfile.ZipFile(jobctl, "w") as new:
        for name, text in modules.items():
            new.writestr(name, text)
    assert compiled(jobctl, tmp_path) == 1 < first
    assert compiled(jobctl, tmp_path) == 0
    jobctl.write_bytes(before)
    assert compiled(jobctl, tmp_path) == 0


@pytest.mark.parametrize("damage", ["cut", "changed", "empty", "of another key"])
def test_a_damaged_file_is_ignored_and_written_again(damage: str, jobctl: Path, tmp_path: Path) -> None:
    first = compiled(jobctl, tmp_path)
    (file,) = (tmp_path / "jobc/bytecode").iterdir()
    content = file.read_bytes()
    damaged = {"cut": content[:-1], "changed": content[:-1] + b"\0", "empty": b""}
    file.write_bytes(damaged.get(damage, content.replace(b"launch", b"status", 1)))
    assert compiled(jobctl, tmp_path) == first
    assert compiled(jobctl, tmp_path) == 0


def test_without_a_writable_cache_nothing_is_kept(jobctl: Path, tmp_path: Path) -> None:
    (tmp_path / "jobc").touch()
    first = compiled(jobctl, tmp_path)
    assert first > 10
    assert compiled(jobctl, tmp_path) == first
