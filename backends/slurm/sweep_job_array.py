"""A sweep as one job array: element N runs point N's job.sbatch.

In:  the compiled points, in the sweep's order. All of them have the same #SBATCH lines.
Out: the array's job.sbatch.
"""

from collections.abc import Iterator, Sequence

from ...compiler.diagnostics.diagnostic import Diagnostic, Severity
from ...compiler.emit.artifact import Artifact
from ...compiler.emit.render import Render
from ...compiler.plugins.backend import Point


def check(groups: Sequence[Sequence[Point]]) -> Iterator[Diagnostic]:
    """Yield JC4308 if backend.array_limit is set for several job arrays, because it limits each array separately."""
    if not any(point.options.array_limit for points in groups for point in points):
        return
    lines_by_group: list[set[str]] = [set(point_sbatch_options(points[0])) for points in groups]
    differing = {line for lines in lines_by_group for line in lines} - lines_by_group[0].intersection(*lines_by_group)
    options = ", ".join(sorted({line.partition("=")[0] for line in differing}))
    title = f"backend.array_limit limits each of {len(groups)} jobs, not all points of the sweep together"
    because = f"all elements of a job array have the same #SBATCH lines, and these points differ in {options}"
    hint = "submit the directories one after another: jobctl submit --after afterany:ID"
    yield Diagnostic("JC4308", title, because, hint, key="backend.array_limit", severity=Severity.WARNING)


def emit_job_array(points: Sequence[Point], render: Render) -> Iterator[Artifact]:
    lines, last = point_sbatch_options(points[0]), len(points) - 1
    yield render.template("array.sbatch.j2", "job.sbatch", executable=True, directives=lines, last=last)


def point_sbatch_options(point: Point) -> tuple[str, ...]:
    """Return the options in a point's #SBATCH lines."""
    rows = point.files["job.sbatch"].split("\n")
    return tuple(row.removeprefix("#SBATCH ") for row in rows if row.startswith("#SBATCH "))
