"""The second half of `make demo`: compile a job, run it with 2 processes, and print where everything is.

Prints and runs what a user would type. The exit code is that of the commands, or 1 if the loss did not decrease.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

from jobc.trainer.loop.metrics import last_step_lines

ARTIFACT = Path("artifacts/demo/local")
RUNS = Path(os.environ.get("JOBC_RUN_ROOT", "runs")) / "demo"


def main() -> int:
    for command in (["jobc", "name=demo", "procs=2"], [f"{ARTIFACT}/jobctl", "submit"]):
        print(f"\n$ {' '.join(command)}", flush=True)
        status = subprocess.run(command, check=False).returncode
        if status:
            print(f"error: the command exited with status {status}", file=sys.stderr)
            return status
    run = max(path for path in RUNS.iterdir() if path.is_dir())  # run IDs begin with the time
    steps = last_step_lines(run / "metrics" / "rank_00.jsonl")
    first, last = float(str(steps[min(steps)]["loss"])), float(str(steps[max(steps)]["loss"]))
    activate = shlex.quote(str(Path(sys.prefix) / "bin" / "activate"))
    print(f"""
loss {first:.3f} at step {min(steps)}, {last:.3f} at step {max(steps)}

the artifact     {ARTIFACT}/    read launch.sh; jobctl help lists the verbs
this run         {run}/
  its logs       {run}/logs/
  its losses     {run}/metrics/rank_00.jsonl
  checkpoints    {run}/checkpoints/
  final weights  {run}/final/weights.pt
jobc itself      {Path(sys.prefix) / "bin" / "jobc"}    on PATH after: . {activate}""")
    if last >= first:
        print("error: the loss did not decrease", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
