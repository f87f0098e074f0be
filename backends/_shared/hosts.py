"""Backends that have a list of hosts and a client that runs a command on them: ssh, pdsh, accelerate.

Emits  hosts.txt (one host per line, in rank order), task.sh (one node), engine.sh (the fan-out) and the verbs;
       copies.sh where each host has a run folder of its own (storage.run=node)
In     the run folder under one path on the submit host and all nodes, whether it is one folder or many
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from ...compiler.artifact import Artifact
from ...compiler.backend import ANY, NODE_LAUNCHERS, VERBS
from ...compiler.diagnostics import Diagnostic
from ...compiler.plan import LaunchPlan
from ...compiler.render import Render
from ...compiler.words import RuntimeVar, Scope, Spelling
from . import containers

SPELLINGS: Mapping[RuntimeVar, Spelling] = {
    RuntimeVar.RUN_ID: Spelling(Scope.SUBMIT, '$(basename -- "$run")'),
    RuntimeVar.RUN_DIR: Spelling(Scope.SUBMIT, "$run"),
    RuntimeVar.ATTEMPT: Spelling(Scope.SUBMIT, "$attempt"),
    RuntimeVar.JOB_ID: Spelling(Scope.SUBMIT, '$(basename -- "$run")'),
    RuntimeVar.NODE_RANK: Spelling(Scope.SUBMIT, "place of the host in hosts.txt"),
    RuntimeVar.HEAD_ADDR: Spelling(Scope.SUBMIT, "first line of hosts.txt, without user@"),
    RuntimeVar.HEAD_PORT: Spelling(Scope.NODE, "plan.rendezvous.port, or 0: node 0 chooses and tells the others"),
}
HONOURS: Mapping[str, tuple[str, ...]] = {
    "launcher": NODE_LAUNCHERS,
    **containers.honours("docker", "apptainer"),
    "code.kind": ("snapshot", "shared", "rsync", "none"),
    "run.storage": ("shared", "node"),
    "secret_kinds": ("env", "file"),
    "resources.hosts": ANY,
    "resources.gpu_type": ANY,  # checked before the ranks start
    "network.*": ANY,
    "queue.nodelist": ANY,  # the hosts, when `hosts` names none
    "queue.exclude": ANY,  # left out of either
    "lifecycle.time_limit_s": ANY,
}
FILES: Mapping[str, str] = {
    "hosts.txt": "the hosts, one a line; the first is node 0",
    "client.sh": "how this machine runs a command on them",
    "engine.sh": "how the nodes are started, followed and stopped with it",
    "copies.sh": "brings runs to the hosts, and news of them back",
    "task.sh": "what is run on each host; it becomes `node.sh`",
}
LIKE_ANY = ("status.sh", "logs.sh", "stop.sh", "clean.sh")  # as on a backend that needs no hosts

HERE = "hosts/here.sh.j2"  # the client of nodes on this machine


def check(name: str, plan: LaunchPlan, here: bool = False) -> Iterator[Diagnostic]:
    """JC4401: a client that runs commands on hosts needs some; JC4403: as many as nodes; JC4404: of a name that all
    know; and what others lack.

    here: without hosts a single node is this machine
    """
    yield from _storage(plan)
    yield from containers.check(name, plan)
    hosts, nodes = used_hosts(plan), plan.topology.nodes
    if here and nodes == 1 and not hosts:
        return
    if not hosts:
        because = f"{name} starts processes on the hosts that it is told"
        hint = "hosts=node[1-4], hosts=a,b, or hosts=@FILE with one host a line"
        yield Diagnostic("JC4401", f"backend {name} needs hosts", because, hint, key="hosts")
    elif len(hosts) < nodes:  # of queue.nodelist, for `hosts` itself is checked for every backend
        title = f"{len(hosts)} host{'s' * (len(hosts) > 1)} in queue.nodelist for {nodes} nodes"
        because = f"{name} has no other hosts than those, and each node needs one of its own"
        yield Diagnostic("JC4403", title, because, f"nodes={len(hosts)}, or name more hosts", key="queue.nodelist")
    elif nodes > 1 and re.match(r"localhost\b|127\.", hosts[0].rpartition("@")[2]):
        title, because = f"node 0 is {hosts[0]}", "that leads every other node to itself, so they would not meet"
        hint = "the name of this machine as the others know it"
        yield Diagnostic("JC4404", title, because, hint, key="hosts")


def used_hosts(plan: LaunchPlan) -> tuple[str, ...]:
    """In rank order: `hosts`, else the list that a scheduler would be asked to prefer."""
    return plan.resources.hosts or plan.queue.nodelist


def _storage(plan: LaunchPlan) -> Iterator[Diagnostic]:
    """JC4415 to JC4417: what storage.run does not go with."""
    if plan.code.kind == "rsync" and plan.run.storage == "shared":
        title, because = (
            "code=rsync has nowhere to bring the code",
            "with storage.run=shared all hosts see one copy of it",
        )
        yield Diagnostic("JC4415", title, because, "code=snapshot, or storage.run=node", key="code.kind")
    if plan.lifecycle.max_restarts and plan.topology.nodes > 1 and plan.run.storage == "node":
        because = "the nodes agree on a restart in a run folder that all see"
        hint = "lifecycle.max_restarts=0, or storage.run=shared"
        yield Diagnostic("JC4417", "no restart in place", because, hint, key="lifecycle.max_restarts")
    if plan.run.keep and plan.run.storage == "node":
        because = "clean.sh would remove old runs on the submit host, and leave them on all others"
        yield Diagnostic("JC4416", "keep_runs does not reach the hosts", because, "keep_runs=0", key="keep_runs")


def own_addresses(nodes: int) -> tuple[str, ...]:
    """Of this machine, one for each node, by which here.sh.j2 knows it: all of 127.0.0.0/8 is loopback (RFC 1122)."""
    return tuple(f"127.0.{i // 250}.{i % 250 + 1}" for i in range(nodes))


def emit(render: Render, plan: LaunchPlan, client: str = "client.sh.j2", **views: Any) -> Iterator[Artifact]:
    """hosts.txt, task.sh, engine.sh and the verbs. client: the template that says how a host is reached, or HERE;
    views: for the templates"""
    key = "resources.hosts" if plan.resources.hosts else "queue.nodelist"
    if client == HERE:
        yield render.table("hosts.txt", own_addresses(plan.topology.nodes), "topology.groups.0.nodes")
    else:
        yield render.table("hosts.txt", used_hosts(plan), key)
    yield render.template(client, "client.sh")
    yield render.template("hosts/engine.sh.j2", "engine.sh")
    if plan.run.storage == "node":
        yield render.template("hosts/copies.sh.j2", "copies.sh")
    for script in ("task.sh", *VERBS):
        folder = "" if script in LIKE_ANY else "hosts/"
        yield render.template(f"{folder}{script}.j2", script, executable=True, **{"detach": False, **views})
