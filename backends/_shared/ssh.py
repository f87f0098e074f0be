"""Backends that reach their hosts by ssh itself: ssh, accelerate. Options and checks of the client."""

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
    """fanout: connections at once; connect_timeout: seconds; host_keys: known | new; user, port: on the hosts;
    options: more options of ssh, one word each."""

    fanout: Count
    connect_timeout: Duration
    host_keys: Literal["known", "new"]
    user: str | None
    port: Count | None
    options: tuple[str, ...]


def check_user(options: SshOptions) -> Iterator[Diagnostic]:
    """JC4402"""
    if options.user is not None and not re.fullmatch(r"[\w.][\w.-]*", options.user):
        because = "a user name must be letters, digits, dot, dash and underscore"
        yield Diagnostic(
            "JC4402",
            f"backend.user: {options.user!r} is not a valid user name",
            because,
            "backend.user=null",
            key="backend.user",
        )
