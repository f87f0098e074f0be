"""Write the first lines of every run, for all backends: job, nodes, rendezvous endpoint, GPUs.

run 20260131-120000-1f2e of job audio, attempt 0, slurm job 4711
4 nodes x 2 ranks = world size 8, on node[1-4]; rendezvous at node1:23456
GPUs of this node: 0 1 (NVIDIA H100 80GB HBM3)
warning: 2 ranks x 8 threads on 1 CPU core of this node: training will be slow; set cpus=16 or more, or fewer threads
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from ..system.text import format_count

DEVICES = Path("/dev")
KFD = Path("/sys/class/kfd/kfd/topology/nodes")  # AMD's driver: a folder for each CPU and GPU; gpu_id is 0 for CPUs
NVIDIA_SMI_S = 10.0  # nvidia-smi hangs if the driver is broken; jobctl preflight reports that


def run_header_lines(environ: Mapping[str, str]) -> Iterator[str]:
    """Yield the lines, from the JOBC_ variables that node.py and the backend set."""
    nodes, procs, job_id = int(environ["JOBC_NODES"]), int(environ["JOBC_PROCS"]), environ.get("JOBC_JOB_ID", "")
    engine = f", job {job_id} of the engine" if job_id and job_id != environ["JOBC_RUN_ID"] else ""
    yield f"run {environ['JOBC_RUN_ID']} of {environ['JOBC_JOB_NAME']}, attempt {environ['JOBC_ATTEMPT']}{engine}"
    hosts = environ["JOBC_NODE_LIST"]
    meet = f"{environ['JOBC_HEAD_ADDR']}:{environ['JOBC_HEAD_PORT']}"
    size = f"{format_count(nodes, 'node')} x {format_count(procs, 'rank')} = world size {nodes * procs}"
    yield f"{size}, on {hosts}; rendezvous at {meet}"
    if int(environ.get("JOBC_GPUS") or 0):
        yield f"GPUs of this node: {describe_gpus(environ) or 'none visible'}"


def warn_about_few_cores(environ: Mapping[str, str], ranks: int, cores: int) -> str:
    """Return a warning if the ranks that share these cores have more threads than there are cores, or "" otherwise."""
    threads = int(environ.get("OMP_NUM_THREADS") or 1)
    if cores >= ranks * threads:
        return ""
    demand = f"{format_count(ranks, 'rank')} x {format_count(threads, 'thread')}"
    given = f"{demand} on {format_count(cores, 'CPU core')} of this node"
    return f"warning: {given}: training will be slow; set cpus={ranks * threads} or more, or fewer threads"


def describe_gpus(environ: Mapping[str, str]) -> str:
    """Return the ranks' GPUs, as set by the engine or else as listed by the driver, with their names if known."""
    chosen = next((environ[v] for v in ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES") if environ.get(v)), "")
    listed = chosen.replace(",", " ") or " ".join(map(str, _gpu_numbers()))
    names = sorted(set(_gpu_names()))
    return f"{listed} ({', '.join(names)})" if listed and names else listed


def _gpu_numbers() -> list[int]:
    """Return the numbers of all GPUs on this node without calling a driver, which might hang."""
    files = [path.name.removeprefix("nvidia") for path in DEVICES.glob("nvidia[0-9]*")]
    amd = [file for file in KFD.glob("*/gpu_id") if file.read_text().strip() not in ("", "0")]
    return sorted(int(number) for number in files if number.isdigit()) or list(range(len(amd)))


def _gpu_names() -> list[str]:
    try:
        process = subprocess.run(
            ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"],
            check=False, capture_output=True, text=True, timeout=NVIDIA_SMI_S,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return []
    return process.stdout.splitlines() if process.returncode == 0 else []
