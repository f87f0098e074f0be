"""JC2133: resuming a sharded model needs more CPU memory than the job requests."""

from __future__ import annotations

import math
from collections.abc import Iterator

from ...plan.launch_plan import LaunchPlan
from ...spec.job_spec import JobSpec
from ...spec.value_types import format_bytes
from ..figures import Figures, size_text
from ..limits import SizeFinding, make_warning

_GIB = 1 << 30


def check(figures: Figures, spec: JobSpec, plan: LaunchPlan) -> Iterator[SizeFinding]:
    needs, has = figures.resuming, figures.mem
    if needs and has and needs > has:
        title = f"resuming takes about {size_text(needs)} of a node's memory, but mem is {format_bytes(has)}"
        procs = plan.topology.procs
        because = f"a checkpoint contains the whole model, and each of a node's {procs} ranks reads all of it"
        yield make_warning(
            "JC2133", title, because, f"mem={format_bytes(math.ceil(1.1 * needs / _GIB) * _GIB)}", "mem", needs / has
        )
