"""Slurm: one batch job that starts launch.sh once per node, or once per rank with launcher=srun.

Emits: job.sbatch, whose srun command `jobctl batch` runs.
Launch: ./jobctl submit, or sbatch job.sbatch
Source: Slurm manual pages sbatch, srun, scancel, squeue, scontrol; 22.05 to 25.11 (slurm.schedmd.com/archive).
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from ...compiler.diagnostics.diagnostic import Diagnostic, Severity
from ...compiler.emit.artifact import Artifact
from ...compiler.emit.render import Render, of
from ...compiler.emit.source_map import SpecValue
from ...compiler.plan.launch_plan import LaunchPlan
from ...compiler.plan.read_tracking import track_reads
from ...compiler.plan.runtime_vars import RuntimeVar, Scope, Spelling
from ...compiler.plugins.backend import ANY, NODE_LAUNCHERS, Backend, Filled, Point
from ...compiler.rules import findings, run_all
from ...compiler.spec.job_spec import JobSpec
from ...compiler.spec.site_facts import proportional_cores
from .._shared.hosts import check_mounts, container_settings, variables_to_save
from .._shared.sbatch_options import dependency_value
from .option_values import (
    cpus_per_task,
    duration,
    format_option,
    memory,
    mpi_type,
    seconds_before_limit,
    step_tasks_per_node,
    tasks_per_node,
)
from .options import SlurmOptions


class SlurmBackend(Backend):
    name = "slurm"
    Options = SlurmOptions
    launch = "./jobctl submit"
    spellings: ClassVar[Mapping[RuntimeVar, Spelling]] = {
        RuntimeVar.RUN_DIR: Spelling(Scope.BATCH, "$1, or the folder that jobctl batch creates"),
        RuntimeVar.RUN_ID: Spelling(Scope.BATCH, "last part of RUN_DIR"),
        RuntimeVar.ATTEMPT: Spelling(Scope.BATCH, "$((${2:-0} + ${SLURM_RESTART_COUNT:-0}))"),
        RuntimeVar.JOB_ID: Spelling(Scope.BATCH, "$SLURM_JOB_ID, or $SLURM_ARRAY_JOB_ID_$SLURM_ARRAY_TASK_ID"),
        RuntimeVar.HEAD_ADDR: Spelling(Scope.NODE, 'first host of "$SLURM_STEP_NODELIST"'),
        RuntimeVar.HEAD_PORT: Spelling(Scope.NODE, "plan.rendezvous.port, or 0: node 0 chooses a port and shares it"),
        RuntimeVar.NODE_RANK: Spelling(Scope.NODE, "$SLURM_NODEID"),
    }
    honours: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "launcher": (*NODE_LAUNCHERS, "srun"),
        **container_settings("apptainer", "pyxis"),
        "code.kind": ("snapshot", "shared", "none"),
        "run.storage": ("shared",),
        "secret_kinds": ("env", "file"),
        **{f"resources.{name}": ANY for name in ("gpu_type", "cpus", "mem_bytes", "hosts")},
        **{f"lifecycle.{name}": ANY for name in ("time_limit_s", "max_requeues")},
        **dict.fromkeys(("network.*", "queue.*"), ANY),
    }
    files: ClassVar[Mapping[str, str]] = {"job.sbatch": "the batch job; `sbatch job.sbatch` by hand works as well"}

    def check(self, plan: LaunchPlan, options: SlurmOptions) -> Iterator[Diagnostic]:
        return run_all(lambda: findings(f"{__package__}.rules", plan, options), lambda: check_mounts(self.name, plan))

    def emit(self, plan: LaunchPlan, options: SlurmOptions, render: Render) -> Iterator[Artifact]:
        functions = (memory, duration, tasks_per_node, cpus_per_task, mpi_type, format_option, dependency_value)
        names = {function.__name__: function for function in functions}
        yield render.template("job.sbatch.j2", "job.sbatch", executable=True, **names)

    def filled(self, spec: JobSpec, options: SlurmOptions, values: Mapping[str, SpecValue]) -> Iterator[Filled]:
        """Yield `cpus`: a share of the site's cores in proportion to the GPUs. Slurm's default is 1 core per task."""
        keys: list[str] = []
        cores = proportional_cores(track_reads(spec, "", keys.append)) if spec.cpus is None else None
        if cores is not None:
            yield Filled("cpus", cores, tuple(dict.fromkeys(keys)))

    def engine_settings(self, plan: LaunchPlan, options: SlurmOptions) -> Mapping[str, Any]:
        return {
            "cluster": of.options.cluster,
            "saved_secrets": variables_to_save,
            "after": lambda v: dependency_value(v.plan.queue.after),
            "output": of.options.output,
            "stderr": of.options.separate_stderr,
            "array_limit": of.options.array_limit,
            "cpus": of.plan.resources.cpus,
            "has_groups": lambda v: bool(v.options.groups),
            "pyxis": lambda v: v.plan.container.kind == "pyxis",
            "step_tasks": lambda v: step_tasks_per_node(v.plan),
            "max_requeues": of.plan.lifecycle.max_requeues,
            "kill_after_s": of.plan.lifecycle.kill_after_s,
        }

    def notice_s(self, plan: LaunchPlan) -> int:
        return seconds_before_limit(plan)

    def sweep_shape(self, point: Point) -> object:
        """Return what all elements of a job array share: the options in the #SBATCH lines.

        Slurm has no job arrays of heterogeneous jobs, so a point with groups shares its job with no other point.
        """
        return object() if point.options.groups else sbatch_options_of(point)

    def check_sweep(self, groups: Sequence[Sequence[Point]]) -> Iterator[Diagnostic]:
        """Yield JC4308 if backend.array_limit is set for several job arrays, each of which it limits separately."""
        if not any(point.options.array_limit for points in groups for point in points):
            return
        if any(point.options.groups for points in groups for point in points):
            because = (
                "Slurm has no job arrays of heterogeneous jobs, so each point with backend.groups is a separate job"
            )
        else:
            shapes = [set(sbatch_options_of(points[0])) for points in groups]
            differing = {line for shape in shapes for line in shape} - shapes[0].intersection(*shapes)
            options = ", ".join(sorted({line.partition("=")[0] for line in differing}))
            because = f"all elements of a job array have the same #SBATCH lines, and these points differ in {options}"
        title = f"backend.array_limit limits each of {len(groups)} jobs, not all points of the sweep together"
        hint = "submit the directories one after another: jobctl submit --after afterany:ID"
        yield Diagnostic("JC4308", title, because, hint, key="backend.array_limit", severity=Severity.WARNING)

    def emit_sweep(self, points: Sequence[Point], render: Render) -> Iterator[Artifact]:
        """Yield the job array's job.sbatch, in which element N runs point N's job.sbatch."""
        lines, last = sbatch_options_of(points[0]), len(points) - 1
        yield render.template("array.sbatch.j2", "job.sbatch", executable=True, directives=lines, last=last)


def sbatch_options_of(point: Point) -> tuple[str, ...]:
    rows = point.files["job.sbatch"].split("\n")
    return tuple(row.removeprefix("#SBATCH ") for row in rows if row.startswith("#SBATCH "))


BACKEND = SlurmBackend()
