"""A rank's exit code, as a scheduler sees it: at jobctl submit, through each launcher."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

from jobc.runtime.exit_codes import PRIORITY

from .campaign import Campaign, expect, k_of_n_by
from .job import STAND_IN, Job

LAUNCHERS = ("spawn", "torchrun")
FAILURES = [code for code in PRIORITY if code not in (0, 75)]
ENDS = [*product((0, 75), ["all"]), *product(FAILURES, ["0", "1"])]  # (code, the rank that exits with it)
COMBINATIONS = list(product(LAUNCHERS, ENDS))


def run(number: int, folder: Path) -> dict[str, Any]:
    launcher, (code, rank) = COMBINATIONS[number % len(COMBINATIONS)]
    with Job(folder, [f"launcher={launcher}"], ["python3", str(STAND_IN), "end", str(code), rank]) as job:
        job.submit()
        exit_code = job.code()
        measured = {"kind": f"through {launcher}", "code": code, "rank": rank, "seen": exit_code}
        expect(
            exit_code == code,
            f"jobctl submit exited with {exit_code} instead of {code}: {job.output()[-500:]}",
            **measured,
        )
        recorded = (job.run_folder / "exit/0/node_00").read_text().split()[0]
        expect(recorded == str(code), f"exit/0/node_00 says {recorded}", **measured)
    return measured


CAMPAIGN = Campaign(
    name="exit_codes",
    claim=("jobctl submit exits with the exit code that a rank chose; no launcher turns it into 1."),
    trial=(
        f"is one combination of launcher, exit code ({', '.join(map(str, sorted(PRIORITY)))}) and rank. 2 ranks of a"
        " program without torch start; one exits with the code while the other waits (with 0 and 75, both exit)."
    ),
    count=len(COMBINATIONS),
    run=run,
    figure=k_of_n_by("kind"),
)
