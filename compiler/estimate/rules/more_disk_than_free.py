"""JC2126: a run's checkpoints need more disk space than is free."""

from __future__ import annotations

from collections.abc import Iterator

from ...plan.launch_plan import LaunchPlan
from ...spec.job_spec import JobSpec
from ...spec.value_types import show_bytes
from ..disk import fewer_checkpoints_hint
from ..figures import Figures, on_disk, readable_bytes
from ..limits import Finding, warning


def check(figures: Figures, spec: JobSpec, plan: LaunchPlan) -> Iterator[Finding]:
    needed, has, size = on_disk(figures), spec.estimate.disk, figures.memory.checkpoint if figures.memory else None
    if has and needed and size and needed > has:
        title = f"checkpoints need more than the {show_bytes(has)} free in the run root"
        readable = readable_bytes(size)
        because = (
            f"up to {figures.checkpoints} checkpoints of {readable} exist at once, {readable_bytes(needed)} in total"
        )
        hint = fewer_checkpoints_hint(spec.checkpoint, figures.schedule, has // size)
        yield warning("JC2126", title, because, hint, "estimate.disk", needed / has)
