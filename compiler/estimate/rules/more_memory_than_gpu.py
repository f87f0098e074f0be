"""JC2120: a rank needs more memory than its GPU has."""

from __future__ import annotations

from collections.abc import Iterator

from ...plan.launch_plan import LaunchPlan
from ...spec.job_spec import JobSpec
from ...spec.value_types import format_bytes
from ..figures import Figures, size_text
from ..limits import SizeFinding, make_warning
from ..memory_hint import hint_to_fit_on_gpu


def check(figures: Figures, spec: JobSpec, plan: LaunchPlan) -> Iterator[SizeFinding]:
    needs, has = figures.memory, spec.estimate.gpu_mem
    if needs and has and figures.gpus and needs.least > has:
        title = f"a rank needs more than the {format_bytes(has)} of a GPU"
        optional_parts = [part for part in ("optimizer", "activations") if part not in needs.unknown]
        *parts, last = ["weights", "gradients", *optional_parts]
        because = f"{', '.join(parts)} and {last} take about {size_text(needs.total)}"
        yield make_warning(
            "JC2120", title, because, hint_to_fit_on_gpu(spec, plan, has), "estimate.gpu_mem", needs.total / has
        )
