"""Jobs for tests of backend kubernetes on the pod runner: an artifact, calls to its scripts, and its pods' storage.

In   a PodRunner, an empty folder, words of the spec
Out  a Job; its scripts call a real kubectl, and run on this machine
"""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from jobc.compiler.pipeline.compile import compile_job, write_compiled_job
from jobc.compiler.pipeline.types import CompileRequest
from jobc.tests.podrunner import KUBECTL, PodRunner
from jobc.tests.testbed import wait_for

MOUNT = "mounts=[{kind: claim, source: shared, target: /shared, read_only: false}]"
BASE = ("backend=kubernetes", "image=x", "storage.root=/shared/runs", MOUNT, "code=shared", "code.root=/shared")

PLAIN = (
    "nodes=2",
    "procs=2",
    "launcher=spawn",
    "lifecycle.grace=5s",
    "name=job",
    "backend.preflight=false",  # only one test has it, because it takes seconds
)
PROGRAM = """
import os, pathlib, signal, sys, time
rank, attempt = os.environ["RANK"], int(os.environ["JOBC_ATTEMPT"])
signal.signal(signal.SIGTERM, lambda *_: sys.exit(75))
print("up", attempt, flush=True)
if rank == "3" and attempt in map(int, sys.argv[3:]):
    logs = pathlib.Path(os.environ["JOBC_RUN_DIR"], "logs")
    while sum(f"up {attempt}" in log.read_text() for log in logs.glob("rank_*.log")) < 4:
        time.sleep(0.1)
    sys.exit(int(sys.argv[1]))
time.sleep(float(sys.argv[2]))
"""


def call_kubectl(runner: PodRunner, *words: str) -> str:
    """Return the output of kubectl, which must exit with 0."""
    environment = {**os.environ, "KUBECONFIG": str(runner.kubeconfig)}
    return subprocess.run([KUBECTL, *words], env=environment, check=True, capture_output=True, text=True).stdout


@dataclass
class Job:
    """An artifact, its scripts, and the storage that only its pods can access."""

    runner: PodRunner
    storage: Path
    artifact: Path

    def __call__(self, verb: str, *words: str) -> tuple[int, str]:
        path = f"{os.path.dirname(KUBECTL)}:{os.environ['PATH']}"
        environment = {**os.environ, "PATH": path, "KUBECONFIG": str(self.runner.kubeconfig)}
        command = [str(self.artifact / "jobctl"), verb, *words]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
        return done.returncode, done.stdout + done.stderr

    def resume(self) -> None:
        """Resume the run, and wait until the ranks of both nodes are up in attempt 1."""
        code, output = self("submit", "--resume", self.run.name)
        assert code == 0, output
        self.wait_until_up(4, attempt=1)

    def kubectl(self, *words: str) -> str:
        return call_kubectl(self.runner, *words)

    @property
    def name(self) -> str:
        """Return the name of the job's object."""
        name: str = json.loads((self.artifact / ".jobc/job.json").read_text())["creates"]["object"]
        return name

    @property
    def run(self) -> Path:
        """Return the run folder on the storage."""
        (run,) = self.storage.glob("runs/*/*")
        return run

    def wait_until_up(self, ranks: int, attempt: int) -> None:
        def are_up() -> bool:
            logs = self.storage.glob("runs/*/*/logs/rank_*.log")
            return sum(f"up {attempt}\n" in log.read_text() for log in logs) == ranks

        wait_for(are_up, f"{ranks} ranks of attempt {attempt}")

    def pods(self, phase: str = "") -> list[str]:
        """Return the pods' names."""
        label = "jobc/job"
        found = [pod for pod in self.runner.pods(phase) if pod["metadata"].get("labels", {}).get(label) == self.name]
        return [pod["metadata"]["name"] for pod in found]


class Rack:
    """Creates jobs in a folder, whose subfolder `storage` is behind their pods' claim `shared`."""

    def __init__(self, runner: PodRunner, folder: Path) -> None:
        self.runner, self.folder, self.storage = runner, folder, folder / "storage"
        self.storage.mkdir()
        runner.claims["shared"] = self.storage
        (self.storage / "program.py").write_text(PROGRAM)
        self.made: list[Job] = []

    def make(self, *words: str, program: str = "") -> Job:
        command = ("program.py", *program.split()) if program else None
        compiled = compile_job(CompileRequest((*BASE, *PLAIN, *words), command))
        artifact = write_compiled_job(compiled, self.folder / "project" / "artifacts", force=True)
        self.made.append(Job(self.runner, self.storage, artifact))
        return self.made[-1]

    def clear(self) -> None:
        """Remove all objects, so that the next test has free nodes."""
        call_kubectl(self.runner, "delete", "trainjobs,jobsets,jobs", "--all", "--cascade=foreground")
        for job in self.made:
            wait_for(lambda job=job: not job.pods(), "no pods")
