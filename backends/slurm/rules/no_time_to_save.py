"""JC4305: a time limit so short that Slurm's signal could arrive right at the start."""

from __future__ import annotations

from collections.abc import Iterator

from ....compiler.diagnostics.diagnostic import Diagnostic
from ....compiler.plan.launch_plan import LaunchPlan
from ..notice import EARLY_S, notice_s
from ..options import SlurmOptions


def check(plan: LaunchPlan, options: SlurmOptions) -> Iterator[Diagnostic]:
    limit, notice = plan.lifecycle.time_limit_s, notice_s(plan)
    if 0 < limit <= notice:
        title = f"time={limit}s leaves no time to save"
        because = (
            f"Slurm can send its signal up to {notice} s before the limit: the grace period, 10 s to exit,"
            f" and {EARLY_S} s by which Slurm may signal early"
        )
        hint = f"time={notice // 60 + 1}m" + (", or a shorter lifecycle.grace" if plan.lifecycle.grace_s > 5 else "")
        yield Diagnostic("JC4305", title, because, hint, key="time")
