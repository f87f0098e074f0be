"""Run all checks on one node before a run, even if some fail. engines/check_table.py merges all nodes' results.

In:    the job's environment and its code folder; JOBC_NODE_RANK, JOBC_HEAD_ADDR, JOBC_HEAD_PORT and JOBC_RUN_DIR.
Out:   lines of tab-separated fields, the last of which is `end`:
         ok    ID TEXT "" NUMBER   NUMBER is optional: the table prints the lowest one, with its node
         FAIL  ID TEXT HINT
         same  ID VALUE HINT       VALUE must be the same on all nodes
         name  NAME                the node's name, if the engine has one
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ..network import head_port
from ..node.node_settings import NodeSettings

if TYPE_CHECKING:
    from ..system import gpus

TORCH_TIMEOUT_S = 120  # a cold import from a network file system takes a minute
LEAST_FREE_GIB, LEAST_FREE_INODES = 1.0, 10_000
PROBE_BYTES = 2**20  # size of a test file in the run root
MOST_PROCS_PER_CORE = 4  # more is a mistake because the processes would only wait for each other
SAME_ENVIRONMENT = "use one environment on shared storage, or the same lock file on each node"
ASK_TORCH = """
import json, torch
nccl = None
if torch.version.cuda or torch.version.hip:
    try:
        nccl = ".".join(map(str, torch.cuda.nccl.version()))
    except Exception as error:
        nccl = str(error)
print(json.dumps([torch.__version__, torch.__file__, torch.cuda.device_count(), nccl]))
"""


class CheckResult(NamedTuple):
    """Result of one check. hint: what to do if it failed; number: NUMBER at the top of this file."""

    good: bool
    id: str
    text: str
    hint: str = ""
    number: float | None = None


class SameOnAllNodes(NamedTuple):
    """One property that should be the same on all nodes. hint: what to do if it differs."""

    id: str
    value: str
    hint: str


def check_lines(settings: NodeSettings, command: Sequence[str] = ()) -> Iterator[str]:
    """Yield the lines of this node's results. Checks that other nodes wait for come first.

    command: what each rank will run, or () for only the checks that need neither the job's environment nor other nodes.
    """
    if name := os.environ.get("JOBC_NODE_NAME"):  # the engine's name for this node
        yield f"name\t{name}"
    if settings.nodes > 1:
        from .peer_checks import check_with_peers  # packed only in jobs with several nodes

        results = check_with_peers(settings, command)
    else:
        results = chain([check_port(int(os.environ["JOBC_HEAD_PORT"]))], checks_of_this_node(settings, command))
    yield from map(result_as_line, results)
    yield "end"


def result_as_line(found: CheckResult | SameOnAllNodes) -> str:
    """Return one result as a line of tab-separated fields."""
    if isinstance(found, SameOnAllNodes):
        fields = ["same", found.id, found.value, found.hint]
    else:
        number = "" if found.number is None else f"{found.number:g}"
        fields = ["ok" if found.good else "FAIL", found.id, found.text, "" if found.good else found.hint, number]
    return "\t".join(" ".join(field.split()) for field in fields)


def checks_of_this_node(settings: NodeSettings, command: Sequence[str]) -> Iterator[CheckResult | SameOnAllNodes]:
    version = sys.version.split()[0]
    yield CheckResult(True, "python", f"python {version} at {sys.executable}")
    yield SameOnAllNodes("python", "python " + ".".join(version.split(".")[:2]), SAME_ENVIRONMENT)
    yield from check_command(command if settings.storage == "shared" else command[:1])  # a script is sent with the run
    if command and settings.code_kind == "shared":
        from .code_digest import compute_code_digest  # packed only in jobs with code=shared

        code = Path.cwd()
        hint = f"make {code} the same on all nodes, for example with code=snapshot"
        yield SameOnAllNodes("code", f"code {compute_code_digest(code)}", hint)
    yield from check_run_root(Path(os.environ.get("JOBC_RUN_ROOT") or Path(os.environ["JOBC_RUN_DIR"]).parent.parent))
    yield from check_data(os.environ.get("JOBC_DATA_DIR") or settings.data)
    if command and settings.gpus:
        from ..system import gpus  # packed only in jobs with GPUs

        found = gpus.list_gpus(os.environ)
        yield from check_gpus(found, settings.gpus)
        if gpu_type := os.environ.get("JOBC_GPU_TYPE"):
            good, text = gpus.compare_gpu_types(found, gpu_type)
            yield CheckResult(good, "gpu_type", text, "use other hosts, or gpu_type=null for any type")
    if command and settings.needs_torch:
        yield from check_torch(settings.gpus)
    yield check_cores(len(os.sched_getaffinity(0)), settings.procs)


def check_command(command: Sequence[str]) -> Iterator[CheckResult]:
    """Check that the program exists and, for `python FILE`, that the file does too."""
    if not command:
        return
    path = shutil.which(command[0])
    problem = "" if path else ": not found, or not executable"
    hint = "specify the program's path, or add its folder to PATH in the job's environment"
    yield CheckResult(bool(path), "program", f"program {command[0]}{problem}", hint)
    if len(command) > 1 and "python" in Path(command[0]).name and command[1].endswith(".py"):
        is_file = Path(command[1]).is_file()
        problem = "" if is_file else f": no such file in {Path.cwd()}"
        yield CheckResult(
            is_file, "script", f"script {command[1]}{problem}", "check the command and code.root of the spec"
        )


def check_cores(cores: int, procs: int) -> CheckResult:
    """Check the number of CPU cores. Up to 4 processes per core are allowed, although that is slow."""
    text = f"{cores} CPU core{'s' * (cores > 1)} for {procs} process{'es' * (procs > 1)}"
    if procs > cores:
        text += f", {round(procs / cores, 1):g} on each"
    most = MOST_PROCS_PER_CORE * cores
    return CheckResult(procs <= most, "cores", text, f"procs={cores} for one on each core, procs={most} at most", cores)


def check_port(port: int) -> CheckResult:
    if port == 0:
        return CheckResult(True, "port", "rendezvous port: chosen at startup")
    text = f"rendezvous port {port}"
    if head_port.is_free(port):
        return CheckResult(True, "port", f"{text} is free")
    hint = f"find the process with `ss -ltnp 'sport = :{port}'`, or choose another port"
    return CheckResult(False, "port", f"{text} is in use", hint)


def check_run_root(root: Path) -> Iterator[CheckResult]:
    """Check that the run root, or its nearest existing parent, is writable and has free space."""
    existing = next(folder for folder in (root, *root.parents) if folder.exists())
    try:
        with tempfile.NamedTemporaryFile(dir=existing, prefix=".jobc-probe-") as probe:  # other users may write there
            probe.write(b"\0" * PROBE_BYTES)
            probe.flush()
        yield CheckResult(True, "root", f"run root {root} is writable")
    except OSError as error:
        hint = "set JOBC_RUN_ROOT to a writable folder with free space"
        yield CheckResult(False, "root", f"run root {root}: {error.strerror} in {existing}", hint)
    space = os.statvfs(existing)
    free_gib = space.f_bavail * space.f_frsize / 2**30
    hint = "remove old runs or set JOBC_RUN_ROOT"
    yield CheckResult(free_gib >= LEAST_FREE_GIB, "space", f"{free_gib:.1f} GiB free in the run root", hint, free_gib)
    if space.f_files:  # some file systems do not count inodes
        enough = space.f_favail >= LEAST_FREE_INODES
        free = min(space.f_favail, LEAST_FREE_INODES)
        text = f"room for {'more than' if enough else 'only'} {free} files in the run root"
        yield CheckResult(enough, "inodes", text, hint)


def check_data(folder: str | None) -> Iterator[CheckResult | SameOnAllNodes]:
    if not folder:
        return
    try:
        entries = len(os.listdir(folder))
    except OSError as error:
        hint = "set storage.data to a folder that every node can read"
        yield CheckResult(False, "data", f"data folder {folder}: {error.strerror}", hint)
        return
    yield CheckResult(True, "data", f"data folder {folder} is readable")
    hint = "copy the same data to every node, or use shared storage"
    yield SameOnAllNodes("data", f"data folder with {entries} entries", hint)


def check_gpus(found: list[gpus.Gpu] | None, wanted: int) -> Iterator[CheckResult | SameOnAllNodes]:
    """Check that enough GPUs are free. found: this node's GPUs, or None if only torch can tell"""
    from ..system import gpus

    if found is None:
        return
    busy = [gpu for gpu in found if not gpu.is_free]
    text = f"free GPUs: {len(found) - len(busy)} of {len(found)}"
    if len(found) - len(busy) >= wanted:
        yield CheckResult(True, "gpus", f"{text}, required: {wanted}")
    elif len(found) < wanted:
        yield CheckResult(False, "gpus", f"GPUs visible to the driver: {len(found)}, required: {wanted}", gpus.HINT)
    else:
        hint = "kill processes of old runs (see `nvidia-smi` or `rocm-smi --showpids`); or use other nodes"
        yield CheckResult(
            False, "gpus", f"{text}, required: {wanted}: {'; '.join(gpu.use_description for gpu in busy)}", hint
        )
    kinds = sorted({gpu.name for gpu in found})
    if kinds:
        hint = "choose nodes of one type with queue.nodelist or hosts; the slowest node limits the speed"
        yield SameOnAllNodes("gpu", f"GPU {', '.join(kinds)}", hint)


def check_torch(wanted: int) -> Iterator[CheckResult | SameOnAllNodes]:
    """Import torch in a subprocess, and check its version and GPUs. Broken torch installations are common."""
    try:
        process = subprocess.run(
            [sys.executable, "-c", ASK_TORCH],
            cwd="/",  # because Python with -c imports from the working directory first
            check=False,
            capture_output=True,
            text=True,
            timeout=TORCH_TIMEOUT_S,
        )
        version, path, devices, nccl = json.loads(process.stdout.splitlines()[-1])
    except subprocess.TimeoutExpired:
        text = f"torch: `import torch` took more than {TORCH_TIMEOUT_S} s"
        yield CheckResult(False, "torch", text, "check whether the file system is slow")
        return
    except (IndexError, ValueError):
        why = (process.stderr.strip().splitlines() or ["no message"])[-1]
        hint = f"install torch for {sys.executable}, or activate another environment"
        yield CheckResult(False, "torch", f"torch: {why}", hint)
        return
    yield CheckResult(True, "torch", f"torch {version} at {Path(path).parent}")
    yield SameOnAllNodes("torch", f"torch {version}", SAME_ENVIRONMENT)
    if nccl:
        yield SameOnAllNodes("nccl", f"NCCL {nccl}", SAME_ENVIRONMENT)
    if wanted:
        from ..system import gpus

        yield CheckResult(devices >= wanted, "devices", gpus.describe_usable_gpus(devices, wanted), gpus.HINT)
