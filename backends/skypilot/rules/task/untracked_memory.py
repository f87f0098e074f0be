"""JC4711: memory of a Slurm that does not track it."""

from __future__ import annotations

from collections.abc import Iterator

from .....compiler.diagnostics.diagnostic import Diagnostic
from ...finished import Finished
from .._undo import undo


def check(task: Finished) -> Iterator[Diagnostic]:
    for machine in task.machines():
        if machine.cloud == "slurm" and machine.asked.get("memory") and not task.options.tracks_memory:
            key = task.key(machine.place("memory"))
            because = "this Slurm does not track memory, and would not start what asks for some"
            yield Diagnostic("JC4711", "mem cannot be asked for", because, undo(key, "mem=null"), key=key)
