"""Find the artifact that a command-line word names: its directory, a run folder, a run ID or a job name.

The artifact's jobctl is then executed. Run IDs and names are therefore looked up only among this user's own runs, and
a directory of another user is accepted only by the commands that start something.
"""

import os
import shlex
from collections.abc import Sequence
from pathlib import Path

from ...runtime.system.untrusted_files import Unreadable, open_regular
from ..diagnostics.diagnostic import CompileError, Diagnostic
from ..emit.artifact import PROGRAM
from ..emit.job_json import JOB

BY_NAME = ("status", "logs", "watch", "stop")  # a job name selects the newest run, or the live one for stop
OPTIONS_WITH_VALUE = ("--run", "--node", "--rank", "--tail", "--format", "--point")  # of the commands in BY_NAME
OWN_ONLY = (*BY_NAME, "clean")
ZIP_END_BYTES = 22  # the end of central directory record, without a comment


def move_names_first(command: str, words: Sequence[str]) -> Sequence[str]:
    """Move options before the first name to the end, as in `jobc logs -f NAME`, for the commands in BY_NAME."""
    previous = ["", *words]
    names = [n for n, word in enumerate(words) if word[:1] != "-" and previous[n] not in OPTIONS_WITH_VALUE]
    first = names[0] if names and command in BY_NAME else 0
    return [*words[first:], *words[:first]]


def find_named_artifacts(command: str, words: Sequence[str]) -> tuple[list[Path], list[str]]:
    """Return the artifact directories that the first words name (some commands take several), and the other words."""
    if not words or words[0].startswith("-"):
        example = f"jobc {command} {_example_artifact()}"
        because = "this command runs an artifact directory's jobctl"
        raise CompileError([Diagnostic("JC1110", f"jobc {command} needs a directory", because, example)])
    count = 1
    while command in BY_NAME and command != "stop" and count < len(words) and not words[count].startswith("-"):
        count += 1
    return [_resolve_artifact(command, word) for word in words[:count]], list(words[count:])


def _resolve_artifact(command: str, word: str) -> Path:
    directory = newest_copy(Path(word).absolute())
    if not (directory / JOB).is_file() and command in BY_NAME:
        run = _find_run_by_name(command, word)
        if run is None and not directory.exists():
            because = "there is no folder with that name, and you have no such job or run in the run root"
            raise CompileError([Diagnostic("JC5004", f"{word} is neither a run nor an artifact", because, "jobc ls")])
        directory = newest_copy(run or directory)
    if not (directory / JOB).is_file():
        compiled = _artifacts_of_job(word)
        if len(compiled) != 1:
            raise no_artifact_error(Path(word), f"jobc {command}")
        directory = compiled[0].absolute()
    if command in OWN_ONLY:
        _require_own(command, directory)
    _require_complete_program(directory / PROGRAM)
    return directory


def _require_own(command: str, directory: Path) -> None:
    """Raise CompileError for an artifact or run of another user, except root's."""
    from ...runtime.run_folder.run import is_mine, owner_name

    folders = [directory, directory.parents[1]] if directory.parent.name == "artifact" else [directory]
    foreign = next((folder for folder in folders if not is_mine(folder) and folder.stat().st_uid != 0), None)
    if foreign:
        title = f"{foreign} belongs to {owner_name(foreign)}"
        because = f"jobc {command} would execute that user's jobctl as you"
        hint = "`jobc ls` shows other users' runs; for details, run `jobctl status --run FOLDER` of your own artifact"
        raise CompileError([Diagnostic("JC5004", title, because, hint)])


def _require_complete_program(program: Path) -> None:
    """Raise CompileError for a jobctl that is not a regular file, or is truncated: Python only reports null bytes."""
    because = ""
    try:
        with open_regular(program) as file:
            size = os.fstat(file.fileno()).st_size
            is_zip = b"PK\x03\x04" in file.read(64)  # after the shebang line
            file.seek(-min(ZIP_END_BYTES, size), os.SEEK_END)
            if not size or (is_zip and not file.read().startswith(b"PK\x05\x06")):
                because = "the file is truncated, for example by an interrupted copy or a full disk"
    except Unreadable as error:
        because = "" if error.error else f"it {error.reason}"  # running jobctl reports errors of the system
    except OSError:  # running jobctl reports it
        return
    if because:
        raise CompileError([Diagnostic("JC5004", f"{program} is damaged", because, "copy or compile the job again")])


def newest_copy(folder: Path) -> Path:
    """Return the newest copy of the artifact if `folder` is a run folder; otherwise return `folder` unchanged."""
    copies = [copy for copy in folder.glob("artifact/*") if copy.name.isdecimal() and (copy / JOB).is_file()]
    return max(copies, key=lambda copy: int(copy.name), default=folder)


def _find_run_by_name(command: str, word: str) -> Path | None:
    """Return the run with that ID, or the job's newest run, or for stop, its live run if there is one."""
    from .ls import run_roots
    from .recorded_engine import may_be_live
    from .run_list import find_runs

    roots = [root for root in dict.fromkeys(run_roots()) if root.is_dir()]
    own = [run for run in find_runs(roots) if run.is_mine and not run.flaw]
    called = [run for run in own if word in (run.id, run.path.parent.name)]
    with_id = [run.path for run in called if run.id == word]
    if len(with_id) > 1:
        hint = shlex.join(["jobc", command, str(with_id[0])])
        because = f"these runs belong to the jobs {', '.join(path.parent.name for path in with_id)}"
        raise CompileError([Diagnostic("JC1110", f"{len(with_id)} runs have the ID {word}", because, hint)])
    live = [run for run in called if may_be_live(run)] if command == "stop" and not with_id else []
    if len(live) > 1:
        because, hint = f"these runs may be live: {' '.join(run.id for run in live)}", f"jobc stop {live[0].id}"
        raise CompileError([Diagnostic("JC1110", f"job {word} has {len(live)} runs to stop", because, hint)])
    called = live or called
    return next(iter([*with_id, *(run.path for run in called)]), None)


def _artifacts_of_job(name: str) -> list[Path]:
    """Return the artifact directories below ./artifacts of the job with that name, one for each backend."""
    jobs = [] if "/" in name or name.startswith(".") else sorted(Path("artifacts", name).glob(f"*/{JOB}"))
    return [job.parent.parent for job in jobs]


def no_artifact_error(folder: Path, command: str) -> CompileError:
    """Return JC5004 for a folder without job.json. The hint names a parent folder or subfolder that has one."""
    below = [*folder.glob(f"*/{JOB}"), *folder.glob(f"*/*/{JOB}")]
    around = [min(below).parent.parent] if below else [up for up in folder.parents if (up / JOB).is_file()]
    around = around or _artifacts_of_job(str(folder))
    because = f"the folder does not contain {JOB}" if folder.is_dir() else "the folder does not exist"
    hint = f"{command} {_example_artifact()}"
    if (folder / JOB).exists():
        because, hint = f"its {JOB} is not a regular file", "copy or compile the job again"
    elif around:
        hint = shlex.join([*command.split(), str(around[0])])
    elif (folder / ".jobc").is_dir() or all((folder / name).is_file() for name in ("spec.yaml", "jobctl")):
        because = f"the folder's {JOB}, which lists the files that jobc wrote, is missing"
        hint = "move the folder elsewhere and compile the job again"
        hint += "; its spec.yaml shows what the job was" * (folder / "spec.yaml").is_file()
    return CompileError([Diagnostic("JC5004", f"{folder} is not an artifact directory", because, hint)])


def _example_artifact() -> str:
    """Return an existing artifact directory below ./artifacts, or else a path that jobc would write to."""
    existing = sorted(Path("artifacts").glob(f"*/*/{JOB}"))
    return shlex.quote(str(existing[0].parent.parent)) if existing else "artifacts/hello/local"
