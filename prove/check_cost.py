"""What the rules cost in `jobc check`, as a ratio to the same command without any."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from .campaign import Campaign, expect
from .compile_cost import PAIRS, figure, measure

BENCH = Path(__file__).resolve().parent.parent / "bench" / "check_cost.py"
GOAL = 1.10
FLOOR = "unchecked"


def run(number: int, folder: Path) -> dict[str, Any]:
    measured = measure(PAIRS, BENCH, FLOOR)
    expect(measured["ratio_median"] <= GOAL, f"median ratio {measured['ratio_median']}", **measured)
    return measured


CAMPAIGN = Campaign(
    name="check_cost",
    claim=f"The rules cost `jobc check` at most {round(100 * GOAL - 100)} % on top of compiling the job.",
    trial=(
        f"is `python bench/check_cost.py --pairs {PAIRS}`: whole processes, paired and interleaved, user and system"
        " time; the other of each pair is the same command with every rule left out."
    ),
    count=1,
    run=run,
    figure=partial(figure, floor=FLOOR),
)
