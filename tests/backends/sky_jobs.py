"""Jobs for tests of backend skypilot with the stand-in: an artifact, calls to its scripts, and the files that they
leave.

In   an empty folder that is the project, the storage and SkyPilot's home folder; words of the spec
Out  a Job
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from jobc.compiler.pipeline.compile import compile_job, write_compiled_job
from jobc.compiler.pipeline.types import CompileRequest

STAND_INS = Path(__file__).parent / "stand_ins" / "sky"
PLAIN = ("backend=skypilot", "storage.run=node")
SHARED = ("backend=skypilot", "backend.infra=slurm/bed", "storage.root=/shared/runs", "nodes=2")

PROGRAM = """
import os, signal, sys, time
rank, codes = int(os.environ["RANK"]), sys.argv[1:]
signal.signal(signal.SIGTERM, lambda *_: sys.exit(75))
print("up", flush=True)
if codes[rank] != "-":
    time.sleep(1)
    sys.exit(int(codes[rank]))
time.sleep(60)
"""


def any_of(*infras: str) -> str:
    """Return acceptable machines, as a word for the command line."""
    return f"backend.any_of=[{', '.join(f'{{infra: {i}}}' for i in infras)}]"


class Job:
    """An artifact and its scripts, next to the stand-in."""

    def __init__(self, folder: Path, *words: str, program: str = "") -> None:
        self.folder = folder
        (folder / "program.py").write_text(PROGRAM)
        command = ("program.py", *program.split()) if program else None
        plain = ("backend=skypilot", "backend.infra=slurm/bed", f"storage.root={folder}/storage", "nodes=2", "name=job")
        compiled = compile_job(CompileRequest((*plain, "launcher=spawn", "lifecycle.grace=3s", *words), command))
        self.artifact = write_compiled_job(compiled, folder / "artifacts", force=True)

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, "HOME": str(self.folder), "PATH": f"{STAND_INS}:{os.environ['PATH']}"}

    def __call__(self, verb: str, *words: str) -> tuple[int, str]:
        command = [str(self.artifact / "jobctl"), verb, *words]
        done = subprocess.run(
            command, env=self.environment, cwd=self.folder, capture_output=True, text=True, timeout=120, check=False
        )
        return done.returncode, done.stdout + done.stderr

    @property
    def run(self) -> Path:
        (run,) = self.folder.glob("storage/job/*")
        return run

    def wait_until_up(self) -> None:
        until = time.monotonic() + 60
        while sum("up" in file.read_text() for file in self.folder.glob("storage/job/*/logs/rank_*.log")) < 2:
            assert time.monotonic() < until, [*self.folder.glob("storage/job/*/logs/*")]
            time.sleep(0.1)


def pids(*words: str) -> list[int]:
    """Return the IDs of this machine's processes whose command lines contain all of these words."""
    return [pid for pid, command, _ in _processes() if all(word in command for word in words)]


def pids_of(folder: Path, *variables: str) -> list[int]:
    """Return the IDs of processes of the folder's jobs that have these in their environment: `RANK=1`, or only
    `RANK=`.
    """
    wanted = (f"HOME={folder}", *variables)
    return [
        pid
        for pid, _, environment in _processes()
        if all(any(each == v or (v.endswith("=") and each.startswith(v)) for each in environment) for v in wanted)
    ]


def _processes() -> Iterator[tuple[int, str, list[str]]]:
    """Yield (process ID, command line, environment)."""
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            texts = [(folder / name).read_text(errors="replace") for name in ("cmdline", "environ")]
            yield int(folder.name), texts[0], texts[1].split("\0")
