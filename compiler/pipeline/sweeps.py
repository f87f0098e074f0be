"""Compile or plan every point of a sweep, and put points whose files differ in only a few lines into one directory."""

import itertools
import json
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from ..diagnostics.diagnostic import CompileError, Diagnostic, merge_equal_diagnostics
from ..emit.artifact import PROGRAM, Artifact, LineRange
from ..emit.job_json import JOB, to_canonical_text
from ..emit.points_json import POINTS, PointFiles, points_json_text
from ..emit.source_map import SEAL, build_source_map
from ..frontend.compose import hydra_session
from ..frontend.sweep import (
    SweepPoint,
    all_point_diagnostics,
    check_unswept_argument,
    common_label,
    sweep_points,
    with_sweep_point,
)
from ..plugins.backend import Point
from ..plugins.registry import find_plugin
from ..spec.job_spec import open_keys
from .compile import add_notes_on_unused_suppressions, compile_point, config_search_path, plan_point
from .plugin_calls import diagnose_plugin_errors, make_render
from .resolve import add_origins
from .seal import request_to_record, seal_artifact
from .types import CompiledJob, CompileRequest, PlannedJob, SweepFolder

ASIDE = ("backend", "name")  # keys that a point's label omits, because the path of the directory contains them
T = TypeVar("T", CompiledJob, PlannedJob)

ReportProgress = Callable[[int, int], None]


def _ignore_progress(done: int, count: int) -> None:
    pass


def compile_sweep(
    request: CompileRequest, report_progress: ReportProgress = _ignore_progress, with_labels: bool = True
) -> list[CompiledJob]:
    """Compile every point of a -m command line. Raises CompileError with the errors of all points.

    report_progress: called before each point with the number of finished points and the total.
    with_labels: whether names end in the point's label. Without labels, points can be compared.
    """
    compiled = _map_points(request, compile_point, report_progress, omitted_keys=ASIDE if with_labels else None)
    return add_notes_on_unused_suppressions([replace(point, sweep=request) for point in compiled])


def plan_sweep(request: CompileRequest, report_progress: ReportProgress = _ignore_progress) -> list[PlannedJob]:
    """Return the plan of every point of a sweep, even if its backend cannot start it."""
    return _map_points(request, plan_point, report_progress)


def _map_points(
    request: CompileRequest,
    process_point: Callable[..., T],
    report_progress: ReportProgress,
    omitted_keys: Sequence[str] | None = (),
) -> list[T]:
    """Apply `process_point` to every point. Raises CompileError with the diagnostics of all points, each with its
    point.

    omitted_keys: see sweep_points.
    """
    results: list[T] = []
    diagnosed: list[tuple[SweepPoint, Sequence[Diagnostic]]] = []
    with hydra_session(config_search_path(request)) as loader:
        points = list(sweep_points(request.words, open_keys(request.words), loader, omitted_keys))
        for done, point in enumerate(points):
            report_progress(done, len(points))
            try:
                result, label = (
                    process_point(replace(request, words=point.words), point.overrides, loader),
                    point.format_label(),
                )
                if len(points) == 1:
                    unswept = check_unswept_argument(request.command or ())
                    found = result.levels.finish_stage(unswept, result.diagnostics)
                    result = replace(result, diagnostics=tuple(found))
                at_label = tuple(with_sweep_point(result.diagnostics, label))
                results.append(replace(result, diagnostics=at_label, where=label, point=point))
                diagnosed.append((point, result.diagnostics))
            except CompileError as error:
                diagnosed.append((point, error.diagnostics))
    if len(results) < len(diagnosed):
        raise CompileError(merge_equal_diagnostics(all_point_diagnostics(diagnosed)))
    return results


def group_points_into_folders(
    compiled: Sequence[CompiledJob],
) -> tuple[list[CompiledJob | SweepFolder], list[Diagnostic]]:
    """Return the directories to write, and diagnostics about points that need more than one directory.

    Points with the same name and backend share one directory if they differ only in the text of their files.
    """
    folders: list[CompiledJob | SweepFolder] = []
    diagnostics: list[Diagnostic] = []
    for jobs in _group_by(compiled, lambda job: (job.plan.name, job.backend.name)):
        groups = _group_by(jobs, _launch_shape)
        labels = [common_label([job.point for job in group if job.point], ASIDE) for group in groups]
        for group, label in zip(groups, labels, strict=True):
            if len(group) == 1:
                folders.append(group[0])
                continue
            own = label if labels.count(label) == 1 else group[0].spec.point
            name = "+".join([group[0].plan.name, *([own] if own and len(groups) > 1 else []), "sweep"])
            folders.append(_sweep_folder(group, name))
        diagnostics += _check_sweep(groups)
    return folders, diagnostics


def _group_by(compiled: Iterable[CompiledJob], key: Callable[[CompiledJob], Hashable]) -> list[list[CompiledJob]]:
    groups: dict[Hashable, list[CompiledJob]] = {}
    for job in compiled:
        groups.setdefault(key(job), []).append(job)
    return list(groups.values())


def _launch_shape(compiled: CompiledJob) -> Hashable:
    files = sorted((file.path, file.executable, file.binary or b"") for file in compiled.artifacts)
    plan, backend = compiled.plan, compiled.backend
    shape = backend.sweep_shape(_to_point(compiled))
    return (tuple(files), plan.run.root, plan.run.storage, plan.topology.nodes, shape)


def _to_point(compiled: CompiledJob) -> Point:
    return Point(compiled.options, {file.path: file.text for file in compiled.artifacts})


def _check_sweep(groups: Sequence[Sequence[CompiledJob]]) -> Iterable[Diagnostic]:
    first = groups[0][0]
    if len(groups) == 1:
        return ()
    with diagnose_plugin_errors(find_plugin(first.backend.name), "check a sweep"):
        diagnostics = list(first.backend.check_sweep([[_to_point(job) for job in group] for group in groups]))
    return first.levels.finish_stage(add_origins(diagnostics, first.origin_of))


def _sweep_folder(compiled: Sequence[CompiledJob], name: str) -> SweepFolder:
    """Return the directory for these points: the files of the first one, and points.json."""
    first, backend = compiled[0], compiled[0].backend
    files = {file.path: file for file in first.artifacts}
    chosen = find_plugin(backend.name)
    with diagnose_plugin_errors(chosen, "emit a sweep"):
        render = make_render(chosen, first.plan, first.options, first.spec)
        emitted = backend.emit_sweep([_to_point(job) for job in compiled], render)
        files |= {file.path: file for file in emitted}
    place = f"{name}/{backend.name}"
    unfinished = _seal_sweep_files(files, "", name, place, compiled)
    texts = {file.path: file.text for file in unfinished}
    text = points_json_text(texts, [_point_files(job) for job in compiled])
    artifacts = _seal_sweep_files(files, text, name, place, compiled)
    with_lines, of_first = [file for file in artifacts if file.path != PROGRAM], first.source_map
    source_map = build_source_map(with_lines, of_first.table, of_first.spec, of_first.rules, of_first.options)
    return SweepFolder(artifacts, place, source_map, len(compiled))


def _point_files(compiled: CompiledJob) -> PointFiles:
    point = compiled.point
    assert point is not None, "the artifact was compiled as a point of a sweep"
    files = {file.path: file.text for file in compiled.artifacts}
    return PointFiles(point.format_label(), compiled.plan.run.folder, point.varied_words, files)


def _seal_sweep_files(
    files: Mapping[str, Artifact], points: str, name: str, place: str, compiled: Sequence[CompiledJob]
) -> tuple[Artifact, ...]:
    """Return all files of a sweep's directory.

    points: text of points.json.
    name: name of the sweep's own runs.
    """
    job, request = files[JOB], compiled[0].sweep
    assert request is not None, "the artifact was compiled as a point of a sweep"
    tree = json.loads(job.text)
    settings = dict(itertools.takewhile(lambda item: item[0] != "place", tree.items()))
    job = replace(job, text=to_canonical_text({**settings, "job": name, "sweep": True}))
    lines = (LineRange(1, points.count("\n"), (), SEAL),)
    others = [file for path, file in files.items() if path != JOB]
    inputs: dict[str, str] = {}
    for point in compiled:
        (point_job,) = (file for file in point.artifacts if file.path == JOB)
        inputs |= json.loads(point_job.text)["inputs"]
    return seal_artifact(
        [*others, job, Artifact(POINTS, points, lines=lines)],
        place,
        {record: tree[record] for record in ("identity", "spec", "plan")},
        inputs,
        request_to_record(request, list(request.words)),
        tree["versions"].get("plugin"),
    )
