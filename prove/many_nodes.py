"""A job with 10,000 nodes compiles as fast as one with 2; a start on 1,000 hosts respects its limit on connections."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jobc.compiler.pipeline.compile import compile_job, write_compiled_job
from jobc.compiler.pipeline.types import CompileRequest

from .campaign import Campaign, Line, expect

MANY, PAIRS = 10_000, 9
MOST_RATIO, MOST_BYTES = 1.5, 40
HOSTS, FANOUT = 1_000, 32
KINDS = ("ssh", "pdsh", "slurm", "fan-out of ssh")
STAND_IN = f"""#!{sys.executable}
# ssh, as far as the number of connections at once goes: each takes 30 ms
import os, sys, time
mine = os.path.join(os.environ["CONNECTIONS"], str(os.getpid()))
open(mine, "w").close()
print(len(os.listdir(os.environ["CONNECTIONS"])), file=open(os.environ["CONNECTIONS"] + ".log", "a"))
time.sleep(0.03)
os.unlink(mine)
sys.exit(1)
"""


def run(number: int, folder: Path) -> dict[str, Any]:
    kind = KINDS[number % len(KINDS)]
    return {"kind": kind, **(fan_out(folder) if kind == KINDS[-1] else compiled(kind, folder, PAIRS))}


def compiled(backend: str, folder: Path, pairs: int, most_ratio: float = MOST_RATIO) -> dict[str, Any]:
    """Return the CPU seconds of compiling and writing, for few and many nodes in turn."""
    times: dict[int, list[float]] = {2: [], MANY: []}
    for pair in range(pairs + 1):
        for nodes, cpu_seconds in times.items():
            hosts = [] if backend == "slurm" else [f"hosts=node[00001-{nodes:05}]"]
            words = ("name=big", f"backend={backend}", f"nodes={nodes}", *hosts)
            started = time.process_time()
            artifact = write_compiled_job(compile_job(CompileRequest(words, ("train.py",))), folder / f"{nodes}.{pair}")
            if pair:  # the first pair includes the imports
                cpu_seconds.append(time.process_time() - started)
    files = {
        nodes: sorted(path for path in (folder / f"{nodes}.{pairs}").rglob("*") if path.is_file()) for nodes in times
    }
    sizes = {nodes: sum(path.stat().st_size for path in paths) for nodes, paths in files.items()}
    ratio = statistics.median(times[MANY]) / statistics.median(times[2])
    growth = (sizes[MANY] - sizes[2]) / (MANY - 2)
    measured = {"ratio": round(ratio, 3), "seconds": round(statistics.median(times[MANY]), 3)}
    measured |= {"bytes_per_node": round(growth, 1), "files": len(files[MANY])}
    expect(artifact.exists() and len(files[2]) == len(files[MANY]), "a different number of files", **measured)
    expect(growth <= MOST_BYTES, f"{growth:.1f} more bytes per node", **measured)
    expect(ratio <= most_ratio, f"{ratio:.2f} times the time", **measured)
    return measured


def fan_out(folder: Path) -> dict[str, Any]:
    """Run `jobctl smoke`, which first contacts every host.

    A stand-in for ssh counts the concurrent connections and then fails.
    """
    words = ("name=big", "backend=ssh", f"nodes={HOSTS}", f"hosts=node[0001-{HOSTS:04}]", f"backend.fanout={FANOUT}")
    artifact = write_compiled_job(compile_job(CompileRequest(words, ("train.py",))), folder)
    (folder / "bin").mkdir()
    (folder / "bin" / "ssh").write_text(STAND_IN)
    (folder / "bin" / "ssh").chmod(0o755)
    connections = folder / "connections"
    connections.mkdir()
    started = time.monotonic()
    path = f"{folder}/bin:/usr/local/bin:/usr/bin:/bin"
    subprocess.run(
        [artifact / "jobctl", "smoke"], env={"PATH": path, "CONNECTIONS": str(connections)}, check=False,
        capture_output=True, timeout=600,
    )  # fmt: skip
    counts = [int(line) for line in (folder / "connections.log").read_text().split()]
    measured = {"hosts": len(counts), "most_at_once": max(counts), "seconds": round(time.monotonic() - started, 1)}
    expect(len(counts) == HOSTS, f"{len(counts)} of {HOSTS} hosts were contacted", **measured)
    expect(max(counts) <= FANOUT, f"{max(counts)} concurrent connections", **measured)
    return measured


def figure(lines: Sequence[Line]) -> str:
    ratios = [
        f"{line['kind']} {line['ratio']:.2f} and {line['bytes_per_node']:.1f} B" for line in lines if "ratio" in line
    ]
    waves = [f"at most {line['most_at_once']} of {line['hosts']} at once" for line in lines if "hosts" in line]
    return f"{sum(line['ok'] for line in lines)} of {len(lines)}: {', '.join([*ratios, *waves])}"


CAMPAIGN = Campaign(
    name="many_nodes",
    claim=(
        f"A job with {MANY:,} nodes compiles within {MOST_RATIO} times the CPU time of a job with 2, into the same"
        f" number of files, with at most {MOST_BYTES} more bytes per node. {HOSTS:,} hosts are contacted {FANOUT} at a"
        " time."
    ),
    trial=(
        f"compiles and writes a job with 2 nodes and one with {MANY:,} nodes in turn, {PAIRS} times each, in one"
        f" process that has done both before, and compares the medians; or contacts {HOSTS:,} hosts through a stand-in"
        " for ssh that counts connections."
    ),
    count=len(KINDS),
    run=run,
    figure=figure,
)
