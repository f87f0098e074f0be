"""Find a node's folders (code, caches, home), and check /dev/shm."""

from __future__ import annotations

import os
import pwd
import sys
from collections.abc import Mapping
from pathlib import Path

from ..exit_codes import CRASHED, DATA_BROKEN
from ..system.private_folder import is_replaceable_only_by_user, private_folder
from .node_failure import NodeFailure
from .node_settings import NodeSettings

MIB = 1024 * 1024
SHM = "/dev/shm"


def code_folder(read: NodeSettings, project: str, run: str, artifact: Path, payload: str) -> str:
    """Return the folder in which the ranks run: the run's copy of the code, or the code itself. Raises NodeFailure."""
    copy = f"{run}/code"
    if run and os.path.isdir(copy):
        folder = os.path.join(copy, read.code_root) if read.code_kind == "git" else copy
    else:
        folder = os.path.join(project, read.code_root)
    if os.path.isdir(folder):
        return folder
    if read.code_kind not in ("none", "lib") and payload != "smoke":
        title = f"no code folder {folder} on {os.uname().nodename}"
        raise NodeFailure(DATA_BROKEN, title, "set code.root to a folder that every node can read")
    return run or str(artifact)


def cache_folder(project: str, path: str, key: str, environ: Mapping[str, str]) -> str:
    """Create a cache folder and return its path on this node. key: spec key. Raises NodeFailure."""
    path = path.replace("$UID", str(os.geteuid()))
    if path.startswith("~/"):
        path = f"{environ.get('HOME', '')}/{path[2:]}"
    folder = os.path.join(project, path)
    try:
        os.makedirs(folder, exist_ok=True)
        is_usable = os.access(folder, os.R_OK | os.X_OK)
    except OSError:
        is_usable = False
    if not is_usable:
        title = f"the cache folder {folder} cannot be used on {os.uname().nodename}"
        raise NodeFailure(DATA_BROKEN, title, f"set {key} to another folder")
    return folder


def private_cache_folder(project: str, path: str, key: str, environ: Mapping[str, str]) -> str:
    """Create a cache folder for files that are executed: no other user may change it. Raises NodeFailure."""
    umask = os.umask(0o077)
    try:
        folder = cache_folder(project, path, key, environ)
    finally:
        os.umask(umask)
    if os.stat(folder).st_uid != os.geteuid() or not os.access(folder, os.W_OK):
        title = f"the cache folder {folder} on {os.uname().nodename} belongs to another user"
        raise NodeFailure(DATA_BROKEN, title, f"set {key} to another folder; $UID in it is your user ID")
    if is_replaceable_only_by_user(Path(folder)):
        return folder
    why = f"other users can change {key}={folder}, or a folder above it: using a private folder instead"
    print(f"jobc: {why}", file=sys.stderr)
    return _require_private_folder("caches", "no folder for caches")


def missing_home_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Return variables that an image may lack, such as HOME, which most caches need. Raises NodeFailure."""
    home = environ.get("HOME", "")
    if os.path.isdir(home) and os.access(home, os.W_OK):
        return {"PYTHONNOUSERSITE": "1"}  # packages in a mounted home belong to another Python
    home = _require_private_folder("home", "the container has no home folder, and none can be created")
    return {"HOME": home, "PYTHONNOUSERSITE": "1"}


def safe_cache_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Return a different cache folder for torch.compile if another user was first to create the default one.

    torch executes the folder's contents. Source: torch 2.13, cache_dir_utils.py.
    """
    try:
        user = pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        user = str(os.geteuid())
    default = Path(environ.get("TMPDIR") or "/tmp", f"torchinductor_{user}")
    if environ.get("TORCHINDUCTOR_CACHE_DIR") or not os.path.lexists(default):
        return {}
    if not default.is_symlink() and default.lstat().st_uid == os.geteuid() and is_replaceable_only_by_user(default):
        return {}
    try:
        return {"TORCHINDUCTOR_CACHE_DIR": str(private_folder("inductor"))}
    except OSError:
        return {}


def require_shared_memory(least: int) -> dict[str, str]:
    """Raise NodeFailure if /dev/shm, which data loaders and NCCL use, is smaller than `least` bytes."""
    seen = os.statvfs(SHM)
    size = seen.f_blocks * seen.f_frsize
    if size < least:
        title = f"/dev/shm has {size // MIB} MiB on {os.uname().nodename}, required: {least // MIB} MiB"
        hint = "use a smaller shm; with container=docker, the container gets its own /dev/shm"
        raise NodeFailure(DATA_BROKEN, title, hint)
    return {}


def _require_private_folder(name: str, problem: str) -> str:
    try:
        return str(private_folder(name))
    except OSError:
        title = f"{problem} in {os.environ.get('TMPDIR') or '/tmp'} on {os.uname().nodename}"
        raise NodeFailure(CRASHED, title, "set TMPDIR") from None
