"""Compile or plan every point of a sweep, and emit the directory that starts several points at once."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from ..checks.suppressions import Levels
from ..diagnostics.diagnostic import CompileError, Diagnostic, merged
from ..emit.source_map import build_source_map
from ..frontend.compose import (
    hydra_ready,
)
from ..frontend.sweep import SweepPoint, at_point, at_points, sweep_points
from ..plugins.backend import Point, SweepingBackend
from ..plugins.registry import plugin
from ..spec.job_spec import open_keys
from .common_files import job_file
from .compile import compile_point, plan_point, search_path, with_unused_suppressions
from .library import PROGRAM, contents_of, program
from .origins import with_origins
from .plugin_calls import plugin_step, render_for
from .seal import recorded_request, seal
from .types import Compiled, Planned, Request, SweepFolder

T = TypeVar("T", Compiled, Planned)


Tell = Callable[[int, int], None]


def _nobody(done: int, count: int) -> None:
    pass


def compile_sweep(request: Request, tell: Tell = _nobody) -> list[Compiled]:
    """Compile every point of a -m command line. Raises CompileError with the errors of all points.

    tell: called before each point with the number of finished points and the total
    """
    compiled = _every_point(request, compile_point, tell, aside=("backend", "name"))
    return with_unused_suppressions([replace(point, sweep=request) for point in compiled])


def compile_unlabelled(request: Request, tell: Tell = _nobody) -> list[Compiled]:
    """Compile every point without the point suffix in names, so that points can be compared."""
    return with_unused_suppressions(_every_point(request, compile_point, tell, aside=None))


def plan_sweep(request: Request, tell: Tell = _nobody) -> list[Planned]:
    """Return the plan of every point of a sweep, whether or not its backend could start it."""
    return _every_point(request, plan_point, tell)


def _every_point(request: Request, make: Callable[..., T], tell: Tell, aside: Sequence[str] | None = ()) -> list[T]:
    """Apply `make` to every point. Raises CompileError with the diagnostics of all points, each naming its point.

    aside: see sweep_points
    """
    results: list[T] = []
    diagnosed: list[tuple[SweepPoint, Sequence[Diagnostic]]] = []
    with hydra_ready(search_path(request)) as loader:
        points = list(sweep_points(request.words, open_keys(request.words), loader, aside))
        for done, point in enumerate(points):
            tell(done, len(points))
            try:
                result, label = make(replace(request, words=point.words), point.overrides, loader), point.shown()
                results.append(replace(result, diagnostics=tuple(at_point(result.diagnostics, label)), where=label))
                diagnosed.append((point, result.diagnostics))
            except CompileError as error:
                diagnosed.append((point, error.diagnostics))
    if len(results) < len(diagnosed):
        raise CompileError(merged(at_points(diagnosed)))
    return results


def sweep_folders(compiled: Sequence[Compiled]) -> list[SweepFolder]:
    """Return the directories that start several points at once, one for each job name and backend that supports it."""
    folders = []
    for _, group in itertools.groupby(sorted(compiled, key=_name_and_backend), _name_and_backend):
        points = list(group)
        if len(points) > 1 and isinstance(points[0].backend, SweepingBackend):
            folders.append(_sweep_folder(points, points[0].backend))
    return folders


def _name_and_backend(compiled: Compiled) -> tuple[str, str]:
    return compiled.plan.name, compiled.backend.name


def _sweep_folder(compiled: Sequence[Compiled], backend: SweepingBackend) -> SweepFolder:
    first, chosen, path = compiled[0], plugin(backend.name), f"{compiled[0].plan.name}+sweep/{backend.name}"
    points = [Point(c.place, c.plan, c.options, {a.path: a.text for a in c.artifacts}, c.source_map) for c in compiled]
    with plugin_step(chosen, "check a sweep"):
        diagnostics = list(backend.check_sweep(points))
    if diagnostics:
        spec = first.source_map.spec
        placed = with_origins(diagnostics, lambda key: spec[key].origin if key in spec else None)
        return SweepFolder((), tuple(Levels().settle(placed)), path)
    with plugin_step(chosen, "emit a sweep"):
        render = render_for(chosen, first.plan, first.options, first.spec)
        files = list(backend.emit_sweep(points, render))
    request_record = recorded_request(first.sweep, list(first.sweep.words)) if first.sweep else None
    jobctl = program(contents_of(first.plan), chosen.folder)
    artifacts = [*files, jobctl, job_file(render, first.plan, first.backend, {}, sweep=True)]
    sealed = seal(artifacts, path, {}, {}, request_record)
    of_first, with_lines = first.source_map, [file for file in sealed if file.path != PROGRAM]
    source_map = build_source_map(with_lines, of_first.table, of_first.spec, of_first.rules, of_first.options)
    return SweepFolder(sealed, (), path, source_map)
