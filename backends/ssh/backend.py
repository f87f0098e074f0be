"""ssh: one connection per host starts its node, and a supervisor there that does not need the connection.

Emits  hosts.txt, task.sh, client.sh, engine.sh and the verbs
Launch ./submit.sh
Source ssh(1) and ssh_config(5) of OpenSSH 9.2
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

from ...compiler.artifact import Artifact
from ...compiler.diagnostics import Diagnostic
from ...compiler.plan import LaunchPlan
from ...compiler.render import Render
from ...compiler.values import Count, Duration
from .._shared import hosts


@dataclass(frozen=True)
class SshOptions:
    """fanout: connections at once; connect_timeout: seconds; host_keys: known | new; user, port: on the hosts;
    options: more options of ssh, one word each."""

    fanout: Count
    connect_timeout: Duration
    host_keys: Literal["known", "new"]
    user: str | None
    port: Count | None
    options: tuple[str, ...]


class SshBackend:
    name = "ssh"
    Options = SshOptions
    launch = "./submit.sh"
    spellings = hosts.SPELLINGS
    honours: ClassVar = hosts.HONOURS
    files = hosts.FILES

    def check(self, plan: LaunchPlan, options: SshOptions) -> Iterator[Diagnostic]:
        yield from hosts.check(self.name, plan)
        if options.user is not None and not re.fullmatch(r"[\w.][\w.-]*", options.user):
            because = "a user name is letters, digits, dot, dash and underscore"
            yield Diagnostic("JC4402", f"no user {options.user!r}", because, "backend.user=null", key="backend.user")

    def emit(self, plan: LaunchPlan, options: SshOptions, render: Render) -> Iterator[Artifact]:
        yield from hosts.emit(render, plan)


BACKEND = SshBackend()
