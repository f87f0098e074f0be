"""pdsh or clush: one command starts all nodes, each under a supervisor that keeps running without the connection.

Emits: hosts.txt.
Launch: ./jobctl submit
Source: pdsh(1) 2.34, clush(1) of ClusterShell 1.9.
"""

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Literal

from ...compiler.api import Artifact, Backend, Count, Diagnostic, Duration, LaunchPlan, Render, of
from ...runtime.system.frozen_dataclass import dataclass
from .._shared import hosts
from .._shared.ssh import SSH_COMMAND


@dataclass(frozen=True)
class PdshOptions:
    """Options of backend pdsh, which conf/backend/pdsh.yaml describes."""

    client: Literal["pdsh", "clush"]
    fanout: Count
    connect_timeout: Duration
    host_keys: Literal["known", "new"]


class PdshBackend(Backend):
    name = "pdsh"
    Options = PdshOptions
    launch = "./jobctl submit"
    spellings = hosts.SPELLINGS
    honours: ClassVar = hosts.HONOURS

    def check(self, plan: LaunchPlan, options: PdshOptions) -> Iterator[Diagnostic]:
        yield from hosts.check_hosts_and_mounts(self.name, plan)

    def emit(self, plan: LaunchPlan, options: PdshOptions, render: Render) -> Iterator[Artifact]:
        yield hosts.hosts_file(render, plan)

    def engine_settings(self, plan: LaunchPlan, options: PdshOptions) -> Mapping[str, Any]:
        return hosts.host_settings(of.options.client, SSH_COMMAND)


BACKEND = PdshBackend()
