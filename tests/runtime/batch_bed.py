"""A batch job on Slurm in a folder of its own, with stand-ins for srun, scontrol and scancel."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

from jobc.runtime.system.values import read_keys

PROGRAM = "import sys; from jobc.backends.slurm.engine.batch import main; sys.exit(main(sys.argv[1:]))"
SRUN = ("--", "srun", "--nodes=2", "bash", "launch.sh")
RUNNING = "JobState=RUNNING Restarts=0 PreemptTime=None"
ENDED = "mkdir -p $JOBC_RUN_DIR/exit/0; for node in 00 01; do echo CODE >$JOBC_RUN_DIR/exit/0/node_$node; done"


class Bed:
    """A run folder, and Slurm's clients, which write their words to `asked`."""

    def __init__(self, folder: Path, **settings: object) -> None:
        self.folder, self.run, self.bin = folder, folder / "runs/job/a", folder / "bin"
        artifact = self.run / "artifact/0"
        (artifact / ".jobc").mkdir(parents=True)
        (artifact / "launch.sh").write_text("")
        fixed = {
            "job": "job",
            "runs": "runs",
            "nodes": 2,
            "max_requeues": 1,
            "kill_after_s": 0.5,
            "step_tasks": "1(x2)",
        }
        (artifact / ".jobc/job.json").write_text(json.dumps({**fixed, **settings}))
        for name in ("state", "control", "bin"):
            (folder / name if name == "bin" else self.run / name).mkdir()
        (self.run / "state/run").write_text(f"job=job\nproject={folder}\n")
        self.client("scancel", "")
        self.client("scontrol", f"echo '{RUNNING}'")
        self.tasks(ENDED.replace("CODE", "0"))

    def client(self, name: str, lines: str) -> None:
        (self.bin / name).write_text(f'#!/bin/bash\necho "{name} $*" >>{self.folder}/asked\n{lines}\n')
        (self.bin / name).chmod(0o755)

    def tasks(self, lines: str, check: str = "") -> None:
        """Fake of srun: how the tasks exit, and which nodes cannot read the run folder."""
        self.client("srun", f'if [[ $* == *"bash -c"* ]]; then\n:\n{check}\nexit\nfi\n{lines}')

    def start(self, *words: str, **env: str) -> subprocess.Popen[str]:
        outer = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM_", "JOBC_"))}
        ours = {"PATH": f"{self.bin}:{os.environ['PATH']}", "HOME": str(self.folder), "SLURM_JOB_ID": "7"}
        command = [sys.executable, "-c", PROGRAM, *(words or (str(self.run), "0")), *SRUN]
        pipe = subprocess.PIPE
        return subprocess.Popen(
            command, cwd=self.folder, env={**outer, **ours, **env}, stdout=pipe, stderr=subprocess.STDOUT, text=True
        )

    def __call__(self, *words: str, **env: str) -> tuple[int, str]:
        process = self.start(*words, **env)
        printed, _ = process.communicate(timeout=30)
        return process.returncode, printed

    def recorded(self, attempt: int = 0) -> tuple[str, str]:
        keys = read_keys(self.run / f"state/job_{attempt}")
        assert keys["job_id"] == "7"
        return keys["exit"], keys["reason"]

    def asked(self) -> list[str]:
        return (self.folder / "asked").read_text().splitlines()

    def wait_for(self, file: str) -> None:
        until = time.monotonic() + 20
        while not (self.run / file).exists():
            assert time.monotonic() < until, file
            time.sleep(0.05)
