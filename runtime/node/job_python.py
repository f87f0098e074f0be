"""Check the job's Python, which also runs this program: its version, and the modules that the job needs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from collections.abc import Iterable
from pathlib import Path

from ..exit_codes import DATA_BROKEN
from .node_failure import NodeFailure
from .node_settings import NodeSettings

OLDEST = (3, 10)
SAFE_PATH_SINCE = (3, 11)
# Runs in a separate process because this program runs without site-packages
_FIND = """
import importlib.util, json, sys
found = {name: importlib.util.find_spec(name) for name in sys.argv[1:]}
print(json.dumps({name: list(spec.submodule_search_locations or ()) for name, spec in found.items() if spec}))
"""
LAUNCH_MODULE = "torch.distributed.launch"  # a future torch will remove this module (deprecated since 1.9)


def safe_path_option() -> list[str]:
    """Return the option that keeps a launcher from importing from its working directory, if this Python has it."""
    return ["-P"] if sys.version_info >= SAFE_PATH_SINCE else []


def require_python_version() -> None:
    if sys.version_info < OLDEST:
        title = f"python is older than 3.10: {sys.executable}"
        raise NodeFailure(DATA_BROKEN, title, "choose another environment in the spec")


def missing_modules(read: NodeSettings) -> list[NodeFailure]:
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
