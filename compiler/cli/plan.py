"""jobc plan: print estimates for every sweep point, such as each of nodes=1,2,8. Writes no file."""

import itertools
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ...runtime.system.untrusted_files import Unreadable
from ..checks.capabilities import supported_values
from ..checks.suppressions import SeverityFilter
from ..diagnostics.diagnostic import CompileError, Diagnostic, has_errors
from ..estimate.figures import Figures, estimate_figures
from ..estimate.limits import SizeFinding, find_exceeded_limits, worst_per_code
from ..estimate.report import FORMATS
from ..estimate.step_time import StepTimeEstimate, read_step_time, samples_per_rank_and_step
from ..frontend.sweep import with_sweep_point
from ..pipeline.sweeps import plan_sweep
from ..pipeline.types import CompiledJob, PlannedJob
from ..plan.launch_plan import LaunchPlan
from ..plugins.backend import Backend
from .arguments import Arguments
from .compiling import build_request
from .reporting import DIAGNOSTICS, OK, progress_printer, report_diagnostics
from .terminal import print_text

MISSING_FACTS = """\
jobc knows nothing else about your program. For example, add:
  time and cost: loop.steps=1000 estimate.step_s=0.5 estimate.prices.any=2
  steps: estimate.samples=1000000 batch.micro=16 loop.epochs=3 loop.steps=null
  memory: estimate.parameters=7e9 estimate.gpu_mem=80GiB"""


def plan_command(arguments: Arguments) -> int:
    """Print every point's figures. Commas separate points with or without -m; --strict turns warnings into errors."""
    points = plan_sweep(build_request(arguments), progress_printer())
    sizes, of_sizes = estimate_points(points)
    diagnostics = [d for point in points for d in point.diagnostics] + of_sizes
    report_diagnostics(diagnostics)
    print_text(FORMATS[arguments.format or "table"](sizes))
    if arguments.format in (None, "table") and all(size.is_unknown for size in sizes):
        print_text(f"\n{MISSING_FACTS}")
    return DIAGNOSTICS if has_errors(diagnostics) else OK


def estimate_points(points: Sequence[PlannedJob | CompiledJob]) -> tuple[list[Figures], list[Diagnostic]]:
    """Return the figures of every point, and the findings of the rules about sizes. Raises CompileError JC2124.

    If several points set the same step time or run, it applies to the first point and is scaled for the others.
    """
    labels = _unique_labels([point.spec.point or point.spec.name for point in points])
    step_times: dict[tuple[float | None, str | None], StepTimeEstimate | None] = {}
    sizes: list[Figures] = []
    findings: list[SizeFinding] = []
    for label, point in zip(labels, points, strict=True):
        step_time_key = point.spec.estimate.step_s, point.spec.estimate.run
        if step_time_key not in step_times:
            step_times[step_time_key] = _step_time(*step_time_key, samples_per_rank_and_step(point.plan.train))
        typed = point if isinstance(point, CompiledJob) else point.typed
        step_time, attempts = step_times[step_time_key], _max_attempts(point.plan, typed.backend, typed.options)
        notice_s = typed.backend.notice_s(point.plan)
        size = estimate_figures(label, point.spec, point.plan, step_time, attempts, notice_s, point.unsaid)
        sizes.append(size)
        for finding in find_exceeded_limits(size, point.spec, point.plan):
            placed = replace(finding.diagnostic, origin=point.origin_of(finding.diagnostic.key))
            judged = with_sweep_point(point.levels.apply_severities([placed]), point.where)
            findings += [replace(finding, diagnostic=d) for d in judged]
    comments = dict.fromkeys(comment for point in points for comment in point.levels.allowances)
    return sizes, [
        *worst_per_code(findings),
        *SeverityFilter(tuple(comments)).find_unused_allowances(
            (finding.diagnostic for finding in findings), of_sizes=True
        ),
    ]


def _unique_labels(labels: Sequence[str]) -> list[str]:
    """Return unique labels. Labels cut to 60 characters may repeat; repeated ones get a suffix such as `~2`."""
    apart: dict[str, None] = {}
    for label in labels:
        others = (f"{label}~{number}" for number in itertools.count(2))
        apart[next(candidate for candidate in itertools.chain([label], others) if candidate not in apart)] = None
    return list(apart)


def _max_attempts(plan: LaunchPlan, backend: Backend, options: Any) -> int:
    """Return how many times the engine may start the job, which is 1 if it cannot requeue."""
    starts_again = supported_values(backend, "lifecycle.max_requeues") and backend.starts_again(plan, options)
    return 1 + plan.lifecycle.max_requeues if starts_again else 1


def _step_time(step_s: float | None, run: str | None, samples: int) -> StepTimeEstimate | None:
    """Return the step time, or None if the user set none. Raises CompileError JC2124 for a run without a measured step.

    samples: samples per rank and step. It is used with step_s, and with runs that do not record this number.
    """
    if step_s is not None or run is None:
        return None if step_s is None else StepTimeEstimate(step_s, samples)
    try:
        if estimate := read_step_time(Path(run), samples):
            return estimate
        because = "the run's metrics contain no steps"
    except Unreadable as error:
        because = f"{error.path} {error.reason}"
    hint = "estimate.run=null, or the folder of a run that used the trainer: estimate.run=runs/NAME/RUN_ID"
    title = f"cannot read the step time from {run}"
    raise CompileError([Diagnostic("JC2124", title, because, hint, key="estimate.run")])
