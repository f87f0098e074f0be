"""Ask git which files belong to the user's code. If git fails, the run does not start.

Source: git-check-ignore(1), git-ls-files(1); git 2.20 and newer.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from ..exit_codes import DATA_BROKEN
from ..run_folder.run import quote_shell_word
from ..system.failure import Failure

TIMEOUT_S = 300.0
MOST_ERROR_BYTES = 4096  # maximum length of git's error output in a message

# Variables that a caller (a git hook, `git rebase --exec`) sets to point git to a different repository.
_OF_THE_CALLER = (
    "DIR WORK_TREE INDEX_FILE COMMON_DIR OBJECT_DIRECTORY ALTERNATE_OBJECT_DIRECTORIES NAMESPACE PREFIX"
    " CEILING_DIRECTORIES LITERAL_PATHSPECS GLOB_PATHSPECS NOGLOB_PATHSPECS ICASE_PATHSPECS"
)


class Git:
    """Runs git in `folder`. git_dir: an empty repository to use instead of the folder's own."""

    def __init__(self, folder: Path, git_dir: Path | None = None) -> None:
        self.folder, self.git_dir = folder, git_dir

    def list_paths(self, *words: str, paths: list[bytes] | None = None) -> list[bytes]:
        """Run `git WORDS -z` with `paths` as input, and return the paths it prints.

        Raises Failure as exits_with_zero() does.
        """
        code, output = self._run_git([*words, "-z", *(["--stdin"] if paths is not None else [])], paths)
        return [path for path in output.split(b"\0") if path] if code == 0 else []

    def exits_with_zero(self, *words: str) -> bool:
        """Return True if git exits with 0, and False if it exits with 1.

        Raises Failure if git is missing, hangs, reports an error, or cannot read an ignore file.
        """
        return self._run_git(list(words), None)[0] == 0

    def _run_git(self, words: list[str], paths: list[bytes] | None) -> tuple[int, bytes]:
        if shutil.which("git") is None:
            raise Failure(
                f"git was not found on {os.uname().nodename}, and {self.folder} is in a git repository",
                "install git (without it, jobc would copy the files that .gitignore excludes), or set code=shared",
                DATA_BROKEN,
            )
        of_repository = [f"--git-dir={self.git_dir}", "--work-tree=."] if self.git_dir else []
        command = ["git", "-c", "core.fsmonitor=false", "-C", str(self.folder), *of_repository, *words]
        # files instead of pipes: a child that outlives git would keep a pipe open
        with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
            given.write(b"".join(path + b"\0" for path in paths or ()))
            given.seek(0)
            try:
                code = subprocess.run(
                    command, stdin=given, stdout=output, stderr=errors, env=environment_without_git(os.environ),
                    timeout=TIMEOUT_S, check=False,
                ).returncode  # fmt: skip
                errors.seek(0)
                said = errors.read(MOST_ERROR_BYTES).decode(errors="replace").strip()
            except subprocess.TimeoutExpired:
                code, said = 124, f"no response within {TIMEOUT_S:g} s"
            if code not in (0, 1) or "unable to access" in said:
                said = said or f"git exits with {code}"
                raise Failure(
                    f"git cannot list the code files in {self.folder}: {said}",
                    f"fix the error; git -C {quote_shell_word(str(self.folder))} status also shows it. Nothing was"
                    " copied, because files that .gitignore excludes may be secret",
                    DATA_BROKEN,
                )
            output.seek(0)
            return code, output.read()


@contextmanager
def temporary_repository(folder: Path, beside: Path, read: str) -> Iterator[Git]:
    """Yield git for `folder` with a temporary empty repository in `beside`, so that no file counts as committed.

    read: name that the error message uses for the file that git must read. Raises Failure if git is missing.
    """
    if shutil.which("git") is None:
        raise Failure(f"git is needed to read {read} in {folder}", "install git; or remove the file", DATA_BROKEN)
    git_dir = Path(tempfile.mkdtemp(prefix=".git.", dir=beside))
    try:
        Git(beside).exits_with_zero("init", "--quiet", "--bare", "--template=", str(git_dir))
        yield Git(folder, git_dir)
    finally:
        shutil.rmtree(git_dir, ignore_errors=True)


def environment_without_git(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment without the variables that point git to a different repository."""
    environment = dict(environ)
    for name in _OF_THE_CALLER.split():
        environment.pop(f"GIT_{name}", None)
    return {**environment, "GIT_DISCOVERY_ACROSS_FILESYSTEM": "1", "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}
