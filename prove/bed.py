"""Jobs on the test bed's hosts: compiled on this machine, started on the login host, and watched through files."""

from __future__ import annotations

import atexit
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from jobc.compiler.pipeline.compile import compile_job, write_compiled_job
from jobc.compiler.pipeline.types import CompileRequest
from jobc.tests.testbed import Cluster, Process, Seen, Shape, wait_for
from jobc.trainer.loop.metrics import last_step_lines, read_metrics

TIMEOUT_S = 180.0

WAYS = {
    "ssh": ("backend=ssh", "hosts=node[1-4]"),
    "pdsh": ("backend=pdsh", "hosts=node[1-4]"),
    "clush": ("backend=pdsh", "backend.client=clush", "hosts=node[1-4]"),
    "slurm": ("backend=slurm",),
}
ALL_WAYS = {**WAYS, "local": ("backend=local",), "accelerate": ("backend=accelerate", "hosts=node[1-4]")}

_up: dict[str, Cluster] = {}


def cluster(shape: Shape, folder: Path) -> Cluster:
    """Return a repaired cluster of that shape whose hosts can access `folder`.

    Only one cluster is running at a time. Trials in the same folder share it.
    """
    shape = replace(shape, visible=(*shape.visible, folder.parent))
    if repr(shape) in _up:
        _up[repr(shape)].mend()
    else:
        close()
        parent = Path(tempfile.mkdtemp(prefix="jobc-bed-"))
        parent.chmod(0o711)  # for the test bed's user, who is not root
        _up[repr(shape)] = Cluster(parent / "rack", shape)
    return _up[repr(shape)]


@atexit.register
def close() -> None:
    """Stop the cluster and remove its files. A failed trial's files remain in the trial's own folder."""
    while _up:
        _, old = _up.popitem()
        old.close()
        shutil.rmtree(old.folder.parent, ignore_errors=True)


@dataclass
class BedJob:
    """One artifact in a project folder that all hosts can access."""

    cluster: Cluster
    project: Path
    way: str
    artifact: Path
    follower: Process | None = None

    @classmethod
    def make(
        cls, cluster: Cluster, project: Path, way: str, *overrides: str, command: Sequence[str] | None = None
    ) -> BedJob:
        """Compile a job.

        command: the words of the command. If the first word is a file in prove/, the file is copied into the project.
        """
        project.mkdir(parents=True, exist_ok=True)
        if command:
            source = Path(__file__).with_name(command[0])
            (project / source.name).write_text(source.read_text())
        base = (*ALL_WAYS[way], "name=proof", f"python.interpreter={sys.executable}", *overrides)
        compiled = compile_job(CompileRequest(base, tuple(command) if command else None))
        return cls(cluster, project, way, write_compiled_job(compiled, project / "artifacts"))

    def __call__(
        self,
        verb: str,
        *words: str,
        check: bool = False,
        timeout_s: float = TIMEOUT_S,
        env: Mapping[str, str] | None = None,
    ) -> tuple[int, str]:
        """Run one of the artifact's verbs on the login host, and return its exit code and output."""
        command = [str(self.artifact / "jobctl"), verb, *words]
        done = self.cluster.login.run(command, cwd=self.project, timeout_s=timeout_s, env=env)
        output = done.stdout + done.stderr
        if check and done.returncode:
            raise RuntimeError(f"{verb} exited with {done.returncode}: {output[-1500:]}")
        return done.returncode, output

    def start(self, *words: str, env: Mapping[str, str] | None = None) -> None:
        """Submit the job without waiting for it."""
        self("submit", *([] if self.way == "slurm" else ["--detach"]), *words, check=True, env=env)

    def follow(self) -> None:
        """Submit the job in the foreground, like a user who watches it.

        Ctrl-C works even if this program was started with `&`.
        """
        command = [str(self.artifact / "jobctl"), "submit"]
        self.follower = self.cluster.login.popen(
            ["env", "--default-signal=INT", *command], cwd=self.project, stdout=subprocess.DEVNULL
        )

    @property
    def run(self) -> Path:
        """Return the folder of the job's only run."""
        (run,) = (file.parents[1] for file in self.project.glob("runs/*/*/state/run"))
        return run

    def host(self, node: int) -> str:
        """Return the name of this node's host in the newest attempt."""
        return keys(self.run / f"state/node_{node:02}")["host"]

    @property
    def job_id(self) -> str:
        """Return Slurm's job ID for the newest attempt."""
        files = [file for file in self.run.glob("state/job_*") if "." not in file.name]  # not one being written
        return keys(max(files, key=lambda file: int(file.name.split("_")[1])))["job_id"]

    def state(self) -> str:
        """Return the job's state in Slurm, such as RUNNING or PENDING, or "" if Slurm has no record of the job."""
        if self.way != "slurm":
            return ""
        output = self.cluster.login.run(["scontrol", "show", "job", self.job_id]).stdout
        match = re.search(r"JobState=(\w+)", output)
        return match[1] if match else ""

    def is_over(self) -> bool:
        return self("status")[1].count("live") == 0 and self.state() not in ("RUNNING", "COMPLETING", "PENDING")

    def steps(self) -> list[tuple[int, int]]:
        """Return (attempt, step) for each training step that rank 0 has completed, in chronological order."""
        file = self.run / "metrics" / "rank_00.jsonl"
        lines = [line for line in read_metrics(file) if "loss" in line] if file.exists() else []
        return [(int(str(line["attempt"])), int(str(line["step"]))) for line in lines]

    def losses(self) -> list[object]:
        return losses(self.run)

    def weights(self) -> str:
        return weights(self.run)

    def wait(self, condition: Callable[[], bool], what: str, timeout_s: float = TIMEOUT_S) -> None:
        try:
            wait_for(condition, what, timeout_s)
        except Exception as error:
            raise RuntimeError(f"{error}; {self('status')[1]}{self.said()[-2500:]}") from error

    def wait_for_rank_words(self, ranks: int, word: str) -> None:
        """Wait until each rank's log contains the word."""

        def have_said() -> bool:
            logs = self.project.glob("runs/*/*/logs/rank_*.log")
            return sum(word in text(log) for log in logs) == ranks

        self.wait(have_said, f"{word!r} of {ranks} ranks")

    def said(self) -> str:
        """Return the logs of the job and of its nodes."""
        logs = sorted([*self.run.glob("logs/slurm-*.log"), *self.run.glob("logs/node_*.log")])
        return "".join(f"--- {log.name}\n{text(log)[-1500:]}" for log in logs)

    def nodes_with_processes(self) -> list[str]:
        return [host.hostname for host in self.cluster.nodes if any(map(self.has_started, host.processes()))]

    def has_started(self, seen: Seen) -> bool:
        """Return whether the process belongs to this job. An engine's own daemons do not."""
        return str(self.project) in seen.command or seen.environment.get("JOBC_RUN_DIR", "").startswith(
            str(self.project)
        )


def losses(run: Path) -> list[object]:
    """Return the exact losses of every training step of a run, in order."""
    return [line["loss_hex"] for _, line in sorted(last_step_lines(run / "metrics" / "rank_00.jsonl").items())]


def weights(run: Path) -> str:
    """Return the hash that is printed at the end of training."""
    log = text(run / "logs" / "node_00.log")
    hashes: list[str] = re.findall(r"sha256 (\w{64})", log)
    if not hashes:
        raise RuntimeError(f"no weights: {log[-1500:]}")
    return hashes[-1]


def text(file: Path) -> str:
    return file.read_text(errors="replace") if file.exists() else ""


def keys(file: Path) -> dict[str, str]:
    """Read a `key=value` file."""
    return dict(line.split("=", 1) for line in file.read_text().splitlines() if "=" in line)
