"""Apply the rules in rules/, which compare the figures of one size with its limits.

A sweep reports each finding only once, with the text for the worst size and a list of all affected points.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from ...runtime.system.frozen_dataclass import dataclass
from ..diagnostics.diagnostic import Diagnostic, Severity
from ..plan.launch_plan import LaunchPlan
from ..rules import findings
from ..spec.job_spec import JobSpec
from .figures import Figures


@dataclass(frozen=True)
class SizeFinding:
    """A diagnostic and how bad it is. by: factor by which the limit is exceeded."""

    diagnostic: Diagnostic
    by: float


def worst_per_code(found: Iterable[SizeFinding]) -> list[Diagnostic]:
    """Return one diagnostic per code and position, with the text for the worst point and a list of all points."""
    groups: dict[tuple[str, object, str], list[SizeFinding]] = {}
    for finding in found:
        d = finding.diagnostic
        groups.setdefault((d.code, d.origin, d.allowed), []).append(finding)
    merged = []
    for group in groups.values():
        worst = max(group, key=lambda finding: finding.by).diagnostic
        points = tuple(dict.fromkeys(point for finding in group for point in finding.diagnostic.points))
        differs = len({finding.diagnostic.because for finding in group}) > 1
        because = f"with {worst.points[0]}, the worst of these points, {worst.because}" if differs else worst.because
        merged.append(replace(worst, because=because, points=points))
    return merged


def make_size_finding(code: str, title: str, because: str, hint: str, key: str, by: float) -> SizeFinding:
    return SizeFinding(Diagnostic(code, title, because, hint, key=key, severity=Severity.WARNING), by)


def find_exceeded_limits(figures: Figures, spec: JobSpec, plan: LaunchPlan) -> Iterator[SizeFinding]:
    return findings(f"{__package__}.rules", figures, spec, plan)
