"""The list of hosts, and the run folders on those hosts: JC4401, JC4403, JC4404, JC4415, JC4416, JC4417."""

import re
from collections.abc import Iterator

from ....compiler.api import Diagnostic, LaunchPlan
from ..hosts import hosts_in_rank_order


def check_no_hosts(name: str, plan: LaunchPlan, here: bool) -> Iterator[Diagnostic]:
    """JC4401: no hosts are set for a backend that runs commands on hosts."""
    alone = here and plan.topology.nodes == 1
    if not hosts_in_rank_order(plan) and not alone:
        because = f"{name} starts processes on a list of hosts"
        example = f"'hosts=node[1-{plan.topology.nodes}]'" if plan.topology.nodes > 1 else "hosts=node1"
        hint = f"{example}, or hosts=@FILE with one host per line"
        yield Diagnostic("JC4401", f"backend {name} needs hosts", because, hint, key="hosts")


def check_fewer_hosts_than_nodes(name: str, plan: LaunchPlan, here: bool) -> Iterator[Diagnostic]:
    """JC4403: fewer hosts in queue.nodelist than nodes. For `hosts`, another rule checks this for every backend."""
    hosts, nodes = hosts_in_rank_order(plan), plan.topology.nodes
    if 0 < len(hosts) < nodes:
        title = f"{len(hosts)} host{'s' * (len(hosts) > 1)} in queue.nodelist for {nodes} nodes"
        because = f"{name} can only use these hosts, and each node needs its own host"
        yield Diagnostic("JC4403", title, because, f"nodes={len(hosts)}, or list more hosts", key="queue.nodelist")


def check_loopback_head(name: str, plan: LaunchPlan, here: bool) -> Iterator[Diagnostic]:
    """JC4404: the first host is a name such as localhost, which every node resolves to itself."""
    hosts, nodes = hosts_in_rank_order(plan), plan.topology.nodes
    if 1 < nodes <= len(hosts) and re.match(r"localhost\b|127\.", hosts[0].rpartition("@")[2]):
        title = f"node 0 is {hosts[0]}"
        because = "every other node would resolve that name to itself, so the rendezvous would fail"
        hint = "use the name by which the other nodes reach this machine"
        yield Diagnostic("JC4404", title, because, hint, key="hosts")


def check_redundant_code_copy(name: str, plan: LaunchPlan, here: bool) -> Iterator[Diagnostic]:
    """JC4415: code=rsync although all hosts share one copy of the code."""
    if plan.code.kind == "rsync" and plan.run.storage == "shared":
        title = "code=rsync has no effect with storage.run=shared"
        because = "with storage.run=shared, all hosts already share one copy of the code"
        yield Diagnostic("JC4415", title, because, "code=snapshot, or storage.run=node", key="code.kind")


def check_keep_runs_on_hosts(name: str, plan: LaunchPlan, here: bool) -> Iterator[Diagnostic]:
    """JC4416: keep_runs is set although each host keeps its own runs."""
    if plan.run.keep and plan.run.storage == "node":
        because = "jobctl clean would remove old runs on the submit host, but leave them on all other hosts"
        title = "keep_runs does not remove runs on the hosts"
        yield Diagnostic("JC4416", title, because, "keep_runs=0", key="keep_runs")


def check_restart_with_node_storage(name: str, plan: LaunchPlan, here: bool) -> Iterator[Diagnostic]:
    """JC4417: lifecycle.max_restarts is set although each host has its own run folder."""
    if plan.lifecycle.max_restarts and plan.topology.nodes > 1 and plan.run.storage == "node":
        because = "nodes coordinate a restart through a shared run folder"
        hint = "lifecycle.max_restarts=0, or storage.run=shared"
        title = "lifecycle.max_restarts is not supported with storage.run=node"
        yield Diagnostic("JC4417", title, because, hint, key="lifecycle.max_restarts")
