"""pdsh or clush: one command starts all nodes, each under a supervisor that keeps running without the connection.

Emits: hosts.txt.
Launch: ./jobctl submit
Source: pdsh(1) 2.34, clush(1) of ClusterShell 1.9.
"""

from collections.abc import Mapping
from typing import Any, Literal

from ...compiler.api import Count, Duration, LaunchPlan, of
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


class PdshBackend(hosts.HostsBackend):
    name = "pdsh"
    Options = PdshOptions

    def engine_settings(self, plan: LaunchPlan, options: PdshOptions) -> Mapping[str, Any]:
        return hosts.host_settings(of.options.client, SSH_COMMAND)


BACKEND = PdshBackend()
