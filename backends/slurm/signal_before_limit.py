"""Compute how long before the time limit Slurm signals a job. job.sbatch sets this with --signal."""

from ...compiler.plan.launch_plan import LaunchPlan

EARLY_S = 60  # --signal: "may be sent up to 60 seconds earlier than specified" (sbatch manual, 22.05 to 25.11)


def seconds_before_limit(plan: LaunchPlan) -> int:
    """Return the earliest time at which the signal may arrive, in seconds before the limit."""
    return plan.lifecycle.kill_after_s + EARLY_S
