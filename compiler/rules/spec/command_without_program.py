"""JC2012: a command without a program: no words, or an option first."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from ...diagnostics.diagnostic import Diagnostic
from ...spec.job_spec import JobSpec


def check(spec: JobSpec) -> Iterator[Diagnostic]:
    if spec.command is not None and not "".join(spec.command[:1]).strip():
        because = "no program is given"
        hint = "add a program after --, such as -- train.py; without -- jobc's own trainer runs"
        yield Diagnostic("JC2012", "command is empty", because, hint, key="command")
    elif spec.command and spec.command[0].startswith("-") and spec.command[0] != "-m":  # -m MODULE is for Python
        title, because = f"command begins with {spec.command[0]}", "the first argument after -- must be the program"
        hint = f"-- train.py {shlex.join(spec.command)}"
        yield Diagnostic("JC2012", title, because, hint, key="command")
