"""Find a node's folders (code, caches, home), and check /dev/shm, the job's Python and its modules."""

from __future__ import annotations

import json
import os
import pwd
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Mapping
from pathlib import Path

from ..exit_codes import CRASHED, DATA_BROKEN
from ..system.private_folder import is_replaceable_only_by_user, private_folder
from .node_failure import NodeFailure
from .node_settings import NodeSettings

MIB = 1024 * 1024
SHM = "/dev/shm"
OLDEST = (3, 10)
SAFE_PATH_SINCE = (3, 11)
# Runs in a separate process because this program runs without site-packages
_FIND = """
import importlib.util, json, sys
found = {name: importlib.util.find_spec(name) for name in sys.argv[1:]}
print(json.dumps({name: list(spec.submodule_search_locations or ()) for name, spec in found.items() if spec}))
"""
LAUNCH_MODULE = "torch.distributed.launch"  # a future torch will remove this module (deprecated since 1.9)


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
    why = f"other users can change {key}={folder}, or a parent folder: using a private folder instead"
    print(f"jobc: {why}", file=sys.stderr)
    return _require_private_folder("caches", "cannot create a private cache folder")


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


def safe_path_option() -> list[str]:
    """Return the option that keeps a launcher from importing from its working directory, if this Python has it."""
    return ["-P"] if sys.version_info >= SAFE_PATH_SINCE else []


def require_python_version() -> None:
    if sys.version_info < OLDEST:
        title = f"python is older than 3.10: {sys.executable}"
        raise NodeFailure(DATA_BROKEN, title, "choose another environment in the spec")


def missing_module_failures(read: NodeSettings) -> list[NodeFailure]:
    """Return a failure for each module that the environment lacks."""
    modules = ["torch"] if read.needs_torch else []
    modules += ["accelerate"] if read.launcher == "accelerate" else []
    modules += ["deepspeed"] if read.parallel == "deepspeed" else []
    if not modules:
        return []
    python = sys.executable
    try:
        folders = _module_folders(modules)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        code = error.returncode if isinstance(error, subprocess.CalledProcessError) else 1
        return [NodeFailure(DATA_BROKEN, f"python does not start: {python} (exit {code})", f"{python} -V")]
    failures = [
        NodeFailure(DATA_BROKEN, f"no {name} in the environment of {python}", _install_hint(name))
        for name in modules
        if name not in folders
    ]
    if read.launcher == "torch_distributed_launch" and folders.get("torch"):
        torch = folders["torch"][0]
        if not os.path.isfile(f"{torch}/distributed/launch.py"):
            title = f"the torch in {torch} no longer has {LAUNCH_MODULE}"
            hint = "launcher=torchrun, and the program reads LOCAL_RANK from its environment"
            failures.append(NodeFailure(DATA_BROKEN, title, hint))
    return failures


def _install_hint(module: str) -> str:
    """Return the hint for a missing module. pip installs nothing into a distribution's Python (PEP 668)."""
    # sys.prefix does not show whether it is a virtual environment, because this program runs without site
    is_environment = Path(sys.executable).parents[1].joinpath("pyvenv.cfg").exists()
    if is_environment or not os.path.exists(os.path.join(sysconfig.get_path("stdlib"), "EXTERNALLY-MANAGED")):
        return f"{sys.executable} -m pip install {module}"
    return f"python=venv python.path=FOLDER, where FOLDER is a virtual environment that has {module}"


def _module_folders(modules: Iterable[str]) -> dict[str, list[str]]:
    words = [sys.executable, "-c", _FIND, *modules]
    done = subprocess.run(words, cwd=Path("/"), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
    folders: dict[str, list[str]] = json.loads(done.stdout.splitlines()[-1])
    return folders


def require_mpirun() -> None:
    """Raise NodeFailure if mpirun is not from Open MPI 4, which mpi.py needs, or if it refuses to run as root."""
    try:
        done = subprocess.run(["mpirun", "--version"], capture_output=True, check=False)
        first = done.stdout.decode(errors="replace").partition("\n")[0]
    except OSError:
        first = ""
    if "(Open MPI) 4." not in first:
        version = f": {first}" if first else ""
        hint = "apt-get install openmpi-bin, or python.modules=[openmpi/4.1]; or launcher=torchrun"
        raise NodeFailure(DATA_BROKEN, f"no mpirun of Open MPI 4 on {os.uname().nodename}{version}", hint)
    allowed = ("OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM")
    if os.geteuid() == 0 and not all(os.environ.get(name) for name in allowed):
        settings = " ".join(f"env.{name}=1" for name in allowed)
        hint = f"run as another user; or, at your own risk, {settings}"
        raise NodeFailure(DATA_BROKEN, "mpirun refuses to run as root", hint)
