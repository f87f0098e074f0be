"""JC4310: a kind of dependency that Slurm does not support."""

from __future__ import annotations

from collections.abc import Iterator

from ....compiler.diagnostics.diagnostic import Diagnostic, nearest
from ....compiler.plan.launch_plan import LaunchPlan
from ..._shared.sbatch_options import AFTER
from ..options import SlurmOptions


def check(plan: LaunchPlan, options: SlurmOptions) -> Iterator[Diagnostic]:
    for entry in plan.queue.after:
        kind, colon, ids = entry.partition(":")
        if colon and kind not in AFTER:
            because = f"a dependency is an ID, singleton, or KIND:ID with one of {', '.join(AFTER)}"
            hint = f"queue.after=[{next(iter(nearest(kind, AFTER[1:], 1)), 'afterany')}:{ids}]"
            yield Diagnostic("JC4310", f"queue.after: Slurm has no {kind}", because, hint, key="queue.after")
