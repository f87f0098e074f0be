"""Copy the user's code into a run, as the ranks' working copy, and link entries that git ignores, such as data/.

Out: RUN/code, where files that ranks wrote or changed are kept, and RUN/state/code, which records the state of each
     file when it was copied. What was copied, kept, linked and omitted is printed to stderr, because jobctl submit's
     stdout is for programs. Failure has exit code 65 if the user must change the code or its settings.
"""

from __future__ import annotations

import filecmp
import os
import re
import shutil
import stat
import sys
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ..exit_codes import DATA_BROKEN
from ..run_folder.artifact_copies import JOB_FILE, current_umask
from ..run_folder.run import quote_shell_word
from ..system.failure import Failure
from ..system.text import format_size
from ..system.untrusted_files import Unreadable, read_bytes
from .code_files import CodeFiles, code_files, looks_secret

if TYPE_CHECKING:
    _States = dict[bytes, tuple[int, int]]  # path -> size, and modification time in seconds

MIB = 2**20
COPIED_FILES, MOST_RECORD_BYTES = "state/code", 64 * MIB
LINE_WIDTH, NAME_WIDTH, MOST_SECRETS = 80, 16, 5

MOST_LINKS = 10_000  # for example, a code folder full of images
MOST_LOOKS = 20  # maximum number of entries of a folder to look at
_MARKS = (JOB_FILE, "state/run")  # the first is in artifacts/JOB/BACKEND, the second in RUNS/JOB/ID
DATA, PRIVATE = "data", "private"
_BY_PRODUCT = re.compile(r"\..*|__pycache__|node_modules|.*\.egg-info|.*\.pyc|build|dist|jobctl_source", re.DOTALL)


def copy_code(
    root: Path, *, run: Path, runs: Path, project: Path, max_bytes: int, script: str, is_linked: bool
) -> None:
    """Copy the code in `root` to RUN/code. Raises Failure.

    runs:      folder of the job's runs. Its parent, which is the run root of all jobs, is not copied.
    project:   folder that contains artifacts/.
    script:    the ranks' script, relative to `root`. It must be in the copy.
    is_linked: whether the nodes can access `root`. If so, files and folders that git ignores are linked.
    """
    folder = Path(os.path.realpath(root))
    if not folder.is_dir():
        raise Failure(f"the code folder {root} does not exist", "check code.root in the spec", DATA_BROKEN)
    without = [project / "artifacts", runs.parent]
    files = code_files(folder, without, run)
    size = _total_size(folder, files.paths)
    if size > max_bytes:
        raise Failure(
            f"the code in {folder} is {size // MIB} MiB, more than the limit of {max_bytes // MIB} MiB",
            f"list large files in .jobcignore or .gitignore; or raise the limit: code.max_size={size // MIB + 1}MiB;"
            " or code=shared",
            DATA_BROKEN,
        )
    copy = _CodeCopy(folder, run / "code", run / COPIED_FILES)
    if not files.is_repository:
        _print_plain_copy(folder, files, size)
    try:
        copy.copy_files(files.paths)
        links = link_ignored(copy, files.ignored, project, runs, is_linked)
    except OSError as error:
        name = os.fsdecode(error.filename) if error.filename else str(copy.folder)
        title = f"cannot copy the code to {copy.folder}: {name}: {error.strerror}"
        raise Failure(title, "check permissions and free space, or set JOBC_RUN_ROOT to another folder") from error
    if copy.kept:
        kept, names = quote_shell_word(str(copy.folder)), abbreviate_names(copy.kept, 3)
        print(f"code: not overwritten in {kept}, because the job changed these files: {names}", file=sys.stderr)
    for what, entries in (
        ("symlinked, so shared by all runs", links.linked),
        (f"not {'copied' if is_linked else 'sent'} (ignored by git)", links.left_out),
    ):
        if entries:
            print(_describe_entries(what, entries), file=sys.stderr)
    if script and (script in links.linked or not (copy.folder / script).exists()):
        if not (folder / script).exists():
            hint = "check the command after --; code.root=FOLDER selects another folder"
            raise Failure(f"no script {script} in {folder}", hint, DATA_BROKEN)
        hint = f"git or .jobcignore ignores the script: git add -f {script}, or remove the pattern"
        raise Failure(f"the script {script} is not in the copy of {folder}", hint, DATA_BROKEN)


def changed_code(root: Path, run: Path) -> str:
    """Return the names of the files in `root` that have changed since they were copied to the run, or "" if none has.

    New files are not detected.
    """
    copy = _CodeCopy(root, run / "code", run / COPIED_FILES)
    changed = []
    for path, state in copy.read_record().items():
        source = os.path.join(os.fsencode(root), path)
        with suppress(OSError):
            if _was_changed(source, state) and not filecmp.cmp(
                source, os.path.join(os.fsencode(copy.folder), path), shallow=False
            ):
                changed.append(os.fsdecode(path))
    return abbreviate_names(changed, 3)


class _IgnoredEntries(NamedTuple):
    """The entries that git ignores, relative to the code folder: those linked into the copy, and those left out."""

    linked: list[str]
    left_out: list[str]


class _CodeCopy:
    """The copy of `root` in `folder`.

    record: file with the size and modification time of each file when it was copied. A file that differs, such as a
    checkpoint, was written by the job, and a later copy does not replace it; `kept` lists these files.
    """

    def __init__(self, root: Path, folder: Path, record: Path) -> None:
        self.root, self.folder, self.record = root, folder, record
        self.kept: list[str] = []
        self.umask = current_umask()

    def copy_files(self, paths: list[bytes]) -> None:
        """Copy the files. Raises OSError."""
        states = self.read_record()
        if self.folder.is_dir():
            self._open_earlier()
        else:
            self.folder.mkdir()
            states = {}
        try:
            self._copy_all(paths, states)
        finally:
            self.record.parent.mkdir(exist_ok=True)
            lines = (b"%d %d %s\0" % (*state, path) for path, state in states.items())
            self.record.write_bytes(b"".join(lines))

    def _copy_all(self, paths: list[bytes], states: _States) -> None:
        """Copy the files, except those that the job has changed in the copy. Updates `states`."""
        keeps_written = bool(states)
        for path in paths:
            target = os.path.join(os.fsencode(self.folder), path)
            if keeps_written and _was_changed(target, states.get(path)):
                self.kept.append(os.fsdecode(path))
                continue
            self._copy_entry(os.path.join(os.fsencode(self.root), path), target)
            if state := _size_and_mtime(target):
                states[path] = state

    def read_record(self) -> _States:
        """Return the states from the last copy, or {} if there is no valid record."""
        try:
            lines = read_bytes(self.record, MOST_RECORD_BYTES).split(b"\0")
            entries = (line.split(b" ", 2) for line in lines if line)
            return {path: (int(size), int(time_s)) for size, time_s, path in entries}
        except (Unreadable, ValueError):
            return {}

    def _open_earlier(self) -> None:
        """Make an earlier copy writable, and remove its links to the project, because they point to the originals."""
        for folder, folders, files in os.walk(self.folder):
            for name in [".", *folders, *files]:
                path = os.path.join(folder, name)
                if not os.path.islink(path):
                    os.chmod(path, stat.S_IMODE(os.stat(path).st_mode) | stat.S_IWUSR)
                elif os.readlink(path).startswith(f"{self.root}/"):
                    os.unlink(path)

    def _copy_entry(self, source: bytes, target: bytes) -> None:
        """Copy one file, link or empty folder, with its mode and times. Replaces parent folders that are links."""
        self.make_parents(os.path.dirname(target))
        status = os.lstat(source)
        if stat.S_ISDIR(status.st_mode):
            os.makedirs(target, exist_ok=True)
            return
        with suppress(FileNotFoundError):
            os.unlink(target)
        if stat.S_ISLNK(status.st_mode):
            os.symlink(os.readlink(source), target)
            return
        shutil.copyfile(source, target, follow_symlinks=False)
        os.chmod(target, stat.S_IMODE(status.st_mode) & 0o777 & ~self.umask | stat.S_IWUSR)
        os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns))

    def make_parents(self, folder: bytes) -> None:
        if (os.path.isdir(folder) and not os.path.islink(folder)) or folder == os.fsencode(self.folder):
            return
        self.make_parents(os.path.dirname(folder))
        with suppress(FileNotFoundError):
            if not stat.S_ISDIR(os.lstat(folder).st_mode):
                os.unlink(folder)
        with suppress(FileExistsError):
            os.mkdir(folder)


def _size_and_mtime(path: bytes) -> tuple[int, int] | None:
    """Return a regular file's size and its modification time in seconds, or None if there is no such file."""
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return None
    return (status.st_size, int(status.st_mtime)) if stat.S_ISREG(status.st_mode) else None


def _was_changed(path: bytes, copied: tuple[int, int] | None) -> bool:
    """Return whether this file was written after the copy. copied: its state in the copy, or None if it is not there.

    Some file systems round a timestamp when it reaches the disk, so it may change by a second.
    """
    now = _size_and_mtime(path)
    return now is not None and (copied is None or now[0] != copied[0] or abs(now[1] - copied[1]) > 1)


def link_ignored(copy: _CodeCopy, ignored: list[str], project: Path, runs: Path, is_linked: bool) -> _IgnoredEntries:
    """Link the ignored entries that a script may need. is_linked: whether the nodes can read them. Raises OSError."""
    links = _IgnoredEntries([], [])
    for name in ignored:
        link = copy.folder / name
        use = use_of_ignored(copy.root, name, project, runs)
        if not use or os.path.lexists(link):
            continue
        if not is_linked or use == PRIVATE or len(links.linked) == MOST_LINKS:
            links.left_out.append(name)
        else:
            copy.make_parents(os.fsencode(link.parent))
            link.symlink_to(copy.root / name)
            links.linked.append(name)
    return links


def use_of_ignored(root: Path, name: str, project: Path, runs: Path) -> str:
    """Return DATA if a script may need this ignored entry of the code folder `root`, PRIVATE if it must not be linked,
    or "" for a by-product and for jobc's own files. The arguments are those of copy_code().
    """
    target, artifacts = root / name, project / "artifacts"
    is_of_jobc = not {artifacts, runs.parent}.isdisjoint((target, *target.parents))
    if is_of_jobc or any(map(_BY_PRODUCT.fullmatch, name.split("/"))) or _holds_jobs(target):
        return ""
    contains_run = target in (runs, *runs.parents, *artifacts.parents)  # a link would make the run contain itself
    return PRIVATE if looks_secret(name) or _is_environment(target) or contains_run else DATA


def _describe_entries(what: str, names: list[str]) -> str:
    """Return a line about ignored entries, in 80 columns if possible."""
    lines = [f"code: {what}: {abbreviate_names(names, max_names)}" for max_names in (3, 2, 1)]
    return next((line for line in lines if len(line) <= LINE_WIDTH), lines[-1])


def _total_size(root: Path, paths: list[bytes]) -> int:
    size = 0
    for path in paths:
        with suppress(OSError):  # removed in the meantime
            size += os.lstat(os.path.join(os.fsencode(root), path)).st_size
    return size


def _print_plain_copy(root: Path, files: CodeFiles, size: int) -> None:
    why = f"because {quote_shell_word(str(root))} is not in a git repository"
    count = f"{len(files.paths)} file{'' if len(files.paths) == 1 else 's'}"
    names = abbreviate_names(list(map(os.fsdecode, files.paths)), 3) or "none"
    print(f"code: copying {count} ({format_size(size)}), {why}: {names}", file=sys.stderr)
    if files.secrets:
        names = " ".join(quote_shell_word(name) for name in files.secrets[:MOST_SECRETS])
        why = "not copied, because the names look like secrets"
        print(f"code: {why}: {names}; if the job needs them: git init, git add FILE", file=sys.stderr)


def _is_environment(folder: Path) -> bool:
    return os.path.lexists(folder / "pyvenv.cfg") or (folder / "conda-meta").is_dir()


def _holds_jobs(folder: Path) -> bool:
    """Return whether jobc created this folder for artifacts or runs, of one or of all jobs: of another project, or with
    earlier settings.

    Looks at only a few folders, because others may contain millions of files.
    """
    inner = _list_folders(folder)
    jobs = (Path(job) for each in ([folder], inner) for parent in each for job in _list_folders(parent))
    return any((job / mark).is_file() for job in jobs for mark in _MARKS)


def _list_folders(folder: str | Path) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return [entry.path for entry in islice(entries, MOST_LOOKS) if entry.is_dir(follow_symlinks=False)]
    except OSError:  # not a folder, or unreadable
        return []


def abbreviate_names(names: list[str], max_names: int) -> str:
    """Return the first `max_names` names, quoted and truncated to 16 characters, and how many more there are."""
    quoted = [quote_shell_word(name) for name in names[:max_names]]
    shown = [name if len(name) <= NAME_WIDTH else f"{name[: NAME_WIDTH - 1]}…" for name in quoted]
    more = f" and {len(names) - max_names} more" if len(names) > max_names else ""
    return ", ".join(shown) + more
