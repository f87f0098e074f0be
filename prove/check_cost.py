"""Measure the cost of the rules in `jobc check`, relative to the same command without rules."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .campaign import Campaign, Line, expect

BENCH = Path(__file__).resolve().parent.parent / "bench" / "check_cost.py"
PAIRS = 101
GOAL = 1.10


def run(number: int, folder: Path) -> dict[str, Any]:
    command = [sys.executable, str(BENCH), "--json", "--pairs", str(PAIRS)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    expect(done.returncode in (0, 1), done.stderr[-500:])
    measured: dict[str, Any] = json.loads(done.stdout)
    low, high = measured["ratio_low"], measured["ratio_high"]
    expect(high <= GOAL, f"median ratio {measured['ratio_median']} ({low} to {high})", **measured)
    return measured


def figure(lines: Sequence[Line]) -> str:
    line = lines[0]
    if "ratio_high" not in line:
        return "did not finish"
    bounds = f"95 % {line['ratio_low']:.3f} to {line['ratio_high']:.3f}"
    return (
        f"ratio {line['ratio_median']:.3f}, {bounds}, of {line['pairs']} pairs;"
        f" {line['jobc_cpu_ms_median']:.1f} ms against {line['unchecked_cpu_ms_median']:.1f} ms of CPU time"
    )


CAMPAIGN = Campaign(
    name="check_cost",
    claim=f"The rules cost `jobc check` at most {round(100 * GOAL - 100)} % on top of compiling the job.",
    trial=(
        f"is `python bench/check_cost.py --pairs {PAIRS}`: pairs in one process, warm, in turns, CPU time; the other of"
        " each pair is the same command with every rule left out. The upper bound of the median (95 %) has to hold."
        " It is the median of the pairs' ratios, which what slows a machine for a while leaves alone, for it slows both"
        " of a pair; the medians of the times are of all calls of a side, and their quotient is another number."
    ),
    count=1,
    run=run,
    figure=figure,
)
