"""Measure the cost of a compile, relative to Hydra's composition of the same config."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .campaign import Campaign, Line, expect

BENCH = Path(__file__).resolve().parent.parent / "bench" / "compile_cost.py"
PAIRS = 11
GOAL = 1.25


def run(number: int, folder: Path) -> dict[str, Any]:
    measured = measure(PAIRS)
    expect(measured["ratio_median"] <= GOAL, f"median ratio {measured['ratio_median']}", **measured)
    return measured


def measure(pairs: int) -> dict[str, Any]:
    """Return the rows of the benchmark's table, each as (min, median): CPU milliseconds, and the ratio."""
    command = [sys.executable, str(BENCH), "--pairs", str(pairs)]
    table = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[1:]
    numbers = [[float(word) for word in re.findall(r"\s(\d+(?:\.\d+)?)(?=\s|$)", row)[:2]] for row in table]
    names = ("hydra_cpu_ms", "jobc_cpu_ms", "repeat_cpu_ms", "ratio", "repeat_ratio")
    figures = {
        f"{name}_{which}": value
        for name, row in zip(names, numbers, strict=True)
        for which, value in zip(("min", "median"), row, strict=True)
    }
    return {"pairs": pairs, **figures}


def figure(lines: Sequence[Line]) -> str:
    line = lines[0]
    if "ratio_median" not in line:
        return "did not finish"
    return (
        f"ratio {line['ratio_median']:.2f} (median), {line['ratio_min']:.2f} (min) of {line['pairs']} pairs;"
        f" {line['jobc_cpu_ms_median']:.0f} ms against {line['hydra_cpu_ms_median']:.0f} ms of CPU time"
    )


CAMPAIGN = Campaign(
    name="compile_cost",
    claim=(f"A cold compile takes at most {GOAL} times the CPU time that Hydra takes to compose the same config."),
    trial=(
        f"runs `python bench/compile_cost.py --pairs {PAIRS}`: whole processes, paired and interleaved, user and"
        " system time. jobc runs from its wheel and writes the artifact."
    ),
    count=1,
    run=run,
    figure=figure,
)
