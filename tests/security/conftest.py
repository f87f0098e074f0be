"""Fixtures of the security tests: a job in a folder that two users share."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from .users import SharedJob, make_shared_job


@pytest.fixture(scope="module")
def compiled(request: pytest.FixtureRequest) -> Iterator[Path]:
    """Compile the job whose words and program are COMPILE and PROGRAM of the test module."""
    with tempfile.TemporaryDirectory() as folder:
        job = make_shared_job(Path(folder), request.module.PROGRAM)
        job.compile(*getattr(request.module, "COMPILE", ()))
        yield job.folder


@pytest.fixture
def shared_job(compiled: Path) -> Iterator[SharedJob]:
    """Return a copy of the artifact outside pytest's folder, which another user cannot enter."""
    with tempfile.TemporaryDirectory() as folder:
        job = make_shared_job(Path(folder), (compiled / "program.py").read_text())
        shutil.copytree(compiled / "artifacts", job.folder / "artifacts")
        yield job


@pytest.fixture(scope="module")
def both_ran(compiled: Path) -> SharedJob:
    """Root has the older run `mine`, and the neighbour has the newer run `theirs`."""
    job = SharedJob(compiled)
    for call, name in ((job.call, "mine"), (job.call_as_neighbour, "theirs")):
        done = call("submit", "--run-id", name)
        assert done.code == 0, done.output
    os.utime(job.runs / "mine" / "artifact", (1, 1))
    return job


@pytest.fixture
def both_users(shared_job: SharedJob, both_ran: SharedJob) -> SharedJob:
    """Return a copy of these runs."""
    subprocess.run(["cp", "--archive", f"{both_ran.runs}/.", shared_job.runs], check=True)
    return shared_job
