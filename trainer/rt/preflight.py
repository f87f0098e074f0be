"""Checks of this node before a run: one line per check, all of them, whatever the first ones say.

Usage  python preflight.py --procs N --gpus N --port N --run-root FOLDER [--torch] [-- COMMAND…]
       in the job's environment and in the folder of its code
Out    `ok    …` and `FAIL  …` lines with a hint each; exit 0 or 1
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

if not __package__:  # started by path: find the sibling modules, whatever PYTHONPATH holds
    sys.path[0] = str(Path(__file__).absolute().parents[1])
    __package__ = "rt"

from . import head_port

TORCH_TIMEOUT_S = 120  # a cold import from a network file system takes a minute
LEAST_FREE_GIB = 1.0
MOST_PROCS_PER_CORE = 4  # more is a mistake: they only wait for each other
GPU_HINT = "is the driver loaded, and what is CUDA_VISIBLE_DEVICES? gpus=0 is for the CPU"
ASK_TORCH = """
import json, sys, torch
print(json.dumps([torch.__version__, torch.__file__, torch.cuda.device_count()]))
"""


class Check(NamedTuple):
    """The result of one check. hint: what to do about it, for a failed one."""

    good: bool
    text: str
    hint: str = ""


def main(argv: list[str]) -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(prog="preflight.py", description="checks of this node before a run")
    parser.add_argument("--procs", type=int, required=True, help="processes on this node")
    parser.add_argument("--gpus", type=int, required=True, help="GPUs on this node; 0 = CPU only")
    parser.add_argument("--port", type=int, required=True, help="rendezvous port; 0 = chosen at the start")
    parser.add_argument("--run-root", type=Path, required=True, help="folder that will hold the runs")
    parser.add_argument("--torch", action="store_true", help="torch is needed")
    parser.add_argument("command", nargs="*", help="what each rank will run")
    asked = parser.parse_args(argv)

    good = True
    for check in checks(asked):
        good = good and check.good
        print(f"{'ok   ' if check.good else 'FAIL '} {check.text}", flush=True)
        if not check.good and check.hint:
            print(f"      hint: {check.hint}", flush=True)
    return 0 if good else 1


def checks(asked: argparse.Namespace) -> Iterator[Check]:
    """All checks, cheap ones first."""
    yield Check(True, f"python {sys.version.split()[0]} at {sys.executable}")
    yield from check_command(asked.command)
    yield check_port(asked.port)
    yield from check_run_root(asked.run_root)
    if asked.torch or asked.gpus:
        yield from check_torch(asked.gpus)
    yield check_cores(len(os.sched_getaffinity(0)), asked.procs)


def check_command(command: list[str]) -> Iterator[Check]:
    """The program and, for `python FILE`, the file."""
    if not command:
        return
    where = shutil.which(command[0])
    yield Check(bool(where), f"program {command[0]}" + ("" if where else ": not found, or not executable"),
                "give its path, or put it on PATH in the job's environment")  # fmt: skip
    if len(command) > 1 and "python" in Path(command[0]).name and command[1].endswith(".py"):
        found = Path(command[1]).is_file()
        place = "" if found else f": no such file in {Path.cwd()}"
        yield Check(found, f"script {command[1]}{place}", "check the command and code.root of the spec")


def check_cores(cores: int, procs: int) -> Check:
    """More processes than cores work, slowly."""
    text = f"{cores} CPU core{'s' * (cores > 1)} for {procs} process{'es' * (procs > 1)}"
    if procs > cores:
        text += f", {round(procs / cores, 1):g} on each"
    most = MOST_PROCS_PER_CORE * cores
    return Check(procs <= most, text, f"procs={cores} for one on each core, procs={most} at most")


def check_port(port: int) -> Check:
    if port == 0:
        return Check(True, "rendezvous port: chosen at the start")
    text = f"rendezvous port {port}"
    if head_port.is_free(port):
        return Check(True, f"{text} is free")
    return Check(False, f"{text} is in use", f"see who has it with `ss -ltnp 'sport = :{port}'`, or take another")


def check_run_root(root: Path) -> Iterator[Check]:
    """The folder, or the nearest one above it that exists, can be written and has room."""
    existing = next(folder for folder in (root, *root.parents) if folder.exists())
    writable = existing.is_dir() and os.access(existing, os.W_OK | os.X_OK)
    yield Check(writable, f"run root {root}" + ("" if writable else f": no write permission in {existing}"),
                "set JOBC_RUN_ROOT to a folder that you may write")  # fmt: skip
    free_gib = shutil.disk_usage(existing).free / 2**30
    yield Check(free_gib >= LEAST_FREE_GIB, f"{free_gib:.1f} GiB free there", "remove old runs or set JOBC_RUN_ROOT")


def check_torch(gpus: int) -> Iterator[Check]:
    """Imported for good, in a process of its own: a torch that is found but broken is the common case."""
    try:
        asked = subprocess.run(
            [sys.executable, "-c", ASK_TORCH],
            check=False,
            capture_output=True,
            text=True,
            timeout=TORCH_TIMEOUT_S,
        )
        version, path, devices = json.loads(asked.stdout.splitlines()[-1])
    except subprocess.TimeoutExpired:
        yield Check(False, f"torch: `import torch` took more than {TORCH_TIMEOUT_S} s", "is the file system slow?")
        return
    except (IndexError, ValueError):
        why = (asked.stderr.strip().splitlines() or ["no message"])[-1]
        yield Check(False, f"torch: {why}", f"install torch for {sys.executable}, or activate another environment")
        return
    yield Check(True, f"torch {version} at {Path(path).parent}")
    if gpus:
        yield Check(devices >= gpus, gpu_text(devices, gpus), GPU_HINT)


def gpu_text(seen: int, wanted: int) -> str:
    """The trainer says the same when it refuses to begin."""
    return f"GPUs seen by torch: {seen}, wanted: {wanted}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
