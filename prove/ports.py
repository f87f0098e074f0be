"""Several jobs want the same port on one machine, or a port is in use: every job starts anyway."""

from __future__ import annotations

import contextlib
import random
import re
import socket
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from jobc.runtime.network.head_port import CANDIDATES

from .campaign import Campaign, expect, k_of_n_by
from .job import Job

KINDS = ("two jobs of one port", "a port in use")
PROGRAM = Path(__file__).with_name("bed_program.py")


def run(number: int, folder: Path) -> dict[str, Any]:
    """Run a trial.

    The port is derived from the run's name, so runs with the same name in two folders have the same port.
    """
    kind = KINDS[number % len(KINDS)]
    name = f"trial-{number}"
    derived = CANDIDATES[zlib.crc32(f"{name}/0".encode()) % len(CANDIDATES)]
    launcher = ["launcher=spawn"]
    command = ["python3", str(PROGRAM), "meets"]
    if kind == KINDS[0]:
        with Job(folder / "one", launcher, command) as first, Job(folder / "two", launcher, command) as second:
            first.submit("--run-id", name)
            second.submit("--run-id", name)
            jobs = [first, second]
            codes = [job.code() for job in jobs]
    else:
        with Job(folder, launcher, command) as job, listener(derived, random.Random(number)):
            job.submit("--run-id", name)
            jobs, codes = [job], [job.code()]
    output = " | ".join(job.output()[-300:] for job in jobs)
    ports = sorted(map(int, re.findall(r"up at port (\d+)", output)))
    measured = {"kind": kind, "derived": derived, "ports": ports, "codes": codes}
    expect(not any(codes), f"jobctl submit exited with {codes}: {output}", **measured)
    expect(derived in ports if kind == KINDS[0] else derived not in ports, "a different port was derived", **measured)
    expect(len(set(ports)) == len(jobs), f"ports {ports}", **measured)
    return measured


@contextlib.contextmanager
def listener(port: int, chance: random.Random) -> Iterator[None]:
    """Start another program that listens on the port, on one of the usual kinds of address."""
    family, address = chance.choice(
        ((socket.AF_INET, "0.0.0.0"), (socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::"))
    )
    with socket.socket(family, socket.SOCK_STREAM) as server:
        server.bind((address, port))
        server.listen()
        yield


CAMPAIGN = Campaign(
    name="ports",
    claim=("A job starts even if another job derives the same port at the same time, or if the port is in use."),
    trial=(
        "starts a job with 2 ranks and without torch. Rank 0 listens on MASTER_PORT, and rank 1 must connect to it."
        " At the same moment, another job starts whose run has the same name, and hence the same port; or another"
        " program already listens on the derived port, on all addresses or on one."
    ),
    count=50,
    run=run,
    figure=k_of_n_by("kind"),
)
