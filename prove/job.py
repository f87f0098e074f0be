"""A job from its user's perspective: compiled by `jobc`, started by jobctl submit, watched through its run folder."""

from __future__ import annotations

import contextlib
import hashlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jobc.runtime.system.untrusted_files import Unreadable
from jobc.trainer.loop.metrics import last_step_lines, read_metrics

TIMEOUT_S = 600  # a generous timeout, not a claim, because the machine may be busy
STAND_IN = Path(__file__).resolve().with_name("stand_in.py")

# A GPT of 33,000 parameters that trains in a second. Dropout and accumulation have state that a resume could lose.
MICRO = (
    "model.layers=2", "model.width=32", "model.heads=2", "model.context=16", "model.dropout=0.1",
    "data.max_bytes=200000", "batch.micro=4", "batch.accumulation=2", "validation.max_samples=64",
    "metrics.flush_s=0",
)  # fmt: skip


@dataclass
class Job:
    """A job, compiled in `folder` from overrides and a command or the trainer."""

    folder: Path
    overrides: Sequence[str]
    command: Sequence[str] = ()
    procs: int = 2
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def __enter__(self) -> Job:
        self.compile()
        return self

    def compile(self) -> None:
        """Compile into the same artifact. Called again after `procs` has changed."""
        self.folder.mkdir(parents=True, exist_ok=True)
        words = ["name=proof", f"procs={self.procs}", *self.overrides, *(["--", *self.command] if self.command else [])]
        jobc = str(Path(sys.executable).with_name("jobc"))
        done = subprocess.run(
            [jobc, *words], cwd=self.folder, env=self.environment(), capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise RuntimeError(f"jobc exited with {done.returncode}: {done.stderr}")

    def __exit__(self, *_: object) -> None:
        """Kill everything that a trial left running. When the supervisor dies, the keeper ends the rest."""
        for process in self.started:
            if process.poll() is None:
                process.kill()
                process.wait()

    def environment(self) -> dict[str, str]:
        """Return the caller's environment, with this Python first on PATH.

        Variables that an outer run or a profile would add are left out.
        """
        outer = {k: v for k, v in os.environ.items() if not k.startswith(("JOBC_", "TORCHELASTIC_", "PET_"))}
        path = f"{Path(sys.executable).parent}{os.pathsep}{outer['PATH']}"
        return {**outer, "PATH": path, "XDG_CONFIG_HOME": str(self.folder / "no_config"), "MARKS": str(self.marks)}

    @property
    def marks(self) -> Path:
        """Return where stand_in.py writes its observations."""
        folder = self.folder / "marks"
        folder.mkdir(exist_ok=True)
        return folder

    @property
    def run_folder(self) -> Path:
        (run,) = (self.folder / "runs" / "proof").iterdir()
        return run

    # ---- start, watch, end

    def submit(self, *arguments: str) -> subprocess.Popen[bytes]:
        """Run jobctl submit in its own session, with its output in a file."""
        with (self.folder / f"output_{len(self.started)}.log").open("wb") as output:
            process = subprocess.Popen(
                [str(self.folder / "artifacts/proof/local/jobctl"), "submit", *arguments],
                env=self.environment(), stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                start_new_session=True,
            )  # fmt: skip
        self.started.append(process)
        return process

    def resume(self) -> subprocess.Popen[bytes]:
        return self.submit("--resume", self.run_folder.name)

    def code(self) -> int:
        """Wait for the last jobctl submit, and return its exit code."""
        return self.started[-1].wait(TIMEOUT_S)

    def output(self) -> str:
        """Return the output of the last jobctl submit."""
        return (self.folder / f"output_{len(self.started) - 1}.log").read_text(errors="replace")

    def wait_for(self, condition: Callable[[], bool], what: str, pause_s: float = 0.02) -> None:
        """Wait for a condition. Raises if jobctl submit ends first, or after TIMEOUT_S."""
        deadline = time.monotonic() + TIMEOUT_S
        while not condition():
            if self.started[-1].poll() is not None and not condition():
                raise RuntimeError(f"jobctl submit exited with {self.code()} before {what}: {self.output()[-2000:]}")
            if time.monotonic() > deadline:
                raise RuntimeError(f"waited {TIMEOUT_S} s for {what}: {self.output()[-2000:]}")
            time.sleep(pause_s)

    def wait_for_marks(self, *names: str) -> None:
        self.wait_for(lambda: all((self.marks / name).exists() for name in names), f"marks {names}")

    def wait_for_step(self, step: int) -> None:
        """Wait until rank 0 has completed `step` or a later one in this attempt, or the attempt has succeeded."""
        attempt = len(self.started) - 1
        self.wait_for(
            lambda: max(self.steps(attempt), default=0) >= step or self.started[-1].poll() == 0,
            f"step {step}",
            pause_s=0.001,
        )

    # ---- what a run left

    def metrics(self, rank: int = 0) -> Path:
        return self.run_folder / "metrics" / f"rank_{rank:02}.jsonl"

    def steps(self, attempt: int | None = None) -> list[int]:
        """Return the steps that rank 0 has completed, in chronological order, in all attempts or in one."""
        with contextlib.suppress(FileNotFoundError, Unreadable, ValueError):  # ValueError: there is no run folder yet
            lines = [line for line in read_metrics(self.metrics()) if "loss" in line]
            return [int(str(line["step"])) for line in lines if attempt in (None, line["attempt"])]
        return []

    def result(self) -> dict[str, Any]:
        """Return every rank's exact losses in a finished training, and the hash of the weights."""
        losses = [
            [line["loss_hex"] for _, line in sorted(last_step_lines(self.metrics(rank)).items())]
            for rank in range(self.procs)
        ]
        weights = (self.run_folder / "final" / "weights.pt").read_bytes()
        return {"losses": losses, "sha256": hashlib.sha256(weights).hexdigest()}

    def trained(self) -> dict[str, Any]:
        """Train without interruption, and return the result."""
        self.submit()
        if self.code():
            raise RuntimeError(f"jobctl submit exited with {self.code()}: {self.output()[-2000:]}")
        return self.result()


def state_pid(run: Path, name: str) -> int:
    """Return the process ID in state/NAME, such as node_00 (the supervisor) or rank_01 (rank 1's wrapper)."""
    keys = dict(line.split("=", 1) for line in (run / "state" / name).read_text().splitlines())
    return int(keys["pid"])


def descendants(pid: int) -> list[int]:
    """Return all descendants of `pid`, parents first."""
    pids = []
    with contextlib.suppress(OSError):
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            pids += [int(child), *descendants(int(child))]
    return pids


def is_running(pid: int) -> bool:
    """Return whether the process exists and is not a zombie."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    return False


def kill(pid: int) -> bool:
    """Send SIGKILL, and return whether the process existed."""
    struck = is_running(pid)
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    return struck
