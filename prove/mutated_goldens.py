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
    claim="A wrong line in an emitted file is noticed before anything is started; how often is the figure.",
    trial=(
        "is one of mutations, for each golden, without execution: bash -n, the schemas and ShellCheck alone."
        " What only a start can notice, a message or how long jobctl stop waits, counts as a survivor."
    ),
    count=len(cases()),
    run=checked,
    figure=figure,
    named=survivors,
)
