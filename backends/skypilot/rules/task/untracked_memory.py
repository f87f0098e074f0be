"""JC4711: memory requested on a Slurm cluster that does not track memory."""

from __future__ import annotations

from collections.abc import Iterator

from .....compiler.diagnostics.diagnostic import Diagnostic
from ...finished import FinishedTask
from .._undo import undo


def check(task: FinishedTask) -> Iterator[Diagnostic]:
    for machine in task.machines():
        if machine.cloud == "slurm" and machine.asked.get("memory") and not task.options.tracks_memory:
            key = task.key(machine.place("memory"))
            because = "this Slurm does not track memory, and rejects jobs that request it"
            yield Diagnostic("JC4711", "mem is not supported on this slurm", because, undo(key, "mem=null"), key=key)
