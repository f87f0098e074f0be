"""JC2012: a command without a program: no words, or an option in front."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from ...diagnostics.diagnostic import Diagnostic
from ...spec.job_spec import JobSpec


def check(spec: JobSpec) -> Iterator[Diagnostic]:
    if spec.command is not None and not "".join(spec.command[:1]).strip():
        because = "there is no program to run"
        hint = "a program after --, such as -- train.py; with no -- at all the trainer runs"
        yield Diagnostic("JC2012", "command is empty", because, hint, key="command")
    elif spec.command and spec.command[0].startswith("-") and spec.command[0] != "-m":  # -m MODULE is for Python
        title, because = f"command begins with {spec.command[0]}", "the first word after -- is the program"
        hint = f"-- train.py {shlex.join(spec.command)}"
        yield Diagnostic("JC2012", title, because, hint, key="command")
