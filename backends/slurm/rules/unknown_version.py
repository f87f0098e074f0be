"""JC4301: a Slurm version that jobc does not know."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ....compiler.diagnostics.diagnostic import Diagnostic
from ....compiler.plan.launch_plan import LaunchPlan
from ..options import SlurmOptions


def check(plan: LaunchPlan, options: SlurmOptions) -> Iterator[Diagnostic]:
    version = options.version
    if not re.fullmatch(r"\d\d\.\d\d", version) or not "22.05" <= version <= "25.11":
        because = "jobc knows the options of Slurm 22.05 to 25.11"
        title, hint = f"Slurm version {version} is unknown", "backend.version=23.11, as `sbatch --version` prints it"
        yield Diagnostic("JC4301", title, because, hint, key="backend.version")
