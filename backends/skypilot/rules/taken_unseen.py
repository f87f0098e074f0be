"""JC4721: site resources that are not checked, because no profile lists them. This is a note."""

from __future__ import annotations

from collections.abc import Iterator

from ....compiler.diagnostics.diagnostic import Diagnostic, Severity
from ....compiler.plan.launch_plan import LaunchPlan
from ..options import SkypilotOptions, cloud_of
from ._infras import infras, is_site


def check(plan: LaunchPlan, options: SkypilotOptions) -> Iterator[Diagnostic]:
    if facts := _facts(plan, options):
        title = f"not checked: {_in_words([*facts.values()])}"
        because = "SkyPilot only checks at launch"
        if "backend.qos" in facts:
            because += ", and a job with an unknown QOS stays queued forever"
        hint = (
            f"set {_in_words([*facts])} in the cluster profile (cluster=NAME); ./jobctl preflight --queue-only asks "
            f"SkyPilot"
        )
        yield Diagnostic("JC4721", title, because, hint, key="backend.infra", severity=Severity.NOTE)


def _facts(plan: LaunchPlan, options: SkypilotOptions) -> dict[str, str]:
    """Map each unset profile key to the requested resource that it would check."""
    sites = [infra.split("/") for _, infra in infras(options) if is_site(infra)]
    names = [parts[1] for parts in sites if len(parts) > 1 and parts[1] != "*"]
    facts = {}
    if names and options.clusters is None:
        facts["backend.clusters"] = names[0]
    if options.cloud == "slurm" and plan.queue.qos and options.qos is None:
        facts["backend.qos"] = f"QOS {plan.queue.qos}"
    partition = plan.queue.name or next(
        (parts[2] for parts in sites if cloud_of(parts[0]) == "slurm" and len(parts) > 2), ""
    )
    if options.cloud == "slurm" and partition and not options.partitions:
        facts["site.partitions"] = f"partition {partition}"
    if sites and not options.partitions:  # partitions may have their own limits
        nodes, gpus = plan.topology.nodes, plan.topology.gpus
        if nodes > 1 and options.most_nodes is None:
            facts["site.nodes"] = f"{nodes} nodes"
        if gpus and options.most_gpus is None:
            facts["site.gpus"] = f"{gpus} {'GPU' if gpus == 1 else 'GPUs'} on a node"
    return facts


def _in_words(items: list[str]) -> str:
    *first, last = items
    return f"{', '.join(first)} and {last}" if first else last
