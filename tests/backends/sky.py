"""Jobs for the tests of backend skypilot on its stand-in: an artifact, its scripts called, the storage of its nodes.

In   an empty folder, which is the home of SkyPilot, of the user and of the nodes; words of the spec
Out  a Job
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobc.compiler.driver import Request, compile_job, write_job

STAND_INS = Path(__file__).parent / "stand_ins" / "sky"
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


class Job:
    """An artifact and its scripts, beside the stand-in."""

    def __init__(self, folder: Path, *words: str, program: str = "") -> None:
        self.folder = folder
        (folder / "program.py").write_text(PROGRAM)
        command = ("program.py", *program.split()) if program else None
        plain = ("backend=skypilot", "backend.infra=slurm/bed", f"storage.root={folder}/storage", "nodes=2", "name=job")
        compiled = compile_job(Request((*plain, "launcher=spawn", "lifecycle.grace=3s", *words), command))
        self.artifact = write_job(compiled, folder / "artifacts", force=True)

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, "HOME": str(self.folder), "PATH": f"{STAND_INS}:{os.environ['PATH']}"}

    def __call__(self, script: str, *words: str) -> tuple[int, str]:
        command = [str(self.artifact / script), *words]
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


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    subprocess.run(["chmod", "-R", "u+w", tmp_path], check=False)
