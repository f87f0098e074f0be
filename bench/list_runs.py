"""Measure how long `jobc ls` takes for many runs: the whole command, from the start of Python to its last line.

    python bench/list_runs.py [--runs 1000] [--times 7] [--json]

Each run has an artifact, code, logs, 500 steps of metrics, and 3 checkpoints with 4 files each. One in ten is live on
another machine; the others have ended. Their files are in the kernel's page cache. On an idle machine, CPU time and
wall time are equal. Goal: the median CPU time for 1,000 runs is below 1 s.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).resolve().parent.parent / ".dev"  # the jobc of this checkout
GOAL_S = 1.0
METRICS = "".join(f'{{"step": {step}, "loss": {4 - step / 500}, "tokens_per_s": 12345.6}}\n' for step in range(500))
ENDED = "host=away\npid=1\nstart_ticks=1\nstarted=1\nattempt=0\nfirst_rank=0\nexit=0\nended=5\n"
LIVE = "host=away\npid=1\nstart_ticks=1\nstarted=1\nattempt=0\nfirst_rank=0\n"


def make_run(run: Path, state: str) -> None:
    files = {
        "state/run": f"job={run.parent.name}\ncreated=1\n",
        "state/node_00": state,
        "metrics/rank_00.jsonl": METRICS,
        "artifact/0/.jobc/job.json": json.dumps(
            {"job": run.parent.name, "backend": "local", "runs": "runs", "nodes": 1}
        ),
        **{f"artifact/0/{name}": "" for name in ("launch.sh", "jobctl", "spec.yaml", "train.json")},
        **{f"code/{number}.py": "" for number in range(10)},
        **{f"logs/{name}.log": "" for name in ("node_00", "rank_00")},
        **{f"checkpoints/step_{step:08}/{part}.pt": "" for step in (100, 200, 300) for part in range(4)},
    }
    for name, text in files.items():
        file = run / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")


def cpu_seconds() -> float:
    """Return the CPU time of the child processes that have been waited for."""
    times = os.times()
    return times.children_user + times.children_system


def measure(runs: int, times: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as scratch:
        for number in range(runs):
            make_run(Path(scratch) / f"runs/job_{number % 50}/r{number:04}", ENDED if number % 10 else LIVE)
        environment = {**os.environ, "PYTHONPATH": str(CHECKOUT), "JOBC_RUN_ROOT": f"{scratch}/runs"}
        wall, cpu = [], []
        for _ in range(times + 1):
            began, before = time.perf_counter(), cpu_seconds()
            done = subprocess.run(
                [sys.executable, "-m", "jobc", "ls"], cwd=scratch, env=environment, stdout=subprocess.PIPE, check=True
            )
            wall.append(time.perf_counter() - began)
            cpu.append(cpu_seconds() - before)
            assert done.stdout.count(b"\n") == runs + 1
    return {
        "runs": runs,
        "times": times,
        "cpu_s_median": round(statistics.median(cpu[1:]), 3),
        "wall_s_median": round(statistics.median(wall[1:]), 3),
    }


def show() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1000, help="run folders")
    parser.add_argument("--times", type=int, default=7, help="measurements, after one warm-up")
    parser.add_argument("--json", action="store_true", help="for programs")
    options = parser.parse_args()
    found = measure(options.runs, options.times)
    if options.json:
        print(json.dumps(found))
    else:
        print(f"jobc ls of {found['runs']} runs, {found['times']} times, medians in seconds")
        print(f"  CPU time   {found['cpu_s_median']:6.3f}   (goal: below {GOAL_S:.1f} for 1,000 runs)")
        print(f"  wall time  {found['wall_s_median']:6.3f}")
    return 0 if found["cpu_s_median"] < GOAL_S * options.runs / 1000 else 1


if __name__ == "__main__":
    sys.exit(show())
