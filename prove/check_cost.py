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
    claim=(f"The rules add at most {round(100 * GOAL - 100)} % to the CPU time of `jobc check`."),
    trial=(
        f"runs `python bench/check_cost.py --pairs {PAIRS}`: pairs of calls in one warm process, in turns, measured"
        " in CPU time. One call of each pair runs without any rule. The upper bound of the median ratio (95 %) must"
        " meet the goal. The median is taken over the pairs' ratios, because a disturbance usually slows both calls"
        " of a pair. The printed times are medians over all calls of a side, so their quotient is a different"
        " number."
    ),
    count=1,
    run=run,
    figure=figure,
)
