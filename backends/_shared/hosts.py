"""Backends that have a list of hosts and a client that runs a command on them: ssh, pdsh.

Emits  hosts.txt (one host per line, in rank order), task.sh (one node), engine.sh (the fan-out) and the verbs;
       copies.sh where each host has a run folder of its own (storage.run=node)
In     the run folder under one path on the submit host and all nodes, whether it is one folder or many
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ...compiler.artifact import Artifact
from ...compiler.backend import ANY, VERBS
from ...compiler.diagnostics import Diagnostic
from ...compiler.plan import LaunchPlan
from ...compiler.render import Render
from ...compiler.words import RuntimeVar, Scope, Spelling

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
    "launcher": ("torchrun", "spawn"),
    "setup.kind": ("none", "venv", "conda", "uv", "modules"),
    "code.kind": ("snapshot", "shared", "rsync", "none"),
    "run.storage": ("shared", "node"),
    "secret_kinds": ("env", "file"),
    "resources.hosts": ANY,
    "lifecycle.time_limit_s": ANY,
}


def check(name: str, plan: LaunchPlan) -> Iterator[Diagnostic]:
    """JC4401: a client that runs commands on hosts needs some; JC4415, JC4416: what storage.run does not go with."""
    if not plan.resources.hosts:
        because, hint = f"{name} starts processes on the hosts that it is told", "hosts=node[1-4], or hosts=a,b"
        yield Diagnostic("JC4401", f"backend {name} needs hosts", because, hint, key="hosts")
    if plan.code.kind == "rsync" and plan.run.storage == "shared":
        title, because = (
            "code=rsync has nowhere to bring the code",
            "with storage.run=shared all hosts see one copy of it",
        )
        yield Diagnostic("JC4415", title, because, "code=snapshot, or storage.run=node", key="code.kind")
    if plan.run.keep and plan.run.storage == "node":
        because = "old runs would be removed on the submit host, and stay on all others"
        yield Diagnostic("JC4416", "keep_runs does not reach the hosts", because, "keep_runs=0", key="keep_runs")


def emit(render: Render, plan: LaunchPlan) -> Iterator[Artifact]:
    """hosts.txt, task.sh, engine.sh and the verbs; client.sh.j2 is the backend's own."""
    yield render.table("hosts.txt", plan.resources.hosts, "resources.hosts")
    yield render.template("client.sh.j2", "client.sh")
    yield render.template("hosts/engine.sh.j2", "engine.sh")
    if plan.run.storage == "node":
        yield render.template("hosts/copies.sh.j2", "copies.sh")
    for script in ("task.sh", *VERBS):
        folder = "" if script in ("status.sh", "logs.sh", "stop.sh") else "hosts/"
        yield render.template(f"{folder}{script}.j2", script, executable=True)
