"""Save, find and delete a run's secrets. They are in the user's home because run folders are shared."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from ..exit_codes import DATA_BROKEN
from ..system.failure import Failure
from ..system.private_folder import make_private
from ..system.values import read_keys
from .removal import remove_folder


def secrets_folder_of_run(run: Path) -> Path:
    """Return the folder with a run's secrets. Its name ends with a hash of the run's path and of its random key.

    Another run root may have the same IDs, and a container with the same home may have another volume at the same path.
    run: resolved path
    """
    root = os.environ.get("JOBC_SECRETS_ROOT") or f"{os.environ.get('HOME') or '/nonexistent'}/.jobc/secrets"
    identity = os.fsencode(f"{run}{read_keys(run / 'state/run').get('key', '')}")
    return Path(root, f"{run.name}-{hashlib.sha256(identity).hexdigest()[:16]}")


def delete_run_secrets(run: Path) -> None:
    """Remove a run's secrets, if there are any. Raises OSError."""
    folder = secrets_folder_of_run(run)
    if folder.is_dir() and not folder.is_symlink():
        remove_folder(folder)


@contextlib.contextmanager
def saved_secrets(run: Path, variables: Iterable[str]) -> Iterator[None]:
    """Save the values of environment variables, and remove them if the block raises an exception. Raises Failure."""
    try:
        for variable in variables:
            save_secret(run, variable)
        yield
    except BaseException:
        delete_run_secrets(run)
        raise


def save_secret(run: Path, variable: str) -> None:
    """Save an environment variable's value for a run's nodes. Raises Failure.

    The value is never on a command line or in a job's environment. run: resolved path
    """
    value = os.environb.get(os.fsencode(variable), b"")
    if not value:
        title = f"secret: the environment variable {variable} is not set"
        raise Failure(title, f"export {variable}, then submit again", DATA_BROKEN)
    folder = secrets_folder_of_run(run)
    if not (make_private(folder.parent) and make_private(folder)):
        hint = "remove this folder or its parent, whichever another user owns"
        raise Failure(f"{folder} is not a private folder of this user", hint)
    file = folder / variable
    try:
        with contextlib.suppress(FileNotFoundError):
            file.unlink()
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with open(os.open(file, flags, 0o600), "wb") as opened:
            opened.write(value)
    except OSError as error:
        raise Failure(f"cannot write to {folder}: {error.strerror}") from error
