"""Options and checks of the ssh client, for backends that reach their hosts by ssh: ssh, accelerate."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from ...compiler.diagnostics.diagnostic import Diagnostic
from ...compiler.plan.launch_plan import LaunchPlan
from ...compiler.spec.value_types import Count, Duration
from . import hosts


@dataclass(frozen=True)
class SshOptions:
    """Options of the ssh client. fanout: simultaneous connections; connect_timeout: seconds; host_keys: known | new;
    user, port: user name and port on the hosts; options: further ssh options, one word each."""

    fanout: Count
    connect_timeout: Duration
    host_keys: Literal["known", "new"]
    user: str | None
    port: Count | None
    options: tuple[str, ...]


def ssh_command(connect_timeout: int, host_keys: str) -> list[str]:
    """Return ssh that asks for no password, waits for no lost host, and accepts no unknown host key unless allowed."""
    words = ["BatchMode=yes", f"ConnectTimeout={connect_timeout}", "ServerAliveInterval=5", "ServerAliveCountMax=3"]
    words.append(f"StrictHostKeyChecking={'yes' if host_keys == 'known' else 'accept-new'}")
    return ["ssh", *(part for word in words for part in ("-o", word))]


def ssh_settings(plan: LaunchPlan, options: SshOptions) -> Mapping[str, Any]:
    """Return what jobctl needs to start the nodes by ssh."""
    user = [] if options.user is None else ["-l", options.user]
    port = [] if options.port is None else ["-p", str(options.port)]
    command = [*ssh_command(options.connect_timeout, options.host_keys), *user, *port, *options.options]
    return hosts.engine_settings(plan, hosts.client_settings("ssh", command, options.fanout))


def check_user(options: SshOptions) -> Iterator[Diagnostic]:
    """Yield JC4402 if backend.user is not a valid user name."""
    if options.user is not None and not re.fullmatch(r"[\w.][\w.-]*", options.user):
        because = "a user name must be letters, digits, dot, dash and underscore"
        yield Diagnostic(
            "JC4402",
            f"backend.user: {options.user!r} is not a valid user name",
            because,
            "backend.user=null",
            key="backend.user",
        )
