"""JC3010: the whole command quoted into one word, which would be looked for as a file of that name."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

from ...diagnostics import Diagnostic
from ...plan import LaunchPlan
from ...spec import JobSpec


def check(spec: JobSpec, plan: LaunchPlan) -> Iterator[Diagnostic]:
    if spec.command and re.match(
        r"\S+\s+-|(python[\d.]*|bash|sh|torchrun|accelerate)\s|\S+\.(py|sh)\s", spec.command[0]
    ):
        because = "no shell splits it: a program of that whole name would be started"
        text = " ".join(spec.command)
        hint = f"-- {text}; or, for a shell, -- bash -c {shlex.quote(text)}"
        title = f"the command is one word with spaces: {spec.command[0]!r}"
        yield Diagnostic("JC3010", title, because, hint, key="command", judgment=True)
