"""JC2133: resuming a sharded model needs more CPU memory than the job requests."""

from __future__ import annotations

import math
from collections.abc import Iterator

from ...plan.launch_plan import LaunchPlan
from ...spec.job_spec import JobSpec
from ...spec.value_types import show_bytes
from ..figures import Figures, readable_bytes
from ..limits import Finding, warning

_GIB = 1 << 30


def check(figures: Figures, spec: JobSpec, plan: LaunchPlan) -> Iterator[Finding]:
    needs, has = figures.resuming, figures.mem
    if needs and has and needs > has:
        title = f"resuming takes about {readable_bytes(needs)} of a node's memory, but mem is {show_bytes(has)}"
        procs = plan.topology.procs
        because = f"a checkpoint contains the whole model, and each of a node's {procs} ranks reads all of it"
        yield warning(
            "JC2133", title, because, f"mem={show_bytes(math.ceil(1.1 * needs / _GIB) * _GIB)}", "mem", needs / has
        )
