"""JC3001: each rank would start ranks of its own, for the command is a launcher and jobc starts one as well."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence

from ...diagnostics import Diagnostic
from ...plan import LaunchPlan
from ...spec import JobSpec
from ._shell import program, simple_commands

_LAUNCHERS = ("torchrun", "accelerate", "deepspeed", "mpirun", "mpiexec", "srun", "horovodrun", "colossalai")
_MODULES = (
    "torch.distributed.run",
    "torch.distributed.launch",
    "accelerate.commands.launch",
    "deepspeed.launcher.runner",
)
_MODULE = re.compile(r"(?:\S*python[\d.]* )?(?:-[XW] \S+ |-(?![XW] )\S+ )*?-\w*m ?(\S+)")  # of Python's own options


def check(spec: JobSpec, plan: LaunchPlan) -> Iterator[Diagnostic]:
    procs, command = plan.topology.procs, spec.command or ()
    launcher = _launcher(command)
    if not launcher or procs < 2:
        return
    title = f"{launcher} would run in each of the {procs} ranks of a node"
    because = f"launcher={spec.launcher} starts {procs} processes already, and each would start as many again"
    hint = f"procs=1, and {launcher} starts the ranks of the node"
    if script := _from_the_script(command):
        hint = f"-- {script}, for jobc starts the ranks; or {hint}"
    yield Diagnostic("JC3001", title, because, hint, key="command", judgment=True)


def _launcher(command: Sequence[str]) -> str:
    for words in simple_commands(command):
        module = _MODULE.match(" ".join(words))
        if module and module[1] in _MODULES:
            return module[1]
        if program(words) in _LAUNCHERS:
            return program(words)
    return ""


def _from_the_script(command: Sequence[str]) -> str:
    """The words from the program on, `train.py --lr 0.1`; "" where none is a script of Python."""
    first = next((i for i, word in enumerate(command) if re.fullmatch(r"\S+\.py", word)), None)
    return shlex.join(command[first:]) if first is not None else ""
