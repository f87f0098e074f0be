"""Read a job's secrets on a node: from the environment, the folder where submit saved them, or a file."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from ..exit_codes import DATA_BROKEN
from ..run_folder.run_secrets import secrets_folder_of_run
from ..system.untrusted_files import Unreadable, read_bytes
from .node_failure import NodeFailure

LARGEST = 1 << 20  # maximum size of a secret in bytes


def read_job_secrets(
    references: Mapping[str, Mapping[str, str]], environ: Mapping[str, str], payload: str
) -> dict[str, str]:
    """Return the secrets as name -> value. Raises NodeFailure if one is missing.

    references: name -> kind (env, file, k8s) and ref; environ: the node's environment, with JOBC_RUN_DIR.
    """
    values = {}
    for name, reference in references.items():
        kind, ref = reference["kind"], reference["ref"]
        if kind == "file":
            values[name] = _from_file(name, ref, environ)
        elif kind == "env" and (value := _from_environment(name, ref, environ, payload)) is not None:
            values[name] = value
        elif kind == "k8s" and not environ.get(name):  # otherwise, the engine has set it to the cluster's value
            secret, _, key = ref.partition("/")
            hint = f"check that kubectl get secret {secret} shows the key {key}"
            raise NodeFailure(DATA_BROKEN, f"secret {name}: empty or not set", hint)
    return values


def _from_environment(name: str, variable: str, environ: Mapping[str, str], payload: str) -> str | None:
    if value := environ.get(variable):
        return value
    if (saved := _saved_secret(environ.get("JOBC_RUN_DIR", ""), variable)) is not None:
        return saved
    if payload == "shell":  # the saved value is removed once all nodes are up
        hint = f"to set it: read -rs {name} && export {name}"
        print(f"warning: secret {name} is not in this shell; {hint}", file=sys.stderr)
        return None
    title = f"secret {name}: the environment variable {variable} is not set"
    raise NodeFailure(DATA_BROKEN, title, f"export {variable}, then submit again")


def _saved_secret(run: str, variable: str) -> str | None:
    """Return the value that submit saved, if the file and its folder belong to this user."""
    if not run:
        return None
    file = secrets_folder_of_run(Path(run)) / variable
    try:
        if os.path.islink(file.parent) or os.lstat(file.parent).st_uid != os.geteuid():
            return None
        if os.lstat(file).st_uid != os.geteuid():
            return None
        return _decode_secret(read_bytes(file, LARGEST, follow=False)) or None
    except (OSError, Unreadable):
        return None


def _from_file(name: str, path: str, environ: Mapping[str, str]) -> str:
    home = environ.get("HOME", "")
    file = Path(f"{home}/{path[2:]}" if path.startswith("~/") else path)
    try:
        value = _decode_secret(read_bytes(file, LARGEST))
    except (OSError, Unreadable):
        value = ""
    if not value:
        title = f"secret {name}: the file {file} is empty or cannot be read on {os.uname().nodename}"
        raise NodeFailure(DATA_BROKEN, title, f"write the value to this file, and run chmod 600 {file}")
    return value


def _decode_secret(content: bytes) -> str:
    """Return the content as a shell's $(<FILE) would: without NULs and trailing newlines."""
    return os.fsdecode(content.replace(b"\0", b"")).rstrip("\n")
