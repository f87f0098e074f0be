"""A rank is killed, and all ranks are restarted in place: by torchrun in several ways, and by jobc's supervisors."""

from __future__ import annotations

import os
import random
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jobc.tests.testbed import Shape

from .bed import BedJob, cluster
from .campaign import Campaign, Line, expect, k_of_n_by
from .job import Job

PROGRAM = Path(__file__).with_name("gloo_program.py")
STEPS = 10
TIMEOUT_S = 60
UNSHARED = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
C10D = ("--rdzv-backend=c10d", "--rdzv-endpoint=127.0.0.1:{port}", "--rdzv-id=trial")
STATIC = ("--master-addr=127.0.0.1", "--master-port={port}")
TORCHRUN: dict[str, tuple[tuple[str, ...], dict[str, str], tuple[str, ...]]] = {
    "torchrun static": (STATIC, {}, ()),
    "torchrun c10d": (C10D, {}, ()),
    "torchrun static, store not shared": (STATIC, UNSHARED, ()),
    "torchrun c10d, store not shared": (C10D, UNSHARED, ()),
    "torchrun c10d, prefix by restart": (C10D, {}, ("prefix",)),
}
OURS = ("jobc with torchrun", "jobc with spawn", "jobc with torchrun on 2 hosts")
KINDS = (*OURS, *TORCHRUN)


def run(number: int, folder: Path) -> dict[str, Any]:
    """Run a trial. torchrun's ways are measured without a claim: such a trial holds if it produced a result."""
    kind = KINDS[number % len(KINDS)]
    chance = random.Random(number)
    words = [str(STEPS), str(chance.choice((0, 1))), str(chance.randrange(STEPS))]
    started = time.monotonic()
    if kind in TORCHRUN:
        recovered, output = with_torchrun(kind, words, folder)
        return {"kind": kind, "recovered": recovered, "seconds": round(time.monotonic() - started, 1), "said": output}
    if kind.endswith("hosts"):
        code, output = on_hosts(words, folder)
    else:
        with Job(folder, [f"launcher={kind.split()[-1]}", "lifecycle.max_restarts=1"], program(words)) as job:
            job.submit()
            code, output = job.code(), job.output()
    measured = {"kind": kind, "recovered": code == 0, "seconds": round(time.monotonic() - started, 1)}
    expect(code == 0, f"jobctl submit exited with {code}: {output[-800:]}", **measured)
    expect("restart 1 of 1" in output, f"nothing was restarted: {output[-800:]}", **measured)
    return measured


def program(words: Sequence[str]) -> list[str]:
    return ["python3", str(PROGRAM), *words]


def with_torchrun(kind: str, words: Sequence[str], folder: Path) -> tuple[bool, str]:
    """Run two ranks on this machine. Return whether they succeeded, and the error message if they did not."""
    options, environment, extra_words = TORCHRUN[kind]
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [
        sys.executable, "-m", "torch.distributed.run", "--nnodes=1", "--nproc-per-node=2", "--max-restarts=1",
        "--monitor-interval=0.1", *(option.format(port=port) for option in options), str(PROGRAM), *words, *extra_words,
    ]  # fmt: skip
    environ = {**os.environ, **environment, "MARKS": str(folder), "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(
        command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    ) as process:
        try:
            output, _ = process.communicate(timeout=TIMEOUT_S)
        except subprocess.TimeoutExpired:
            for pid in descendants(process.pid):
                os.kill(pid, signal.SIGKILL)
            process.communicate()
            return False, f"hung for {TIMEOUT_S} s"
    errors = [line for line in output.splitlines() if "Error" in line and "Traceback" not in line]
    return process.returncode == 0, "" if process.returncode == 0 else re.sub(
        r"/\S*/", "", (errors or [output])[0].strip()
    )[-200:]


def descendants(pid: int) -> list[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(descendant for child in children for descendant in descendants(int(child)))]


def on_hosts(words: Sequence[str], folder: Path) -> tuple[int, str]:
    bed = cluster(Shape(nodes=2, gpus_per_node=0), folder)
    overrides = ("nodes=2", "procs=1", "hosts=node[1-2]", "lifecycle.max_restarts=1", "env.GLOO_SOCKET_IFNAME=eth0")
    job = BedJob.make(bed, folder, "ssh", *overrides, f"env.MARKS={folder}", command=("gloo_program.py", *words))
    return job("submit")


def figure(lines: Sequence[Line]) -> str:
    counted = [{**line, "ok": line.get("recovered", False)} for line in lines]
    return k_of_n_by("kind")(sorted(counted, key=lambda line: KINDS.index(line.get("kind", KINDS[0]))))


CAMPAIGN = Campaign(
    name="restarts",
    claim=(
        "With lifecycle.max_restarts=1, a program whose rank is killed is restarted and finishes. (torchrun's own"
        " --max-restarts is measured for comparison; see [decision 3](../decisions/0003-restarts.md).)"
    ),
    trial=(
        f"runs {STEPS} all_reduces with gloo on 2 ranks, one of which is killed once with SIGKILL before a random"
        " step. jobc starts the ranks on this machine with torchrun or spawn, or over ssh on 2 hosts of the test"
        f" bed. torchrun alone, with --max-restarts=1 and static or c10d rendezvous, has a timeout of {TIMEOUT_S} s."
    ),
    count=20 * len(KINDS),
    run=run,
    figure=figure,
)
