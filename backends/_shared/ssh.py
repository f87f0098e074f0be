"""Options and checks of the ssh client, for backends that reach their hosts by ssh: ssh, accelerate."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from ...compiler.diagnostics.diagnostic import Diagnostic
from ...compiler.spec.value_types import Count, Duration

CLIENT = "hosts/ssh.sh.j2"  # the template of client.sh


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
