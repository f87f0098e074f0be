"""Record in a run folder which Slurm job runs an attempt, and how the job ended. Packed into jobctl; Python 3.8.

RUN/state/job_ATTEMPT   job_id; exit and reason at the end; here=yes if the job is the user's allocation (--here)
RUN/state/step          the tasks' JOB.STEP, and the attempt: with --here, only this step belongs to the run
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Mapping
from pathlib import Path

from ....runtime.run_folder.run_folder import write_small_file
from ....runtime.system.values import read_keys

_STEP_ID = re.compile(r"[0-9]{1,18}[.][0-9]{1,18}")


def full_job_id(environ: Mapping[str, str]) -> str:
    """Return the job ID, or ARRAY_ELEMENT in a job array, where an element's own ID may stand for the whole array."""
    job_id = environ.get("SLURM_ARRAY_JOB_ID") or environ.get("SLURM_JOB_ID", "")
    element = environ.get("SLURM_ARRAY_TASK_ID", "")
    return f"{job_id}_{element}" if element else job_id


def record_queued_job(run: Path, attempt: int, job_id: str) -> None:
    """Record a queued job, unless it is already running and has recorded itself."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with contextlib.suppress(OSError), open(os.open(run / f"state/job_{attempt}", flags, 0o666), "w") as file:
        file.write(f"job_id={job_id}\n")


def record_step(run: Path, attempt: str, environ: Mapping[str, str]) -> None:
    """Record the tasks' step. environ: environment of one of the tasks"""
    with contextlib.suppress(OSError):
        step = f"{environ['SLURM_JOB_ID']}.{environ['SLURM_STEP_ID']}"
        write_small_file(run / "state/step", keys={"attempt": attempt, "step": step})


def recorded_step_id(run: Path, attempt: int) -> str:
    """Return the recorded step, or "" before the step is running."""
    keys = read_keys(run / "state/step")
    step = keys.get("step", "")
    return step if keys.get("attempt") == str(attempt) and _STEP_ID.fullmatch(step) else ""
