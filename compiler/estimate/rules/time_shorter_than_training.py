"""JC2123: training does not finish within its time limit."""

from __future__ import annotations

import math
from collections.abc import Iterator

from ...plan.launch_plan import LaunchPlan
from ...spec.job_spec import JobSpec
from ...spec.value_types import format_duration
from ..figures import Figures
from ..limits import SizeFinding, make_warning


def check(figures: Figures, spec: JobSpec, plan: LaunchPlan) -> Iterator[SizeFinding]:
    limit, takes_s, attempts = spec.time, figures.wall_s or figures.total_s, figures.attempts
    if not limit or not takes_s:
        return
    notice_s = figures.notice_s
    trains_s = max(limit - notice_s, 0)
    if takes_s > trains_s * attempts:
        title = f"training does not finish within time={format_duration(limit)}"
        hint = f"time={format_duration(60 * math.ceil((takes_s + notice_s) / 60))}"
        if attempts > 1 and trains_s:
            hint = f"lifecycle.max_requeues={math.ceil(takes_s / trains_s) - 1}"
        reason = f"training takes about {format_duration(round(takes_s))}"
        if notice_s:
            reason += f", each attempt is asked to save up to {format_duration(notice_s)} before its limit"
        again = f"the job is requeued at most {attempts - 1} times" if attempts > 1 else ""
        because = f"{reason}, and {again or 'the engine does not requeue the job'}"
        yield make_warning("JC2123", title, because, hint, "time", takes_s / limit)
