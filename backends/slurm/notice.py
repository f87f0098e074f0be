"""Compute when Slurm signals a job before its time limit: job.sbatch sets --signal."""

from __future__ import annotations

from ...compiler.plan.launch_plan import LaunchPlan

EARLY_S = 60  # --signal: "may be sent up to 60 seconds earlier than specified" (sbatch manual, 22.05 to 25.11)


def notice_s(plan: LaunchPlan) -> int:
    """Seconds before the limit, at most."""
    return plan.lifecycle.kill_after_s + EARLY_S
