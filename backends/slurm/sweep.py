"""A sweep as one job array: each element becomes the job.sbatch of its point.

In   the compiled points, in the order of the sweep
Out  array.sbatch, points (line N+1 = the artifact of element N)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...compiler.diagnostics.diagnostic import Diagnostic, Severity
from ...compiler.emit.artifact import Artifact
from ...compiler.emit.render import Render
from ...compiler.plugins.backend import Point


def check(points: Sequence[Point]) -> Iterator[Diagnostic]:
    """Yield JC4308 if #SBATCH lines differ, which an array's elements share: an error with backend.array_limit."""
    lines_by_point = [dict.fromkeys(directives(point)) for point in points]
    differing = [
        line
        for lines in lines_by_point
        for line in lines
        if not all(line in point_lines for point_lines in lines_by_point)
    ]
    if differing:
        options = sorted({line.partition("=")[0] for line in differing})
        title = f"these points cannot be a job array: they differ in {', '.join(options)}"
        because = "all elements of an array have the same nodes, time and partition; each point becomes its own job"
        key, asked_for = _key(points, differing), any(point.options.array_limit for point in points)
        hint = f"to get arrays, run one sweep for each value: {key}={points[0].source_map.spec[key].value}"
        hint += ", or backend.array_limit=null" if asked_for else ""
        severity = Severity.ERROR if asked_for else Severity.NOTE
        yield Diagnostic("JC4308", title, because, hint, key=key, severity=severity)


def emit(points: Sequence[Point], render: Render) -> Iterator[Artifact]:
    lines, last = directives(points[0]), len(points) - 1
    yield render.template("array.sbatch.j2", "array.sbatch", executable=True, directives=lines, last=last)
    yield render.table("points", [point.place for point in points], "point")


def directives(point: Point) -> list[str]:
    """Return the options in the #SBATCH lines of a point."""
    return [row.removeprefix("#SBATCH ") for row in _rows(point) if row.startswith("#SBATCH ")]


def _rows(point: Point) -> list[str]:
    return point.files["job.sbatch"].split("\n")


def _key(points: Sequence[Point], differing: Sequence[str]) -> str:
    """Return a spec key that differs between points and sets one of the differing lines."""
    for point in points:
        for row, (keys, _) in zip(_rows(point), point.source_map.files["job.sbatch"], strict=False):
            if row.removeprefix("#SBATCH ") in differing:
                for key in point.source_map.spec_keys(keys):
                    if len({str(other.source_map.spec[key].value) for other in points}) > 1:
                        return key
    raise AssertionError("points with the same spec have the same job.sbatch")
