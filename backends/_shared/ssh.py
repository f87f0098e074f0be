"""The ssh client's options and checks, for the backends that reach their hosts by ssh: ssh, accelerate."""

import re
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Literal

from ...compiler.api import Count, Diagnostic, Duration, LaunchPlan, Leaf, Omit, run_all
from ...runtime.system.frozen_dataclass import dataclass
from . import hosts


@dataclass(frozen=True)
class SshOptions:
    """The ssh client's options, which conf/backend/ssh.yaml describes."""

    fanout: Count
    connect_timeout: Duration
    host_keys: Literal["known", "new"]
    user: str | None
    port: Count | None
    options: tuple[str, ...]


# An ssh command that never prompts, gives up on dead hosts, and accepts new host keys only if allowed.
SSH_COMMAND: tuple[str | Leaf, ...] = (
    "ssh", "-o", "BatchMode=yes", "-o", lambda v: f"ConnectTimeout={v.options.connect_timeout}",
    "-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3",
    "-o", lambda v: f"StrictHostKeyChecking={'yes' if v.options.host_keys == 'known' else 'accept-new'}",
)  # fmt: skip


class SshHostsBackend(hosts.HostsBackend):
    """A backend that reaches its hosts by ssh."""

    Options: type[Any] = SshOptions

    def check(self, plan: LaunchPlan, options: Any) -> Iterator[Diagnostic]:
        return run_all(partial(super().check, plan, options), lambda: check_user(options))

    def engine_settings(self, plan: LaunchPlan, options: Any) -> Mapping[str, Any]:
        return ssh_settings(options)


def ssh_settings(options: SshOptions) -> dict[str, Any]:
    more: list[Leaf] = [
        lambda v: Omit if v.options.user is None else "-l",
        lambda v: Omit if v.options.user is None else v.options.user,
        lambda v: Omit if v.options.port is None else "-p",
        lambda v: Omit if v.options.port is None else str(v.options.port),
        *(lambda v, number=number: v.options.options[number] for number in range(len(options.options))),
    ]
    return hosts.host_settings("ssh", [*SSH_COMMAND, *more])


def check_user(options: SshOptions) -> Iterator[Diagnostic]:
    """Yield JC4402 if backend.user is not a valid user name."""
    if options.user is not None and not re.fullmatch(r"[\w.][\w.-]*", options.user):
        because = "a user name may contain only letters, digits, dots, dashes and underscores"
        title = f"backend.user: {options.user!r} is not a valid user name"
        yield Diagnostic("JC4402", title, because, "backend.user=null", key="backend.user")
