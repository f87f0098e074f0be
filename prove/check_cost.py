"""What the rules cost in `jobc check`, as a ratio to the same command without any."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .campaign import Campaign, Line, expect
from .compile_cost import PAIRS, measure

BENCH = Path(__file__).resolve().parent.parent / "bench" / "check_cost.py"
GOAL = 1.10


def run(number: int, folder: Path) -> dict[str, Any]:
    measured = measure(PAIRS, BENCH, "unchecked")
    expect(measured["ratio_median"] <= GOAL, f"median ratio {measured['ratio_median']}", **measured)
    return measured


def figure(lines: Sequence[Line]) -> str:
    line = lines[0]
    if "ratio_median" not in line:
        return "did not finish"
    return (
        f"ratio {line['ratio_median']:.2f} (median), {line['ratio_min']:.2f} (min) of {line['pairs']} pairs;"
        f" {line['jobc_cpu_ms_median']:.0f} ms against {line['unchecked_cpu_ms_median']:.0f} ms of CPU time"
    )


CAMPAIGN = Campaign(
    name="check_cost",
    claim=f"The rules cost `jobc check` at most {round(100 * GOAL - 100)} % on top of compiling the job.",
    trial=(
        f"is `python bench/check_cost.py --pairs {PAIRS}`: whole processes, paired and interleaved, user and system"
        " time; the other of each pair is the same command with every rule left out."
    ),
    count=1,
    run=run,
    figure=figure,
)
