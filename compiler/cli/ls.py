"""List the runs of all jobs, newest first: name, run, backend, state, step, loss, age, size.

Usage: jobc ls [FOLDER …] [--name PATTERN] [--state STATE[,STATE …]] [--limit N] [--format text|json]
In:    the folders; by default, JOBC_RUN_ROOT if set, or else runs/ and the run roots of the artifacts in artifacts/.
Out:   a table that fits the terminal's width, or 80 columns if that is wider; or JSON for programs
       (docs/reference/ls.md).
Exit:  0 on success (also without runs), 1 if a folder cannot be listed, 2 for an invalid option.
"""

import argparse
import os
import re
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path

from ...runtime.engines.artifact_location import Place
from ...runtime.run_folder.artifact_copies import JOB_FILE
from ...runtime.system.command_line import Parser
from ...runtime.system.failure import Failure
from ...runtime.system.values import read_artifact_json
from ...runtime.verbs.run_rows import SCHEMA, RunRow, make_run_row, rows_to_json_objects
from ..diagnostics.diagnostic import CompileError, Diagnostic
from .arguments import Arguments
from .recorded_engine import recorded_engine
from .run_list import RECORDED_STATES, ListedRun, find_runs, format_run_table
from .terminal import print_json, print_lines

OPTIONS = {
    "FOLDER": "a run root, the folder of one job, a run, or an artifact directory",
    "--name PATTERN": "only jobs with this name; the wildcards are * and ?",
    "--state STATE": f"only runs in one of these states, separated by commas: {', '.join(RECORDED_STATES)}",
    "--limit N": "only the N most recently started runs",
    "--format FORMAT": "text, or json for programs (see docs/reference/ls.md)",
}


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
        root = read_artifact_json(job_file).get("runs")
        if isinstance(root, str) and "\0" not in root:
            yield Path(root)


def list_runs_of_all_jobs(argv: Sequence[str], default_folders: Sequence[Path]) -> int:
    """Print the runs and return the exit code.

    default_folders: folders to list if FOLDER is not given; missing ones are skipped.
    """
    options = _parse_arguments(argv)
    folders = [_runs_of(Path(name)) for name in options.folders]
    folders = folders or [folder for folder in default_folders if folder.is_dir()]
    try:
        found = find_runs(folders)
    except (OSError, ValueError) as error:
        raise Failure(f"cannot list {getattr(error, 'filename', '')}: {getattr(error, 'strerror', error)}") from None
    rows = list(islice(_select_rows(found, options), options.limit))
    if options.format == "json":
        print_json({"schema": SCHEMA, "runs": rows_to_json_objects(rows)})
    elif rows:
        print_lines(*format_run_table(rows, shutil.get_terminal_size().columns, time.time()))
    else:
        named = ", ".join(ascii(str(folder))[1:-1] for folder in folders or default_folders)
        print_lines(f"no {'matching ' if found else ''}runs in {named}", file=sys.stderr)
    return 0


def _parse_arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = Parser("ls", program="jobc")
    parser.add_argument("folders", nargs="*")
    for name in ("--name", "--state", "--limit"):
        parser.add_argument(name)
    parser.add_argument("--format", choices=("text", "json"), default="text")
    options = parser.parse_intermixed_args(argv)
    options.states = options.state.split(",") if options.state is not None else RECORDED_STATES
    options.states = ["stopped early" if state == "preempted" else state for state in options.states]
    for state in options.states:
        if state not in RECORDED_STATES:
            raise Failure(
                f"--state {state} is invalid: must be one of {', '.join(RECORDED_STATES)}", "jobc ls --help", 2
            )
    if options.limit is not None:
        if not re.fullmatch("[1-9][0-9]{0,8}", options.limit):
            raise Failure(f"--limit takes a number of runs, 1 or more, not {options.limit}", "jobc ls --help", 2)
        options.limit = int(options.limit)
    return options


def _runs_of(folder: Path) -> Path:
    """Return the folder to list: for an artifact, the folder of its job's runs."""
    try:
        if os.path.isfile(folder / JOB_FILE):
            return Place(folder).job.runs
        if os.path.isdir(folder):
            return folder
    except ValueError:  # a NUL character
        pass
    raise Failure(f"{folder} is not a folder", "jobc ls FOLDER lists its runs; jobc ls --name PATTERN selects jobs")


def _select_rows(found: Sequence[ListedRun], options: argparse.Namespace) -> Iterator[RunRow]:
    """Yield the rows that the options select, reading runs one by one as rows are needed."""
    for run in found:
        if options.name is not None and not fnmatchcase(run.path.parent.name, options.name):
            continue
        row = make_run_row(run, recorded_engine) if run.flaw is None else RunRow(run, run.created(), run.flaw)
        if row.state.name in options.states:
            yield row
