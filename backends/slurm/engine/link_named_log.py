"""Link a job's logs to the names in `backend.output` and `backend.stderr`. Packed into jobctl; Python 3.8.

In:  a file name pattern in sbatch's syntax; the job's environment.
Out: a symlink to RUN/logs/slurm-JOB.log or slurm-JOB.stderr.log.
Source: sbatch manual, filename pattern, 25.11.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from ....runtime.engines.artifact_location import is_complete_run

_VARIABLES: Mapping[str, tuple[str, ...]] = {  # symbol -> variables of the batch script; the first that is set is used
    "A": ("SLURM_ARRAY_JOB_ID", "SLURM_JOB_ID"),
    "J": ("SLURM_JOB_ID",),
    "N": ("SLURMD_NODENAME",),
    "a": ("SLURM_ARRAY_TASK_ID",),
    "j": ("SLURM_JOB_ID",),
    "u": ("SLURM_JOB_USER", "USER"),
    "x": ("SLURM_JOB_NAME",),
}
LOGS = {"output": ".log", "stderr": ".stderr.log"}  # setting -> end of the log's name in the run folder
_OF_A_BATCH_SCRIPT = {"%": "%", "n": "0", "s": "batch", "t": "0"}


def log_options(settings: Mapping[str, object], log: str) -> list[str]:
    """Return sbatch's options for the job's logs, which override those in job.sbatch. log: path without suffix"""
    error = [f"--error={log}{LOGS['stderr']}"] if settings.get("stderr") else []
    return [f"--output={log}{LOGS['output']}", *error]


def expand_log_name(pattern: str, environ: Mapping[str, str]) -> str:
    """Return the file name: `logs/%x-%4j.out` becomes logs/train-0012.out for job 12 with the name train."""

    def placeholder_value(found: re.Match[str]) -> str:
        symbol = found["symbol"]
        if symbol not in _VARIABLES:
            return _OF_A_BATCH_SCRIPT.get(symbol, found[0])
        names = _VARIABLES[symbol]
        text = next((environ[name] for name in names if environ.get(name)), "")
        return text.zfill(min(int(found["width"] or 0), 10)) if text.isdigit() else text

    return re.sub(r"%(?P<width>[0-9]*)(?P<symbol>[A-Za-z%])", placeholder_value, pattern)


def link_log(log: Path, pattern: str, project: Path, environ: Mapping[str, str]) -> str:
    """Create a symlink to the log with the name that the pattern gives. Return "", or the reason if this failed.

    A file or symlink that the user created is left alone. A missing log is not linked: a job submitted with `sbatch
    job.sbatch` writes its log to this name itself.
    """
    link = project / expand_log_name(pattern, environ)
    if not log.exists() or str(link) == os.devnull:
        return ""
    if os.path.lexists(link) and not _is_link_to_log(link, log.parents[3]):
        return f"cannot link the log as {link}: the existing file was not created by jobc"
    unfinished = link.with_name(f".{link.name}.{os.getpid()}")
    try:
        link.parent.mkdir(parents=True, exist_ok=True)
        unfinished.symlink_to(log)
        unfinished.replace(link)
    except OSError as error:
        return f"cannot create {link}: {error.strerror}"
    return ""


def _is_link_to_log(link: Path, run_root: Path) -> bool:
    """Return whether link_log() created this: a symlink to the log of an existing run, or of any run in `run_root`."""
    log = Path(os.readlink(link)) if link.is_symlink() else Path()
    run = log.parent.parent
    is_log = log.parent.name == "logs" and re.fullmatch(r"slurm-.+\.log", log.name)
    return bool(is_log) and (is_complete_run(run) or run.parent.parent == run_root)
