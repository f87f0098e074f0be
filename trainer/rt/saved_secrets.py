"""Save secrets for the nodes of a run: values of environment variables, in files that only this user can read.

In   a run, and the names of variables of this program
Out  files in the folder of run_secrets.secrets_of(); no value is on a command line or in the environment of a job
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from .engines.engine import Failure
from .exit_codes import DATA_BROKEN
from .run_secrets import forget_secrets, secrets_of

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@contextlib.contextmanager
def saved_secrets(run: Path, variables: Iterable[str]) -> Iterator[None]:
    """Save the values, and remove them if the caller fails to start the run. Raises Failure."""
    try:
        for variable in variables:
            save_secret(run, variable)
        yield
    except BaseException:
        forget_secrets(run)
        raise


def save_secret(run: Path, variable: str) -> None:
    """Save the value of an environment variable, in place of an earlier one. run: resolved path. Raises Failure."""
    value = os.environb.get(os.fsencode(variable))
    if not value:
        why = f"secret: the environment variable {variable} is not set"
        raise Failure(why, f"export {variable} before submit.sh", DATA_BROKEN)
    folder = secrets_of(run)
    try:
        os.close(_private_folder(folder.parent))
        opened = _private_folder(folder)
    except OSError as error:
        hint = "remove it, or what it is below, if it is not yours"
        raise Failure(f"{folder} is not a folder of this user alone", hint) from error
    try:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(variable, dir_fd=opened)
        with open(os.open(variable, _NEW_FILE, 0o600, dir_fd=opened), "wb") as file:
            file.write(value)
    except OSError as error:
        raise Failure(f"cannot write to {folder}: {error.strerror}") from error
    finally:
        os.close(opened)


def _private_folder(folder: Path) -> int:
    """Create the folder, or close it to other users; return its descriptor. Raises OSError if it is not this user's."""
    umask = os.umask(0o077)
    try:
        os.makedirs(folder, exist_ok=True)
    finally:
        os.umask(umask)
    opened = os.open(folder, _FOLDER)
    try:
        if os.fstat(opened).st_uid != os.geteuid():
            raise PermissionError(f"{folder} belongs to another user")
        os.fchmod(opened, 0o700)
    except BaseException:
        os.close(opened)
        raise
    return opened
