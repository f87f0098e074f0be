"""Scripts in the styles that people have, run as they are, with default settings, in a copy of their code.

Those that use torch are in tests/trainer/test_own_scripts.py.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from jobc.compiler.pipeline.compile import compile_job, write_job
from jobc.compiler.pipeline.types import Request

TIMEOUT_S = 200  # two imports of torch on a busy machine take 60 s

ARGPARSE = """
import argparse, os, pathlib, sys, time
parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, required=True)
parser.add_argument("--out", type=pathlib.Path, default="outputs")
args = parser.parse_args()
assert pathlib.Path("data/train.txt").read_text() == "ignored by git", os.getcwd()
for step in range(5):  # a bar as of tqdm
    print(f"\\r{step + 1}/5 [{'#' * step:<5}] lr={args.lr}", end="", file=sys.stderr, flush=True)
    time.sleep(0.01)
print(file=sys.stderr)
if os.environ["RANK"] == "0":
    args.out.mkdir()
    (args.out / "model.bin").write_bytes(bytes(3 * 2**20))
"""
COMMAND_LINE = """
import multiprocessing, sys
from .model import NAME, square

COMMANDS = {}

def command(function):  # as click and typer register theirs
    COMMANDS[function.__name__.replace("_", "-")] = function
    return function

@command
def train_model(*options):
    with multiprocessing.get_context("spawn").Pool(2) as workers:  # as of a data loader
        print("training", NAME, "with", *options, sum(workers.map(square, range(4))), flush=True)

if __name__ == "__main__":
    COMMANDS[sys.argv[1]](*sys.argv[2:])
"""
MODEL = """
NAME = "small"

def square(number):
    return number * number
"""
SHELL = """#!/bin/bash
set -e
source settings.sh
mkdir -p logs
exec python -m pkg.cli train-model "$@" | tee "logs/rank_$RANK.txt"
"""


class Style(NamedTuple):
    """A command; text that the console shows; files that the console names as written."""

    command: tuple[str, ...]
    prints: str
    writes: tuple[str, ...]


STYLES = {
    "argparse, ignored data, a bar, relative output": Style(
        ("train.py", "--lr", "0.1"), "5/5 [#### ] lr=0.1", ("outputs/model.bin",)
    ),
    "shell wrapper, python -m, subcommands, worker processes": Style(
        ("bash", "run.sh", "--fast"), "training small with --fast 14", ("logs/rank_0.txt", "logs/rank_1.txt")
    ),
}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with the scripts, and data that git ignores."""
    folder = tmp_path_factory.mktemp("project")
    files = {
        "train.py": ARGPARSE, "pkg/__init__.py": "", "pkg/cli.py": COMMAND_LINE, "pkg/model.py": MODEL,
        "run.sh": SHELL, "settings.sh": "set -o pipefail", "data/train.txt": "ignored by git", ".gitignore": "/data/",
    }  # fmt: skip
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    return folder


@pytest.mark.engine
@pytest.mark.slow
@pytest.mark.parametrize("style", STYLES)
def test_a_script_runs_as_it_is_and_its_files_are_named(style: str, project: Path) -> None:
    command, prints, writes = STYLES[style]
    shutil.rmtree(project / "runs", ignore_errors=True)
    words = ("name=own", "procs=2", f"python.interpreter={sys.executable}")
    artifact = write_job(compile_job(Request(words, command)), project / "artifacts")
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        [artifact / "submit.sh"], cwd=project, env={**os.environ, "PATH": path}, timeout=TIMEOUT_S, check=False,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    assert done.returncode == 0 and prints in done.stdout and "jobc: exit 0: done\n" in done.stdout, done.stdout
    (code,) = project.glob("runs/own/*/code")
    assert all((code / name).is_file() and not (project / name).exists() for name in writes)
    said = [line for line in done.stdout.splitlines() if line.startswith("jobc: script wrote ")]
    assert len(said) == (1 if writes else 0) and all(name in said[0] for name in writes), done.stdout
    assert all(f" in {code}: " in line for line in said)
