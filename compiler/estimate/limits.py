"""What will go wrong at a size of a job, if the figures are right: rules as those of check.py, each of one code.

A sweep tells each of them once, in the words of the size that it hits worst, with all the points that it hits.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from ..diagnostics import Diagnostic, Severity
from ..plan import LaunchPlan
from ..spec import JobSpec
from ..values import show_bytes, show_duration
from .disk import fewer
from .figures import Figures, on_disk, readable_bytes
from .relief import relief

FAR = 3  # times as often, or as seldom


@dataclass(frozen=True)
class Finding:
    """by: how many times too much it is."""

    diagnostic: Diagnostic
    by: float


def told_once(found: Iterable[Finding]) -> list[Diagnostic]:
    """One diagnostic for each code and place: of several points that of the worst, with the points of all."""
    groups: dict[tuple[str, object, str], list[Finding]] = {}
    for each in found:
        d = each.diagnostic
        groups.setdefault((d.code, d.origin, d.allowed), []).append(each)
    return [_worst(group) for group in groups.values()]


def _worst(group: list[Finding]) -> Diagnostic:
    worst = max(group, key=lambda each: each.by).diagnostic
    points = tuple(dict.fromkeys(point for each in group for point in each.diagnostic.points))
    differs = len({each.diagnostic.because for each in group}) > 1
    because = f"with {worst.points[0]}, the worst of these, {worst.because}" if differs else worst.because
    return replace(worst, because=because, points=points)


def too_much_memory(found: Figures, spec: JobSpec, plan: LaunchPlan) -> Iterator[Finding]:
    """JC2120"""
    needs, has = found.memory, spec.estimate.gpu_mem
    if needs and has and found.gpus and needs.least > has:
        title = f"more than the {show_bytes(has)} of a GPU"
        parts = "gradients and optimizer" if needs.activations is None else "gradients, optimizer and activations"
        because = f"weights, {parts} take about {readable_bytes(needs.total)}"
        yield _warning("JC2120", title, because, relief(spec, plan, has), "estimate.gpu_mem", needs.total / has)


def too_short_a_grace(found: Figures, spec: JobSpec) -> Iterator[Finding]:
    """JC2121: it holds the step under way and the write."""
    grace, step_s = spec.lifecycle.grace, found.step_s or 0
    if found.memory and found.write_s is not None and (needed_s := found.write_s + step_s) > grace:
        title = f"a checkpoint is not written within the grace of {show_duration(grace)}"
        after = f", after a step of {step_s:.3g} s" if step_s else ""
        because = f"one of {readable_bytes(found.memory.checkpoint)} takes about {found.write_s:.0f} s{after}"
        hint = f"lifecycle.grace={show_duration(2 * math.ceil(needed_s) + 10)}"
        yield _warning("JC2121", title, because, hint, "lifecycle.grace", needed_s)


def far_from_the_best_interval(found: Figures, spec: JobSpec) -> Iterator[Finding]:
    """JC2122"""
    if not found.goodput or not found.step_s:
        return
    every, best = spec.checkpoint.every_steps, max(round(found.goodput.best_interval_s / found.step_s), 1)
    if every > FAR * best or best > FAR * every:
        title = f"checkpoint.every_steps={every} is far from the best"
        because = f"with these failures and saves, saving every {best:,} steps loses least (Daly 2006)"
        by = max(every / best, best / every)
        yield _warning("JC2122", title, because, f"checkpoint.every_steps={best}", "checkpoint.every_steps", by)


def too_little_time(found: Figures, spec: JobSpec) -> Iterator[Finding]:
    """JC2123"""
    limit, takes_s, attempts = spec.time, found.wall_s or found.total_s, found.attempts
    if limit and takes_s and takes_s > limit * attempts:
        title = f"not done within time={show_duration(limit)}"
        hint = f"time={show_duration(60 * math.ceil(takes_s / 60))}"
        again = "the engine does not start it again"
        if attempts > 1:
            hint = f"lifecycle.max_requeues={math.ceil(takes_s / limit) - 1}"
            again = f"the job is started again at most {attempts - 1} times"
        because = f"training takes about {show_duration(round(takes_s))}, and {again}"
        yield _warning("JC2123", title, because, hint, "time", takes_s / limit)


def too_little_disk(found: Figures, spec: JobSpec) -> Iterator[Finding]:
    """JC2126"""
    needed, has = on_disk(found), spec.estimate.disk
    if has and needed and found.memory and needed > has:
        title = f"more than the {show_bytes(has)} that are free where runs lie"
        one = readable_bytes(found.memory.checkpoint)
        because = f"at most {found.checkpoints} checkpoints of {one} lie there at once, {readable_bytes(needed)}"
        hint = fewer(spec.checkpoint, found.schedule.steps, has // found.memory.checkpoint)
        yield _warning("JC2126", title, because, hint, "estimate.disk", needed / has)


def _warning(code: str, title: str, because: str, hint: str, key: str, by: float) -> Finding:
    return Finding(Diagnostic(code, title, because, hint, key=key, severity=Severity.WARNING), by)


RULES = (too_short_a_grace, far_from_the_best_interval, too_little_time, too_little_disk)


def warnings(found: Figures, spec: JobSpec, plan: LaunchPlan) -> Iterator[Finding]:
    """What every rule says of one size."""
    yield from too_much_memory(found, spec, plan)
    for rule in RULES:
        yield from rule(found, spec)
