"""JC2126: a run's checkpoints need more disk space than is free."""

from __future__ import annotations

from collections.abc import Iterator

from ...plan.launch_plan import LaunchPlan
from ...spec.job_spec import JobSpec
from ...spec.value_types import format_bytes
from ..disk import fewer_checkpoints_hint
from ..figures import Figures, bytes_of_checkpoints, size_text
from ..limits import SizeFinding, make_warning


def check(figures: Figures, spec: JobSpec, plan: LaunchPlan) -> Iterator[SizeFinding]:
    needed, has, size = (
        bytes_of_checkpoints(figures),
        spec.estimate.disk,
        figures.memory.checkpoint if figures.memory else None,
    )
    if has and needed and size and needed > has:
        title = f"checkpoints need more than the {format_bytes(has)} free in the run root"
        readable = size_text(size)
        because = f"up to {figures.checkpoints} checkpoints of {readable} exist at once, {size_text(needed)} in total"
        hint = fewer_checkpoints_hint(spec.checkpoint, figures.schedule, has // size)
        yield make_warning("JC2126", title, because, hint, "estimate.disk", needed / has)
