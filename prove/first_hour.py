"""Do what a newcomer does first, using the commands that the README and jobc's messages print, and time each step."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jobc.tests.testbed import USER, Host, Shape
from jobc.tests.testbed.install import PATH

from .bed import cluster
from .campaign import Campaign, Line, expect

ROOT = Path(__file__).resolve().parent.parent
SHAPE = Shape(nodes=2, gpus_per_node=0)
TIMEOUT_S = 900
SCRIPT = """\
import json, os
rank, file = os.environ["RANK"], "seen.json"
seen = json.load(open(file)) if os.path.exists(file) else []
names = {0: "cat", 1: "dog"}
for step in range(len(seen), 3):
    print("rank", rank, "step", step, names[step], flush=True)
    seen.append(names[step])
    if rank == "0":
        json.dump(seen, open(file, "w"))
"""
MENDED = SCRIPT.replace('1: "dog"', '1: "dog", 2: "fox"')


def run(number: int, folder: Path) -> dict[str, Any]:
    walk = Walk(cluster(SHAPE, folder).login)
    walk.install()
    walk.project.mkdir()
    for backend, nodes in (("local", 1), ("slurm", 2)):
        (walk.project / "train.py").write_text(MENDED)
        said = walk.command(f"own script, {backend}", start(f"works-{backend}", backend, nodes))
        expect("step 2 fox" in said, f"the output is missing: {said}")

        (walk.project / "train.py").write_text(SCRIPT)
        said = walk.command(f"broken, {backend}", start(f"broken-{backend}", backend, nodes), code=1)
        expect("KeyError: 2" in said and 'train.py", line 6' in said, f"the mistake is not reported: {said}")
        status = walk.command(f"status, {backend}", f"jobc status artifacts/broken-{backend}/{backend}")
        resume = re.search(r"(?:^|`)\s*([^\n`]*--resume \S+ --new-code)", status, re.MULTILINE)
        expect(resume is not None and "KeyError: 2 (train.py:6)" in status, f"no command to continue in: {status}")

        (walk.project / "train.py").write_text(MENDED)
        wait = " --wait" if backend == "slurm" else ""
        said = walk.command(f"mended, {backend}", f"{resume[1].split(': ')[-1] if resume else ''}{wait}")
        expect("step 2 fox" in said and "step 0" not in said, f"it did not continue: {said}")
    return {"seconds": walk.seconds}


def start(name: str, backend: str, nodes: int) -> str:
    return f"jobc run name={name} backend={backend} nodes={nodes} procs={2 // nodes} -- train.py"


class Walk:
    """A user who is not root, with a new clone and a new project on one host.

    seconds: how long each step took
    """

    def __init__(self, host: Host) -> None:
        self.host, self.clone, self.project = host, host.home_of_user / "jobc", host.home_of_user / "first"
        self.seconds: dict[str, float] = {}

    def install(self) -> None:
        """Clone the repository and run `make demo`.

        This needs the network, so it runs in this process and not on the host.
        """
        started = time.monotonic()
        subprocess.run(["git", "clone", "--quiet", ROOT, self.clone], check=True)
        done = subprocess.run(
            ["make", "demo"], cwd=self.clone, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
        )
        expect(done.returncode == 0 and "final weights" in done.stdout, f"make demo: {done.stdout[-3000:]}")
        self.seconds["install and demo"] = round(time.monotonic() - started, 1)

    def command(self, step: str, line: str, code: int = 0) -> str:
        """Return the output of a command line, which must end with `code`."""
        subprocess.run(["chown", "-R", f"--reference={self.host.home_of_user}", self.project], check=True)
        environment = {"PATH": f"{self.clone}/.venv/bin:{PATH}", "COLUMNS": "80"}
        started = time.monotonic()
        done = self.host.run(
            ["bash", "-c", line],
            user=USER,
            cwd=self.project,
            env=environment,
            stderr=subprocess.STDOUT,
            timeout_s=TIMEOUT_S,
        )
        self.seconds[step] = round(time.monotonic() - started, 1)
        expect(done.returncode == code, f"{line}: exit code {done.returncode}: {done.stdout}")
        return str(done.stdout)


def figure(lines: Sequence[Line]) -> str:
    """Describe how many trials held, and how long each step took in the first of them."""
    held = [line["seconds"] for line in lines if line["ok"]]
    steps = ", ".join(f"{step} {seconds:.0f} s" for step, seconds in held[0].items()) if held else ""
    return f"{len(held)} of {len(lines)}: {steps}"


CAMPAIGN = Campaign(
    name="first_hour",
    claim=("A newcomer gets from a clone to a fixed and resumed run on Slurm with the commands that jobc prints."),
    trial=(
        "makes a new clone and runs `make demo`. The rest runs as an unprivileged user on one host of the test bed"
        " and on its Slurm. The user starts a script on 2 processes; starts one with a mistake, and must see the"
        " mistake and its line; asks for the status, which must print the command to continue; and fixes the script"
        " and runs that command, after which the run must continue where it was."
    ),
    count=1,
    run=run,
    figure=figure,
)
