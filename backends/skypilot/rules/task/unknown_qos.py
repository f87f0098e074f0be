"""JC4713: an unknown Slurm QOS."""

from __future__ import annotations

from collections.abc import Iterator

from .....compiler.diagnostics.diagnostic import Diagnostic, nearest
from ...finished import SBATCH, FinishedTask, text


def check(task: FinishedTask) -> Iterator[Diagnostic]:
    qos, qos_names = text(task.section(*SBATCH).get("qos")), task.options.qos
    if qos and qos_names is not None and qos not in qos_names:
        key = task.key((*SBATCH, "qos"))
        because = f"backend.qos lists {', '.join(qos_names) or 'none'}; Slurm would queue the job and never start it"
        hint = f"{key}={(nearest(qos, qos_names) or [*qos_names, 'null'])[0]}"
        yield Diagnostic("JC4713", f"QOS {qos} does not exist at this site", because, hint, key=key)
