"""List what git ignores in the code folder: files, and folders whose whole content git ignores."""

import os
from pathlib import Path

from ...runtime.code.git import Git
from ...runtime.system.failure import Failure

_LIST = ("ls-files", "--others", "--ignored", "--directory")


def list_ignored_entries(folder: str) -> list[str]:
    """Return the sorted relative paths of what git ignores, except what a .jobcignore lists. [] if git fails, or if
    the folder is not in a repository or is itself ignored: then other files than those that git lists are copied.
    """
    git = Git(Path(folder))
    try:
        if git.exits_with_zero("check-ignore", "-q", "."):
            return []
        ignored = set(git.list_paths(*_LIST, "--exclude-standard"))
        if ignored and os.path.lexists(os.path.join(folder, ".jobcignore")):
            ignored -= set(git.list_paths(*_LIST, "--exclude-per-directory=.jobcignore"))
    except Failure:
        return []
    return sorted(os.fsdecode(path.rstrip(b"/")) for path in ignored)
