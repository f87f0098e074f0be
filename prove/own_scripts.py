"""Run scripts in common styles, as a user who is not root, on one machine and with Slurm."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jobc.tests.own_scripts.person import BACKENDS, Person, finishes, is_mended_stopped_and_resumed
from jobc.tests.own_scripts.styles import STYLES
from jobc.tests.testbed import Shape

from .bed import cluster
from .campaign import Campaign, k_of_n_by

TRIALS = [(backend, style) for backend in BACKENDS for style in STYLES]
SHAPE = Shape(nodes=2, gpus_per_node=0)


def run(number: int, folder: Path) -> dict[str, Any]:
    backend, name = TRIALS[number % len(TRIALS)]
    person = Person.with_project(cluster(SHAPE, folder).login, f"project_{number}")
    finishes(person, backend, STYLES[name])
    is_mended_stopped_and_resumed(person, backend, STYLES[name], "launcher=spawn")  # each start of torchrun takes 10 s
    return {"kind": f"on {backend}", "style": name}


CAMPAIGN = Campaign(
    name="own_scripts",
    claim=("A script in any common style runs unchanged, and can be stopped, fixed and resumed."),
    trial=(
        f"is one of {len(STYLES)} scripts that do not use jobc, on one host of the test bed or on its Slurm, where a"
        " script for 2 ranks gets 2 nodes. It runs as an unprivileged user, and with progress bars. With default"
        " settings and torchrun, it runs to its end, and the console must show its output and list its files. With"
        " `launcher=spawn` and a mistake at its end, or in its first lines, the run fails, and the status must"
        " print the mistake's line. After the fix, it continues the same run, is stopped with `jobctl stop`, and"
        " continues to its end."
    ),
    count=len(TRIALS),
    run=run,
    figure=k_of_n_by("kind"),
)
