"""JC3001: each rank would start ranks of its own, for the command is a launcher and jobc starts one as well."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence

from ...diagnostics import Diagnostic
from ...plan import LaunchPlan
from ...spec import JobSpec
from ._programs import launcher
from ._shell import simple_commands


def check(spec: JobSpec, plan: LaunchPlan) -> Iterator[Diagnostic]:
    procs, command = plan.topology.procs, spec.command or ()
    name = next(filter(None, map(launcher, simple_commands(command))), "")
    if not name or procs < 2:
        return
    title = f"{name} would run in each of the {procs} ranks of a node"
    because = f"launcher={spec.launcher} starts {procs} processes already, and each would start as many again"
    hint = f"procs=1, and {name} starts the ranks of the node"
    if script := _from_the_script(command):
        hint = f"-- {script}, for jobc starts the ranks; or {hint}"
    yield Diagnostic("JC3001", title, because, hint, key="command", judgment=True)


def _from_the_script(command: Sequence[str]) -> str:
    """The words from the program on, `train.py --lr 0.1`; "" where none is a script of Python."""
    first = next((i for i, word in enumerate(command) if re.fullmatch(r"\S+\.py", word)), None)
    return shlex.join(command[first:]) if first is not None else ""
