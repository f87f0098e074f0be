"""Judge the mutants from `mutations` for every golden, without executing them, which is fast."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .campaign import Campaign
from .mutations import cases, figure, run, survivors


def checked(number: int, folder: Path) -> dict[str, Any]:
    return run(number, folder, execute=lambda *_: "")


CAMPAIGN = Campaign(
    name="mutated_goldens",
    claim=("A wrong line in an emitted file is detected before anything is started. The figure is the share detected."),
    trial=(
        "is a trial of mutations, for each golden, without execution: only bash -n, the schemas and ShellCheck."
        " What only a start can show, such as a message or how long jobctl stop waits, counts as a survivor."
    ),
    count=len(cases()),
    run=checked,
    figure=figure,
    named=survivors,
)
