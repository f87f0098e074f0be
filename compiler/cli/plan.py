"""jobc plan: estimate every size of a job. Writes no file except the plot, if one is requested."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from ..checks.capabilities import honoured
from ..checks.suppressions import Levels
from ..diagnostics.diagnostic import CompileError, Diagnostic, has_errors
from ..estimate.figures import Figures, figures
from ..estimate.limits import Finding, warnings, worst_per_code
from ..estimate.measured import read_step_time
from ..estimate.pace import Pace, samples_of_rank
from ..estimate.plot import ENDINGS, plot
from ..estimate.report import FORMATS
from ..frontend.sweep import at_point
from ..pipeline.sweeps import plan_sweep
from ..pipeline.types import Compiled, Planned
from ..plugins.backend import Backend, NotifyingBackend, RecoveringBackend
from ..untrusted_files import Unreadable
from .arguments import Arguments
from .reporting import DIAGNOSTICS, OK, report, tell_progress
from .request import request
from .terminal import put_text


def plan_command(arguments: Arguments) -> int:
    """Print every point's figures. Commas separate points with or without -m; --strict turns warnings into errors."""
    if arguments.plot and arguments.plot.suffix not in ENDINGS:
        because = f"the file extension selects the format, and {arguments.plot.suffix or 'none'} is not supported"
        named = arguments.plot.with_suffix(".png") if arguments.plot.name else arguments.plot / "sizes.png"
        hint = f"--plot {named}"
        raise CompileError([Diagnostic("JC1110", f"cannot draw {arguments.plot}", because, hint)])
    if arguments.plot and not arguments.plot.parent.is_dir():
        because, hint = f"folder {arguments.plot.parent} does not exist", f"--plot {arguments.plot.name}"
        raise CompileError([Diagnostic("JC1110", f"cannot draw {arguments.plot}", because, hint)])
    points = plan_sweep(request(arguments), tell_progress())
    sizes, of_sizes = estimate(points)
    diagnostics = [d for point in points for d in point.diagnostics] + of_sizes
    report(diagnostics)
    put_text(FORMATS[arguments.format or "table"](sizes))
    if arguments.plot:
        gpu_mem = [point.spec.estimate.gpu_mem for point in points]
        _draw(lambda file: plot(sizes, gpu_mem, file), arguments.plot)
    return DIAGNOSTICS if has_errors(diagnostics) else OK


def estimate(points: Sequence[Planned | Compiled]) -> tuple[list[Figures], list[Diagnostic]]:
    """Return every point's figures, and the findings of the rules on sizes. Raises CompileError JC2124.

    If several points set the same step time or run, it applies to the first of them and is scaled for the others.
    """
    labels = _apart([point.spec.point or point.spec.name for point in points])
    paces: dict[tuple[float | None, str | None], Pace | None] = {}
    sizes: list[Figures] = []
    findings: list[Finding] = []
    for label, point in zip(labels, points, strict=True):
        pace_key = point.spec.estimate.step_s, point.spec.estimate.run
        if pace_key not in paces:
            paces[pace_key] = _pace(*pace_key, samples_of_rank(point.plan.train))
        size = figures(label, point.spec, point.plan, paces[pace_key], _attempts(point), _notice_s(point), point.unsaid)
        sizes.append(size)
        for finding in warnings(size, point.spec, point.plan):
            placed = replace(finding.diagnostic, origin=point.origin_of(finding.diagnostic.key))
            findings += [replace(finding, diagnostic=d) for d in at_point(point.levels.judge([placed]), point.where)]
    comments = dict.fromkeys(comment for point in points for comment in point.levels.allowances)
    return sizes, [
        *worst_per_code(findings),
        *Levels(tuple(comments)).unused((finding.diagnostic for finding in findings), of_sizes=True),
    ]


def _apart(labels: Sequence[str]) -> list[str]:
    """Return unique labels. Labels are truncated to 60 characters, so repeated labels get a suffix such as `~2`."""
    apart: dict[str, None] = {}
    for label in labels:
        others = (f"{label}~{number}" for number in itertools.count(2))
        apart[next(candidate for candidate in itertools.chain([label], others) if candidate not in apart)] = None
    return list(apart)


def _attempts(one: Planned | Compiled) -> int:
    """Return the maximum number of times the engine starts the job; 1 if it cannot requeue."""
    backend, options = _backend(one), one.options if isinstance(one, Compiled) else one.typed.options
    starts_again = bool(honoured(backend, "lifecycle.max_requeues"))
    if isinstance(backend, RecoveringBackend):
        starts_again = backend.starts_again(one.plan, options)
    return 1 + one.plan.lifecycle.max_requeues if starts_again else 1


def _notice_s(one: Planned | Compiled) -> int:
    """Return how many seconds before the time limit the engine asks an attempt to save; 0 for most engines."""
    backend = _backend(one)
    return backend.notice_s(one.plan) if isinstance(backend, NotifyingBackend) else 0


def _backend(one: Planned | Compiled) -> Backend:
    return one.backend if isinstance(one, Compiled) else one.typed.backend


def _pace(step_s: float | None, run: str | None, samples: int) -> Pace | None:
    """Return the pace; None if no step time is set. Raises CompileError JC2124 for a run without a measured step.

    samples: samples per rank and step, for step_s or for a run that does not record its own.
    """
    if step_s is not None or run is None:
        return None if step_s is None else Pace(step_s, samples)
    try:
        measurement, because = read_step_time(Path(run)), "the run's metrics contain no step"
    except Unreadable as error:
        measurement, because = None, f"{error.path} {error.reason}"
    if measurement is None:
        hint = "estimate.run=null, or the folder of a run of the trainer: estimate.run=runs/NAME/RUN_ID"
        title = f"cannot read the step time from {run}"
        raise CompileError([Diagnostic("JC2124", title, because, hint, key="estimate.run")])
    return Pace(measurement.step_s, measurement.samples_of_rank or samples)


def _draw(draw: Callable[[Path], None], file: Path) -> None:
    try:
        draw(file)
    except ImportError:
        because, hint = "figures need Matplotlib, which is not installed", "pip install 'jobc[plot]'"
        raise CompileError([Diagnostic("JC2125", f"cannot draw {file}", because, hint)]) from None


COMMANDS: dict[str, Callable[[Arguments], int]] = {"plan": plan_command}
