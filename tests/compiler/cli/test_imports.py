"""Compiling imports nothing heavy that it does not need."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import json, sys
from jobc.compiler.cli import main
status = main(json.loads(sys.argv[1]))
print(json.dumps([status, sorted({name.split(".")[0] for name in sys.modules})]))
"""
HEAVY = {"torch", "sky", "kubernetes", "accelerate", "rich", "numpy", "pytest", "hypothesis"}
NO_COMPOSING = {"hydra", "omegaconf", "antlr4"}


def imported(words: list[str], folder: Path) -> set[str]:
    """Top-level names of what one command imported."""
    command = [sys.executable, "-c", PROGRAM, json.dumps(words)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    status, names = json.loads(done.stdout.splitlines()[-1])
    assert status == 0, done.stderr
    return set(names)


@pytest.mark.parametrize("words", [["procs=2"], ["check"], ["backends"]], ids=lambda words: words[0])
def test_no_heavy_import(words: list[str], tmp_path: Path) -> None:
    assert not imported(words, tmp_path) & HEAVY


@pytest.mark.parametrize("words", [["--help"], ["explain", "JC2001"], ["--version"]], ids=lambda words: words[0])
def test_commands_that_compose_nothing_do_not_import_hydra(words: list[str], tmp_path: Path) -> None:
    assert not imported(words, tmp_path) & (HEAVY | NO_COMPOSING)
