"""JC4305: a time limit whose notice would come at the start already."""

from __future__ import annotations

from collections.abc import Iterator

from ....compiler.diagnostics import Diagnostic
from ....compiler.plan import LaunchPlan
from ..options import SlurmOptions

EARLY_S = 60  # --signal: "may be sent up to 60 seconds earlier than specified" (sbatch manual, 22.05 to 25.11)


def check(plan: LaunchPlan, options: SlurmOptions) -> Iterator[Diagnostic]:
    limit, notice = plan.lifecycle.time_limit_s, plan.lifecycle.kill_after_s + EARLY_S
    if 0 < limit <= notice:
        title = f"a time limit of {limit} s is too short to save in"
        because = (
            f"Slurm's notice comes up to {notice} s before the limit: grace, 10 s to end, and {EARLY_S} s of Slurm's"
        )
        hint = f"time={notice // 60 + 1}m" + (", or a shorter lifecycle.grace" if plan.lifecycle.grace_s > 5 else "")
        yield Diagnostic("JC4305", title, because, hint, key="time")
