"""Find and delete a run's secrets. Secrets are in the user's home because run folders are shared."""

from __future__ import annotations

import os
from pathlib import Path

from .removal import remove_folder

_BASIS, _PRIME, _MASK = 0xCBF29CE484222325, 0x100000001B3, 2**64 - 1  # constants of FNV-1a, 64 bits


def secrets_folder_of_run(run: Path) -> Path:
    """Return the folder with a run's secrets. The folder's name ends with a hash of the run's path because another run
    root may have the same IDs. run: resolved path
    """
    value = _BASIS
    for byte in os.fsencode(run):
        value = (value ^ byte) * _PRIME & _MASK
    root = os.environ.get("JOBC_SECRETS_ROOT") or f"{os.environ.get('HOME') or '/nonexistent'}/.jobc/secrets"
    return Path(root, f"{run.name}-{value:016x}")


def delete_run_secrets(run: Path) -> None:
    """Remove a run's secrets, if there are any. Raises OSError."""
    folder = secrets_folder_of_run(run)
    if not folder.is_dir() or folder.is_symlink():
        return
    remove_folder(folder)
