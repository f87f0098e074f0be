"""JC2131: the loader workers' prefetched batches need more space than /dev/shm has."""

from __future__ import annotations

from collections.abc import Iterator

from ...plan.launch_plan import LaunchPlan
from ...spec.job_spec import JobSpec
from ...spec.value_types import format_bytes
from ..figures import Figures, size_text
from ..limits import SizeFinding, make_warning

MIB = 1024**2


def check(figures: Figures, spec: JobSpec, plan: LaunchPlan) -> Iterator[SizeFinding]:
    needed, has = figures.batches, figures.shm
    if not needed or not has or needed <= has:
        return
    rounded = -(-needed // MIB) * MIB
    fits = figures.mem is None or rounded < figures.mem
    hint = f"shm={format_bytes(rounded)}" if fits else "loader.workers=0, so that each rank reads its own samples"
    title = f"batches of {size_text(needed)} do not fit in {format_bytes(has)} of shared memory"
    because = "a node's loader workers use up to this much, and die with SIGBUS when /dev/shm is full"
    yield make_warning("JC2131", title, because, hint, "shm", needed / has)
