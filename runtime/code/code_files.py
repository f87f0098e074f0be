"""Find the user's code in a folder: the files that git would commit, except those that a .jobcignore lists.

A .jobcignore has the syntax of a .gitignore and also applies to committed files. Outside a repository, every file is
code except environments, caches, files that a .gitignore lists, and files with names typical of secrets.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from ..exit_codes import DATA_BROKEN
from ..system.failure import Failure
from .git import Git, temporary_repository

_SECRET = re.compile(
    r"(.*/)?(\.(aws|azure|docker|gnupg|kube|ssh)/.*|\.(netrc|pgpass|pypirc)|\.env(\.[^/]*)?"
    r"|id_(rsa|dsa|ecdsa|ed25519)[^/]*|[^/]*\.(pem|key|p12|pfx|env)"
    r"|[^/]*(secret|credential|password)[^/.]*(\.(json|ya?ml|toml|ini|cfg|conf|txt|properties|xml))?)",
    re.DOTALL | re.IGNORECASE,
)  # such files are copied only if git tracks them, and never linked
_PRUNED = frozenset((b".git", b".venv", b"__pycache__"))


def looks_secret(path: str) -> bool:
    """Return whether a relative path looks like a file with secrets. A name such as password_strength.py does not."""
    return _SECRET.fullmatch(path) is not None


class CodeFiles(NamedTuple):
    """Paths of the code files, relative to the folder and sorted as bytes.

    ignored:       files and whole folders that git ignores but no .jobcignore lists.
    secrets:       files left out because their names are typical of secrets.
    is_repository: whether git decided which files are code.
    """

    paths: list[bytes]
    ignored: list[str]
    secrets: list[str]
    is_repository: bool


def code_files(root: Path, without: list[Path], scratch: Path) -> CodeFiles:
    """Return the code in `root`.

    root:    absolute path without symbolic links.
    without: folders to leave out because they contain artifacts or runs, not code.
    scratch: folder in which to create a temporary repository.
    Raises Failure if git fails.
    """
    return _CodeFileSearch(root, without, scratch).find_code_files()


class _CodeFileSearch:
    def __init__(self, root: Path, without: list[Path], scratch: Path) -> None:
        self.root, self.scratch = root, scratch
        self.root_bytes = os.fsencode(root)
        self.without = {os.fsencode(folder) for folder in without}
        self.git = Git(root)

    def find_code_files(self) -> CodeFiles:
        named = self._list_jobcignored_paths()
        is_repository = self._is_in_repository()
        secrets: list[str] = []
        if is_repository:
            tracked = self.git.list_paths("ls-files", "--cached", "--recurse-submodules")
            candidates = [*tracked, *self.git.list_paths("ls-files", "--others", "--exclude-standard")]
        else:
            candidates, secrets = self._find_plain_files()
        paths = sorted({path for path in candidates if self._is_code(path)} - named)
        return CodeFiles(paths, self._ignored_paths(named) if is_repository else [], secrets, is_repository)

    def _is_code(self, path: bytes) -> bool:
        whole = os.path.join(self.root_bytes, path)
        return os.path.lexists(whole) and not any(whole == out or whole.startswith(out + b"/") for out in self.without)

    def _is_in_repository(self) -> bool:
        """Return whether the folder is in a git repository that does not ignore the folder."""
        if not any(os.path.lexists(folder / ".git") for folder in (self.root, *self.root.parents)):
            if os.environ.get("GIT_DIR") or os.environ.get("GIT_WORK_TREE"):
                raise Failure(
                    f"GIT_DIR or GIT_WORK_TREE is set, and {self.root} has no .git",
                    "unset GIT_DIR GIT_WORK_TREE, and list in .jobcignore what must not be copied into the run",
                    DATA_BROKEN,
                )
            return False
        return not self.git.exits_with_zero("check-ignore", "-q", ".")

    def _list_jobcignored_paths(self) -> set[bytes]:
        if not self._has_file(b".jobcignore"):
            return set()
        with temporary_repository(self.root, self.scratch, ".jobcignore") as git:
            words = ("ls-files", "--others", "--ignored", "--exclude-per-directory=.jobcignore")
            folders = git.list_paths(*words, "--directory")  # includes empty ones
            return {*git.list_paths(*words), *(folder.rstrip(b"/") for folder in folders)}

    def _ignored_paths(self, named: set[bytes]) -> list[str]:
        ignored = self.git.list_paths("ls-files", "--others", "--ignored", "--exclude-standard", "--directory")
        of_jobcignore = {path[: slash.start()] for path in named for slash in re.finditer(rb"/|\Z", path)}
        return [os.fsdecode(path) for path in sorted({path.rstrip(b"/") for path in ignored} - of_jobcignore)]

    def _find_plain_files(self) -> tuple[list[bytes], list[str]]:
        """Return every file, link and empty folder that may be code, and the files left out as likely secrets."""
        found: list[bytes] = []
        secrets: list[bytes] = []
        for folder, is_empty, names in self._walk_code_folders(self._raise_unreadable):
            paths = sorted(os.path.relpath(os.path.join(folder, name), self.root_bytes) for name in names)
            secrets += [path for path in paths if looks_secret(os.fsdecode(path))]
            found += [path for path in paths if not looks_secret(os.fsdecode(path)) and self._is_plain(path)]
            if is_empty and folder != self.root_bytes:
                found.append(os.path.relpath(folder, self.root_bytes))
        if self._has_file(b".gitignore"):
            with temporary_repository(self.root, self.scratch, ".gitignore") as git:
                ignored = set(git.list_paths("check-ignore", "--no-index", paths=found))
            found = [path for path in found if path not in ignored]
        return found, [os.fsdecode(path) for path in secrets]

    def _is_plain(self, path: bytes) -> bool:
        whole = os.path.join(self.root_bytes, path)
        return os.path.islink(whole) or os.path.isfile(whole)

    def _has_file(self, name: bytes) -> bool:
        return any(name in names for _, _, names in self._walk_code_folders(None))

    def _walk_code_folders(
        self, on_error: Callable[[OSError], None] | None
    ) -> Iterator[tuple[bytes, bool, list[bytes]]]:
        """Yield each folder that may contain code, whether it is empty, and the names of its files and links."""
        for folder, folders, files in os.walk(self.root_bytes, onerror=on_error):
            is_empty = not folders and not files
            links = [name for name in folders if os.path.islink(os.path.join(folder, name))]
            kept = [name for name in folders if name not in _PRUNED and name not in links]
            folders[:] = [name for name in kept if os.path.join(folder, name) not in self.without]
            yield folder, is_empty, [*files, *links]

    def _raise_unreadable(self, error: OSError) -> None:
        raise Failure(f"cannot list the code in {self.root}: {os.fsdecode(error.filename)}: {error.strerror}")
