"""Input and output types of the pipeline."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ...runtime.system.frozen_dataclass import dataclass
from ..checks.suppressions import SeverityFilter
from ..diagnostics.diagnostic import Diagnostic
from ..diagnostics.origin import Origin
from ..emit.artifact import Artifact
from ..emit.source_map import SourceMap
from ..frontend.compose import ComposedConfig
from ..frontend.sweep import SweepPoint
from ..plan.launch_plan import LaunchPlan
from ..plugins.backend import Backend
from ..spec.job_spec import JobSpec
from .resolve import TypedConfig


@dataclass(frozen=True)
class CompileRequest:
    """One compile request.

    words:       overrides as typed.
    command:     the words after ` -- `, or None without ` -- `.
    config_dirs: the user's config folders by root name (`input`, `project`, `user`); earlier ones win.
    strict:      whether warnings and notes become errors unless a comment allows them.
    recorded:    whether the words come from an untrusted artifact and therefore must not refer to files outside the
    project.
    """

    words: tuple[str, ...]
    command: tuple[str, ...] | None = None
    config_dirs: tuple[tuple[str, Path], ...] = ()
    config_name: str = "config"
    strict: bool = False
    recorded: bool = False


@dataclass(frozen=True)
class CompiledJob:
    """One job compiled for one backend.

    artifacts: every file in the directory.
    place: NAME/BACKEND below the output folder.
    origin_of, levels, unsaid, where, point: as in PlannedJob.
    sweep: the request of the sweep that the job belongs to.
    """

    spec: JobSpec
    plan: LaunchPlan
    backend: Backend
    options: Any
    artifacts: tuple[Artifact, ...]
    diagnostics: tuple[Diagnostic, ...]
    source_map: SourceMap
    place: str
    origin_of: Callable[[str], Origin | None]
    levels: SeverityFilter
    unsaid: frozenset[str]
    where: str = ""
    point: SweepPoint | None = None
    sweep: CompileRequest | None = None


@dataclass(frozen=True)
class SweepFolder:
    """Directory that contains several points.

    points: number of points.
    artifacts, place, source_map: as in CompiledJob, but the source map describes the lines of the first point.
    """

    artifacts: tuple[Artifact, ...]
    place: str
    source_map: SourceMap
    points: int


@dataclass(frozen=True)
class PlannedJob:
    """A job's launch plan, before any backend code runs.

    made_by: plan key -> rule.
    origin_of: returns the position where a key was written.
    levels: suppressions.
    unsaid: unset keys that the user's own program does not read.
    where: the sweep point as typed, or "" without a sweep.
    point: the overrides of the sweep point.
    """

    spec: JobSpec
    plan: LaunchPlan
    table: Mapping[str, tuple[str, ...]]
    made_by: Mapping[str, str]
    typed: TypedConfig
    composed: ComposedConfig
    diagnostics: tuple[Diagnostic, ...]
    origin_of: Callable[[str], Origin | None]
    levels: SeverityFilter
    unsaid: frozenset[str]
    where: str = ""
    point: SweepPoint | None = None
