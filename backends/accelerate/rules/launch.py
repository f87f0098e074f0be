"""How the nodes are started: JC4601, JC4605."""

from collections.abc import Iterator

from ....compiler.diagnostics.diagnostic import Diagnostic
from ....compiler.plan.launch_plan import LaunchPlan
from ..._shared import hosts
from ..options import AccelerateOptions


def check_copies_without_hosts(plan: LaunchPlan, options: AccelerateOptions) -> Iterator[Diagnostic]:
    """JC4601: storage.run=node is set, but the job has no hosts."""
    if not hosts.hosts_in_rank_order(plan) and plan.run.storage == "node":
        because = "without hosts, the only node is this machine, which already has the run folder"
        title = "storage.run=node has no effect without hosts"
        yield Diagnostic("JC4601", title, because, "storage.run=shared", key="storage.run")


def check_other_launcher(plan: LaunchPlan, options: AccelerateOptions) -> Iterator[Diagnostic]:
    """JC4605: a launcher other than `accelerate launch`.

    `honours` cannot report this, because it does not cover torchrun, which needs no support from the backend.
    """
    if plan.launcher != "accelerate":
        because = "backend accelerate is backend ssh with `accelerate launch` as the launcher"
        hint = f"backend=ssh launcher={plan.launcher}, or launcher=accelerate"
        title = f"backend accelerate does not support launcher={plan.launcher}"
        yield Diagnostic("JC4605", title, because, hint, key="launcher")
