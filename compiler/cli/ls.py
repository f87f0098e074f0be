"""jobc ls: list the runs of all jobs, newest first. This module finds the run roots; runtime/verbs/ls.py lists the
runs.

jobc ls              in JOBC_RUN_ROOT if set, or else in runs/ and in the run roots of the artifacts in artifacts/
jobc ls FOLDER …     in these folders
"""

import os
from collections.abc import Iterator
from pathlib import Path

from ...runtime.run_folder.artifact_copies import JOB_FILE
from ...runtime.system.failure import Failure
from ...runtime.system.values import read_settings
from ...runtime.verbs.ls import OPTIONS, list_runs_of_all_jobs
from ..diagnostics.diagnostic import CompileError, Diagnostic
from .arguments import Arguments


def ls_command(arguments: Arguments) -> int:
    try:
        return list_runs_of_all_jobs(arguments.words, [*dict.fromkeys(run_roots())])
    except Failure as failure:
        because = f"jobc ls takes folders and the options {', '.join(name for name in OPTIONS if name != 'FOLDER')}"
        raise CompileError([Diagnostic("JC1110", failure.title, because, failure.hint or "jobc ls --help")]) from None


def run_roots() -> Iterator[Path]:
    """Yield the folders that contain this project's runs."""
    if root := os.environ.get("JOBC_RUN_ROOT"):
        yield Path(root)
        return
    yield Path("runs")
    for job_file in sorted(Path("artifacts").glob(f"*/*/{JOB_FILE}")):
        root = read_settings(job_file).get("runs")
        if isinstance(root, str) and "\0" not in root:
            yield Path(root)
