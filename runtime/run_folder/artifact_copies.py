"""Find and link the artifact's copies in a run folder.

RUN/artifact/ATTEMPT is a folder, or a relative symbolic link, such as 2 -> 0, to an earlier attempt's folder that has
the same files. A link with any other target is ignored because jobc did not create it. Programs read the attempt's
number from JOBC_ATTEMPT because an artifact's resolved path may contain an earlier attempt's number.
"""

from __future__ import annotations

import contextlib
import filecmp
import os
import re
import shutil
import stat
from pathlib import Path

JOB_FILE = ".jobc/job.json"  # relative to the artifact
_NUMBER = re.compile("0|[1-9][0-9]{0,17}")


def copy_number_by_attempt(run: str | os.PathLike[str]) -> dict[int, int]:
    """Return the number of the folder that contains the artifact, for each of a run's attempts."""
    folders, links = set(), {}
    try:
        with os.scandir(os.path.join(run, "artifact")) as entries:
            for entry in entries:
                if not _NUMBER.fullmatch(entry.name):
                    continue
                if entry.is_dir(follow_symlinks=False):
                    folders.add(int(entry.name))
                elif entry.is_symlink():
                    links[int(entry.name)] = os.readlink(entry.path)
    except OSError:
        return {}
    targets = {attempt: int(target) for attempt, target in links.items() if _NUMBER.fullmatch(target)}
    return {
        **{number: number for number in folders},
        **{attempt: number for attempt, number in targets.items() if number < attempt and number in folders},
    }


def artifact_copy_of_attempt(run: Path, attempt: int) -> Path | None:
    """Return the folder that contains an attempt's artifact, or None if there is none."""
    number = copy_number_by_attempt(run).get(attempt)
    return None if number is None else run / "artifact" / str(number)


def newest_attempt_from(copy: Path) -> int | None:
    """Return the newest attempt that starts from this copy, RUN/artifact/NUMBER, or None if it is not in a run."""
    if copy.parent.name != "artifact" or not (copy.parent.parent / "state/run").is_file():
        return None
    numbers = copy_number_by_attempt(copy.parent.parent)
    return max((attempt for attempt, number in numbers.items() if str(number) == copy.name), default=None)


def link_attempt_to_copy(run: Path, attempt: int, number: int) -> bool:
    """Make RUN/artifact/ATTEMPT a link to the folder with that number. Return False if the name is taken or if the file
    system does not support symbolic links.
    """
    try:
        os.symlink(str(number), run / "artifact" / str(attempt))
    except OSError:
        return False
    return True


def link_previous_copy_if_equal(run: Path, attempt: int, artifact: Path) -> bool:
    """Make RUN/artifact/ATTEMPT a link to the previous attempt's copy if that copy has the same files as this artifact.
    Return whether this was done. Every byte is compared because copies can be edited.
    """
    numbers = copy_number_by_attempt(run)
    number = numbers.get(max((earlier for earlier in numbers if earlier < attempt), default=-1))
    if number is None:
        return False
    with contextlib.suppress(OSError):
        owner, copy = os.stat(run).st_uid, run / "artifact" / str(number)
        return _is_equal_and_owned(artifact, copy, owner) and link_attempt_to_copy(run, attempt, number)
    return False


def _is_equal_and_owned(artifact: Path, copy: Path, owner: int) -> bool:
    """Return whether both folders have the same files and folders, and everything in the copy belongs to the run's
    owner. (Another owner could change a file after this comparison.) Links and special files count as differences.
    Raises OSError.
    """
    if os.lstat(copy).st_uid != owner or sorted(os.listdir(artifact)) != sorted(os.listdir(copy)):
        return False
    for name in os.listdir(copy):
        ours, theirs = os.lstat(artifact / name), os.lstat(copy / name)
        if theirs.st_uid != owner or stat.S_IFMT(ours.st_mode) != stat.S_IFMT(theirs.st_mode):
            return False
        if stat.S_ISDIR(theirs.st_mode):
            is_equal = _is_equal_and_owned(artifact / name, copy / name, owner)
        else:
            is_equal = stat.S_ISREG(theirs.st_mode) and filecmp.cmp(artifact / name, copy / name, shallow=False)
        if not is_equal:
            return False
    return True


def copy_read_only(source: Path, copy: Path) -> None:
    """Copy an artifact to a folder that may exist. The files cannot be written, but `rm -r` removes them. Raises
    OSError.
    """
    umask = current_umask()
    shutil.copytree(source, copy, symlinks=True, dirs_exist_ok=True)
    for folder, _, files in os.walk(copy):
        os.chmod(folder, stat.S_IMODE(os.stat(folder).st_mode) & ~umask | stat.S_IRWXU)
        for path in (os.path.join(folder, name) for name in files):
            if not os.path.islink(path):
                os.chmod(path, stat.S_IMODE(os.stat(path).st_mode) & ~umask & ~0o222)


def current_umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
