"""Warn about entries that git ignores: not sent with the code (JC5012), or shared by the points of a sweep (JC5013).

In:  compiled jobs with code=snapshot, and what git lists in the code folder on this machine, as jobctl submit does.
"""

import os
import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

from ..diagnostics.diagnostic import Diagnostic, Severity
from ..frontend.observed_files import ask_file_system
from ..pipeline.types import CompiledJob
from ..plan.launch_plan import LaunchPlan

_MOST_NAMES = 3
# Names under which programs usually write. All others are taken for something that programs read.
_OUTPUT = re.compile(
    r"(.*[-_])?(outs?|outputs?|results?|logs?|runs?|ckpts?|checkpoints?|exp|experiments?|multirun|wandb|mlruns"
    r"|tensorboard|htmlcov|site)|.*\.(log|out|err|xml)",
    re.IGNORECASE,
)
_PLAIN = re.compile(r"[\w./@+-]+", re.ASCII)  # needs no quotes, neither in a shell nor for Hydra


def code_folder(plan: LaunchPlan, out: Path) -> str:
    """Return the code folder. The folder of `out` may not exist yet."""
    root = Path(ask_file_system("real path", out)).parent / Path(plan.code.root).expanduser()
    return os.path.normpath(root)


def check_ignored_entries(compiled: Sequence[CompiledJob], out: Path) -> Iterator[Diagnostic]:
    """Yield JC5012 for each code folder and backend, and JC5013 for each code folder."""
    folders: dict[str, list[CompiledJob]] = {}
    for job in compiled:
        if job.plan.code.kind == "snapshot":
            folders.setdefault(code_folder(job.plan, out), []).append(job)
    for folder, jobs in folders.items():
        sent = {job.backend.name: job for job in jobs if job.backend.sends_code and not _has_data(job.plan)}
        linking = [job for job in jobs if not job.backend.sends_code and job.plan.run.storage == "shared"]
        for job in sent.values():
            names = [name for name in _ignored_data(folder, job, out) if not _is_output(name)]
            paths = [path for name in names if _PLAIN.fullmatch(path := f"{folder}/{name}")]
            hint = job.backend.data_hint(job.plan, job.options, Path(*paths[:1] or ["FOLDER"]))
            if names and hint:
                yield _not_sent(folder, names, job, hint)
        if len(linking) > 1:
            names = [name for name in _ignored_data(folder, linking[0], out) if _is_output(name)]
            names = [
                name
                for name in names
                if os.path.isdir(Path(folder, name)) and not _points_use_separate_paths(name, linking)
            ]
            if names:
                yield _shared_by_points(folder, names, linking)


def _ignored_data(folder: str, job: CompiledJob, out: Path) -> list[str]:
    from ...runtime.code.snapshot import DATA, use_of_ignored  # most compiles do not get here

    project = Path(ask_file_system("real path", out)).parent
    runs, root = project / job.plan.run.root / job.plan.run.folder, Path(ask_file_system("real path", folder))
    ignored = ask_file_system("ignored", folder)
    return [name for name in ignored if use_of_ignored(root, name, project, runs) == DATA]


def _is_output(name: str) -> bool:
    return any(map(_OUTPUT.fullmatch, name.split("/")))


def _has_data(plan: LaunchPlan) -> bool:
    """Return whether the job sets the folder of its data, or has a mount that does not only hold the runs."""
    words = [str(word) for word in (*plan.command, *plan.env.values())]
    root = PurePosixPath(plan.run.root)
    mounts = [mount for mount in plan.mounts if mount.kind != "empty"]
    return plan.run.data is not None or any(
        not root.is_relative_to(mount.target) or any(mount.target in word for word in words) for mount in mounts
    )


def _not_sent(folder: str, names: list[str], job: CompiledJob, hint: str) -> Diagnostic:
    title = f"not sent to the nodes: {_first_names(names)}"
    because = "code=snapshot sends only files that git does not ignore"
    hint += f" (the script reads JOBC_DATA_DIR); small files: git add -f {shlex.quote(names[0])}"
    hint += f"; not needed: {_jobcignore_command(folder, names)}"
    return _warning("JC5012", title, because, hint, job)


def _points_use_separate_paths(name: str, jobs: Sequence[CompiledJob]) -> bool:
    """Return whether the points name different paths in a folder, or a path with a value known only at run time."""
    paths = [[word for word in (*job.plan.command, *job.plan.env.values()) if name in str(word)] for job in jobs]
    has_reference = all(any(not isinstance(word, str) for word in words) for words in paths)
    return has_reference or len({str(words) for words in paths}) == len(jobs)


def _shared_by_points(folder: str, names: list[str], jobs: Sequence[CompiledJob]) -> Diagnostic:
    shown = _first_names(names)
    title = f"all {len(jobs)} points of the sweep may write to the same {shown}"
    because = "git ignores it, so every run has a symlink to it: a point may overwrite or load another point's files"
    hint = f"{_jobcignore_command(folder, names)}, so that each run has its own;"
    hint += f" or pass a path for each run, such as '{names[0]}/${{jobc:run_id}}'"
    return _warning("JC5013", title, because, hint, jobs[0])


def _first_names(names: list[str]) -> str:
    from ...runtime.code.snapshot import abbreviate_names

    return abbreviate_names(names, _MOST_NAMES)


def _jobcignore_command(folder: str, names: list[str]) -> str:
    """Return the shell command that lists the first entries in .jobcignore."""
    patterns = shlex.join(f"/{name}" for name in names[:_MOST_NAMES])
    program = "printf '%s\\n'" if len(names) > 1 else "echo"
    return f"{program} {patterns} >>{shlex.quote(os.path.relpath(os.path.join(folder, '.jobcignore')))}"


def _warning(code: str, title: str, because: str, hint: str, job: CompiledJob) -> Diagnostic:
    return Diagnostic(code, title, because, hint, job.origin_of("command"), "command", Severity.WARNING)
