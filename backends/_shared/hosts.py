"""Code shared by the backends that run commands on a list of hosts (ssh, pdsh, accelerate), and by local and slurm.

Emits: hosts.txt, with one host per line in rank order.
In:    a run folder that has the same path on the submit host and on all nodes, whether or not they share it.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from ...compiler.diagnostics.diagnostic import Diagnostic
from ...compiler.emit.artifact import Artifact
from ...compiler.emit.render import Leaf, Render, of
from ...compiler.plan.launch_plan import LaunchPlan
from ...compiler.plan.runtime_vars import RuntimeVar, Scope, Spelling
from ...compiler.plugins.backend import ANY, NODE_LAUNCHERS, Backend
from ...compiler.rules import findings, run_all

SPELLINGS: Mapping[RuntimeVar, Spelling] = {
    RuntimeVar.RUN_ID: Spelling(Scope.SUBMIT, '$(basename -- "$run")'),
    RuntimeVar.RUN_DIR: Spelling(Scope.SUBMIT, "$run"),
    RuntimeVar.ATTEMPT: Spelling(Scope.SUBMIT, "$attempt"),
    RuntimeVar.JOB_ID: Spelling(Scope.SUBMIT, '$(basename -- "$run")'),
    RuntimeVar.NODE_RANK: Spelling(Scope.SUBMIT, "line number of the host in hosts.txt, counted from 0"),
    RuntimeVar.HEAD_ADDR: Spelling(Scope.SUBMIT, "first line of hosts.txt, without user@"),
    RuntimeVar.HEAD_PORT: Spelling(Scope.NODE, "plan.rendezvous.port, or 0: node 0 chooses a port and shares it"),
}


def container_settings(*runtimes: str) -> Mapping[str, tuple[str, ...]]:
    """Return the entries of `honours` for containers that launch.sh enters. runtimes: values of container.kind"""
    return {
        "container.kind": runtimes,
        "container.*": ANY,
        "mounts": ANY,
        "resources.shm_bytes": ANY,
        "setup.kind": ("none", "venv", "conda", "uv", "modules", "image"),
    }


HONOURS: Mapping[str, tuple[str, ...]] = {
    "launcher": NODE_LAUNCHERS,
    **container_settings("docker", "apptainer"),
    "code.kind": ("snapshot", "shared", "rsync", "none"),
    "run.storage": ("shared", "node"),
    "secret_kinds": ("env", "file"),
    "resources.hosts": ANY,
    "resources.cpus": ANY,  # sets the ranks' thread count
    "resources.gpu_type": ANY,  # jobctl checks the interface before the ranks start
    "network.*": ANY,
    "queue.nodelist": ANY,  # the list of hosts if `hosts` is empty
    "queue.exclude": ANY,  # hosts to leave out of either list
    "lifecycle.time_limit_s": ANY,
}


class HostsBackend(Backend):
    """A backend that runs commands on a list of hosts.

    may_run_here: whether a job with one node and no hosts runs on this machine
    """

    launch = "./jobctl submit"
    spellings = SPELLINGS
    honours = HONOURS
    may_run_here = False

    def check(self, plan: LaunchPlan, options: Any) -> Iterator[Diagnostic]:
        rules = partial(findings, f"{__package__}.rules", self.name, plan, self.may_run_here)
        return run_all(rules, partial(check_mounts, self.name, plan))

    def emit(self, plan: LaunchPlan, options: Any, render: Render) -> Iterator[Artifact]:
        yield hosts_file(render, plan)


def check_mounts(name: str, plan: LaunchPlan) -> Iterator[Diagnostic]:
    """Yield JC4410 for mounts whose source is not a folder or file on the node."""
    for i, mount in enumerate(plan.mounts):
        if mount.kind != "host":
            title = f"backend {name} does not support mounts of kind {mount.kind}"
            because = "the backend can only mount the nodes' own folders and files"
            yield Diagnostic("JC4410", title, because, "kind: host", key=f"mounts.{i}.kind")


def hosts_in_rank_order(plan: LaunchPlan) -> tuple[str, ...]:
    """Return the hosts in rank order: those in `hosts` or, if it is empty, in queue.nodelist."""
    return plan.resources.hosts or plan.queue.nodelist


def node_settings() -> dict[str, Any]:
    return {"saved_secrets": variables_to_save, "procs": of.plan.topology.procs}


def host_settings(client: str | Leaf, ssh_command: Sequence[str | Leaf]) -> dict[str, Any]:
    """Return the settings that jobctl uses to start nodes on hosts. client: `ssh`, `pdsh` or `clush`"""
    hosts = {"client": client, "ssh_command": ssh_command, "fanout": of.options.fanout}
    return {"hosts": hosts, **node_settings()}


def variables_to_save(v: Any) -> list[str]:
    """Return the names of the variables that jobctl submit saves for the nodes. Used as a leaf of job.json."""
    return [secret.ref for secret in v.plan.secrets.values() if secret.kind == "env"]


def hosts_file(render: Render, plan: LaunchPlan) -> Artifact:
    """Return hosts.txt, with this machine's loopback addresses if there are no hosts."""
    if not hosts_in_rank_order(plan):
        return loopback_hosts_file(render, plan)
    key = "resources.hosts" if plan.resources.hosts else "queue.nodelist"
    return render.line_file("hosts.txt", hosts_in_rank_order(plan), key)


def loopback_hosts_file(render: Render, plan: LaunchPlan) -> Artifact:
    """Return hosts.txt for nodes that are all on this machine.

    All of 127.0.0.0/8 is loopback (RFC 1122); a job has at most 100,000 nodes (NodeCount).
    """
    addresses = [f"127.{i // 62_500}.{i // 250 % 250}.{i % 250 + 1}" for i in range(plan.topology.nodes)]
    return render.line_file("hosts.txt", addresses, "topology.nodes")
