"""ssh: one connection per host starts its node under a supervisor that keeps running without the connection.

Emits: hosts.txt.
Launch: ./jobctl submit
Source: ssh(1) and ssh_config(5) of OpenSSH 9.2.
"""

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from ...compiler.api import Artifact, Backend, Diagnostic, LaunchPlan, Render, run_all
from .._shared import hosts
from .._shared.ssh import SshOptions, check_user, ssh_settings


class SshBackend(Backend):
    name = "ssh"
    Options = SshOptions
    launch = "./jobctl submit"
    spellings = hosts.SPELLINGS
    honours: ClassVar = hosts.HONOURS

    def check(self, plan: LaunchPlan, options: SshOptions) -> Iterator[Diagnostic]:
        return run_all(lambda: hosts.check_hosts_and_mounts(self.name, plan), lambda: check_user(options))

    def emit(self, plan: LaunchPlan, options: SshOptions, render: Render) -> Iterator[Artifact]:
        yield hosts.hosts_file(render, plan)

    def engine_settings(self, plan: LaunchPlan, options: SshOptions) -> Mapping[str, Any]:
        return ssh_settings(options)


BACKEND = SshBackend()
