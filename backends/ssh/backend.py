"""ssh: one connection per host starts its node, and a supervisor there that does not need the connection.

Emits  hosts.txt, task.sh, client.sh, engine.sh and the verbs
Launch ./submit.sh
Source ssh(1) and ssh_config(5) of OpenSSH 9.2
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

from ...compiler.artifact import Artifact
from ...compiler.diagnostics import Diagnostic
from ...compiler.equivalence.reading import Reading, Stage
from ...compiler.plan import LaunchPlan
from ...compiler.render import Render
from .._shared import hosts
from .._shared.ssh import CLIENT, SshOptions, check_user

if TYPE_CHECKING:
    from ...compiler.equivalence.verbs import Verbs


class SshBackend:
    name = "ssh"
    Options = SshOptions
    launch = "./submit.sh"
    spellings = hosts.SPELLINGS
    honours: ClassVar = hosts.HONOURS
    files = hosts.FILES

    def check(self, plan: LaunchPlan, options: SshOptions) -> Iterator[Diagnostic]:
        yield from hosts.check(self.name, plan)
        yield from check_user(options)

    def emit(self, plan: LaunchPlan, options: SshOptions, render: Render) -> Iterator[Artifact]:
        yield from hosts.emit(render, plan, CLIENT)

    def read_back(self, stage: Stage) -> Reading:
        from .._shared.read_hosts import read_back

        return read_back(stage)

    def verbs(self) -> type[Verbs]:
        from .._shared.read_verbs import HostVerbs

        return HostVerbs


BACKEND = SshBackend()
