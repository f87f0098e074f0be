"""Run all checks on one node before a run, even if some fail. engines/check_table.py merges all nodes' results.

Usage: jobctl node_checks --procs N --gpus N --port N --run-root FOLDER [--torch] [--code FOLDER] [-- COMMAND…]
       Runs in the job's environment and its code folder; reads JOBC_NODES, JOBC_NODE_RANK, JOBC_HEAD_ADDR and
       JOBC_RUN_DIR.
Out:   lines of tab-separated fields, the last of which is `end`:
         ok    ID TEXT "" NUMBER   NUMBER is optional: the table prints the lowest one, with its node
         FAIL  ID TEXT HINT
         same  ID VALUE HINT       VALUE must be the same on all nodes
         name  NAME                the node's name, if the engine has one
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from ..network import head_port

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


class Check(NamedTuple):
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


def main(argv: list[str]) -> int:
    options = parser().parse_args(argv)
    good = True
    if name := os.environ.get("JOBC_NODE_NAME"):  # the engine's name for this node
        print(f"name\t{name}", flush=True)
    for result in run_all_checks(options):
        good = good and (isinstance(result, SameOnAllNodes) or result.good)
        print(result_as_line(result), flush=True)
    print("end", flush=True)
    return 0 if good else 1


def parser() -> argparse.ArgumentParser:
    argument_parser = argparse.ArgumentParser(prog="node_checks", description="checks of this node before a run")
    argument_parser.add_argument("--procs", type=int, required=True, help="processes on this node")
    argument_parser.add_argument("--port", type=int, required=True, help="rendezvous port; 0 = chosen at the start")
    argument_parser.add_argument("--run-root", type=Path, required=True, help="folder for the runs")
    argument_parser.add_argument(
        "--apart",
        action="store_true",
        help="nodes have no shared folder for the network test; jobctl smoke tests the network",
    )
    argument_parser.add_argument("--gpu-type", default="", help="type of every GPU; none = any")
    argument_parser.add_argument("--torch", action="store_true", help="torch is needed")
    argument_parser.add_argument("--code", type=Path, help="folder with each node's own copy of the code")
    argument_parser.add_argument("--profile", default="auto", help="network.profile of the job")
    argument_parser.add_argument(
        "--interface", default="", help="comma-separated names; none = the interface that leads to node 0"
    )
    argument_parser.add_argument("--gpus", type=int, default=0, help="GPUs on this node; NCCL is only used with GPUs")
    argument_parser.add_argument("command", nargs="*", help="command that each rank will run")
    return argument_parser


def result_as_line(found: Check | SameOnAllNodes) -> str:
    """Return one result as a line of tab-separated fields."""
    if isinstance(found, SameOnAllNodes):
        fields = ["same", found.id, found.value, found.hint]
    else:
        number = "" if found.number is None else f"{found.number:g}"
        fields = ["ok" if found.good else "FAIL", found.id, found.text, "" if found.good else found.hint, number]
    return "\t".join(" ".join(field.split()) for field in fields)


def run_all_checks(asked: argparse.Namespace) -> Iterator[Check | SameOnAllNodes]:
    """Run all checks and yield their results. Checks that other nodes wait for come first."""
    nodes, rank = int(os.environ["JOBC_NODES"]), int(os.environ["JOBC_NODE_RANK"])
    if nodes == 1:
        yield check_port(asked.port)
        yield from checks_of_this_node(asked)
        return
    from .peer_checks import check_with_peers  # packed only in jobs with several nodes

    yield from check_with_peers(asked, nodes, rank)


def checks_of_this_node(asked: argparse.Namespace) -> Iterator[Check | SameOnAllNodes]:
    version = sys.version.split()[0]
    yield Check(True, "python", f"python {version} at {sys.executable}")
    yield SameOnAllNodes("python", "python " + ".".join(version.split(".")[:2]), SAME_ENVIRONMENT)
    yield from check_command(asked.command[:1] if asked.apart else asked.command)  # a script is sent with the run
    if asked.code:
        from .code_digest import compute_code_digest  # packed only in jobs with code=shared

        yield SameOnAllNodes(
            "code",
            f"code {compute_code_digest(asked.code)}",
            f"make {asked.code} the same on all nodes, for example with code=snapshot",
        )
    yield from check_run_root(asked.run_root)
    yield from check_data(os.environ.get("JOBC_DATA_DIR"))
    if asked.gpus:
        from .gpu_checks import check_gpus_of_type  # packed only in jobs with GPUs

        yield from check_gpus_of_type(asked.gpus, asked.gpu_type)
    if asked.torch:
        yield from check_torch(asked.gpus)
    yield check_cores(len(os.sched_getaffinity(0)), asked.procs)


def check_command(command: list[str]) -> Iterator[Check]:
    """Check that the program exists and, for `python FILE`, that the file does too."""
    if not command:
        return
    path = shutil.which(command[0])
    yield Check(bool(path), "program", f"program {command[0]}" + ("" if path else ": not found, or not executable"),
                "specify the program's path, or add its folder to PATH in the job's environment")  # fmt: skip
    if len(command) > 1 and "python" in Path(command[0]).name and command[1].endswith(".py"):
        is_file = Path(command[1]).is_file()
        problem = "" if is_file else f": no such file in {Path.cwd()}"
        yield Check(is_file, "script", f"script {command[1]}{problem}", "check the command and code.root of the spec")


def check_cores(cores: int, procs: int) -> Check:
    """Check the number of CPU cores. Up to 4 processes per core are allowed, although that is slow."""
    text = f"{cores} CPU core{'s' * (cores > 1)} for {procs} process{'es' * (procs > 1)}"
    if procs > cores:
        text += f", {round(procs / cores, 1):g} on each"
    most = MOST_PROCS_PER_CORE * cores
    return Check(procs <= most, "cores", text, f"procs={cores} for one on each core, procs={most} at most", cores)


def check_port(port: int) -> Check:
    if port == 0:
        return Check(True, "port", "rendezvous port: chosen at the start")
    text = f"rendezvous port {port}"
    if head_port.is_free(port):
        return Check(True, "port", f"{text} is free")
    hint = f"find the process with `ss -ltnp 'sport = :{port}'`, or choose another port"
    return Check(False, "port", f"{text} is in use", hint)


def check_run_root(root: Path) -> Iterator[Check]:
    """Check that the run root, or its nearest existing parent, is writable and has free space."""
    existing = next(folder for folder in (root, *root.parents) if folder.exists())
    try:
        with tempfile.NamedTemporaryFile(dir=existing, prefix=".jobc-probe-") as probe:  # other users may write there
            probe.write(b"\0" * PROBE_BYTES)
            probe.flush()
        yield Check(True, "root", f"run root {root} is writable")
    except OSError as error:
        hint = "set JOBC_RUN_ROOT to a writable folder with free space"
        yield Check(False, "root", f"run root {root}: {error.strerror} in {existing}", hint)
    space = os.statvfs(existing)
    free_gib = space.f_bavail * space.f_frsize / 2**30
    hint = "remove old runs or set JOBC_RUN_ROOT"
    yield Check(free_gib >= LEAST_FREE_GIB, "space", f"{free_gib:.1f} GiB free there", hint, free_gib)
    if space.f_files:  # some file systems do not count inodes
        enough = space.f_favail >= LEAST_FREE_INODES
        text = f"room for {'more than' if enough else 'only'} {min(space.f_favail, LEAST_FREE_INODES)} files there"
        yield Check(enough, "inodes", text, hint)


def check_data(folder: str | None) -> Iterator[Check | SameOnAllNodes]:
    if not folder:
        return
    try:
        entries = len(os.listdir(folder))
    except OSError as error:
        hint = "set storage.data to a folder that every node can read"
        yield Check(False, "data", f"data folder {folder}: {error.strerror}", hint)
        return
    yield Check(True, "data", f"data folder {folder} is readable")
    yield SameOnAllNodes(
        "data", f"data folder with {entries} entries", "copy the same data to every node, or use shared storage"
    )


def check_torch(wanted: int) -> Iterator[Check | SameOnAllNodes]:
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
        text, hint = (
            f"torch: `import torch` took more than {TORCH_TIMEOUT_S} s",
            "check whether the file system is slow",
        )
        yield Check(False, "torch", text, hint)
        return
    except (IndexError, ValueError):
        why = (process.stderr.strip().splitlines() or ["no message"])[-1]
        hint = f"install torch for {sys.executable}, or activate another environment"
        yield Check(False, "torch", f"torch: {why}", hint)
        return
    yield Check(True, "torch", f"torch {version} at {Path(path).parent}")
    yield SameOnAllNodes("torch", f"torch {version}", SAME_ENVIRONMENT)
    if nccl:
        yield SameOnAllNodes("nccl", f"NCCL {nccl}", SAME_ENVIRONMENT)
    if wanted:
        from .gpu_checks import check_devices  # packed only in jobs with GPUs

        yield check_devices(devices, wanted)
