"""Slurm: one batch job that starts node.sh once per node, or once per rank with launcher=srun.

Emits  job.sbatch, task.sh (one node), in_job.sh (for job.sbatch), pyxis.sh if Pyxis is the container, and the verbs
Launch ./jobctl submit, or sbatch job.sbatch
Source Slurm manual pages sbatch, srun, scancel, squeue, scontrol; 22.05 to 25.11 (slurm.schedmd.com/archive)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from ...compiler.diagnostics.diagnostic import Diagnostic
from ...compiler.emit.artifact import Artifact
from ...compiler.emit.render import Render, of
from ...compiler.emit.source_map import SpecValue
from ...compiler.plan.launch_plan import LaunchPlan
from ...compiler.plan.read_tracking import watch
from ...compiler.plan.runtime_vars import RuntimeVar, Scope, Spelling
from ...compiler.plugins.backend import ANY, NODE_LAUNCHERS, Filled, Point
from ...compiler.rules import findings, run_all
from ...compiler.spec.job_spec import JobSpec
from ...compiler.spec.site_facts import share_of_cores
from .._shared import containers
from . import notice, own_options, sweep
from .options import SlurmOptions
from .spelling import (
    cpus_per_task,
    dependency,
    duration,
    memory,
    more_option,
    mpi,
    other_gres,
    step_tasks_per_node,
    tasks_per_node,
)


class SlurmBackend:
    name = "slurm"
    Options = SlurmOptions
    launch = "./jobctl submit"
    spellings: ClassVar[Mapping[RuntimeVar, Spelling]] = {
        RuntimeVar.RUN_DIR: Spelling(Scope.BATCH, "$run"),
        RuntimeVar.RUN_ID: Spelling(Scope.BATCH, '$(basename -- "$run")'),
        RuntimeVar.ATTEMPT: Spelling(Scope.BATCH, "$((first_attempt + ${SLURM_RESTART_COUNT:-0}))"),
        RuntimeVar.JOB_ID: Spelling(Scope.BATCH, "$SLURM_JOB_ID, or $SLURM_ARRAY_JOB_ID_$SLURM_ARRAY_TASK_ID"),
        RuntimeVar.HEAD_ADDR: Spelling(Scope.NODE, 'first name of "$SLURM_STEP_NODELIST"'),
        RuntimeVar.HEAD_PORT: Spelling(Scope.NODE, "plan.rendezvous.port, or 0: node 0 chooses one and shares it"),
        RuntimeVar.NODE_RANK: Spelling(Scope.NODE, "$SLURM_NODEID"),
    }
    honours: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "launcher": (*NODE_LAUNCHERS, "srun"),
        **containers.honours("apptainer", "pyxis"),
        "code.kind": ("snapshot", "shared", "none"),
        "run.storage": ("shared",),
        "secret_kinds": ("env", "file"),
        "resources.gpu_type": ANY,
        "resources.cpus": ANY,
        "resources.mem_bytes": ANY,
        "resources.hosts": ANY,
        "network.*": ANY,
        "lifecycle.time_limit_s": ANY,
        "lifecycle.max_requeues": ANY,
        "queue.*": ANY,
    }
    files: ClassVar[Mapping[str, str]] = {
        "job.sbatch": "the batch job; `sbatch job.sbatch` by hand works as well",
        "task.sh": "started by srun on each node; runs `node.sh`",
        "in_job.sh": "requeue and shutdown inside the job",
        "pyxis.sh": "mounts and variables of the container",
    }

    def check(self, plan: LaunchPlan, options: SlurmOptions) -> Iterator[Diagnostic]:
        return run_all(
            lambda: findings(f"{__package__}.rules", plan, options),
            lambda: own_options.check(plan, options),
            lambda: containers.check(self.name, plan),
        )

    def emit(self, plan: LaunchPlan, options: SlurmOptions, render: Render) -> Iterator[Artifact]:
        spelt = {
            f.__name__: f
            for f in (
                memory,
                duration,
                tasks_per_node,
                cpus_per_task,
                step_tasks_per_node,
                mpi,
                more_option,
                dependency,
                other_gres,
            )
        }
        sourced = ["in_job.sh", *(["pyxis.sh"] if plan.container.kind == "pyxis" else [])]
        for script in ("job.sbatch", "task.sh", *sourced):
            artifact = render.template(f"{script}.j2", script, executable=script not in sourced, **spelt)
            yield render.chosen(artifact, of.plan.container.kind) if script == "pyxis.sh" else artifact

    def filled(self, spec: JobSpec, options: SlurmOptions, values: Mapping[str, SpecValue]) -> Iterator[Filled]:
        """Yield `cpus` in proportion to the GPUs from the site's cores; Slurm's default is one core per task."""
        keys: list[str] = []
        cores = share_of_cores(watch(spec, "", keys.append)) if spec.cpus is None else None
        if cores is not None:
            yield Filled("cpus", cores, tuple(dict.fromkeys(keys)))

    def engine_settings(self, plan: LaunchPlan, options: SlurmOptions) -> Mapping[str, Any]:
        return {
            "cluster": options.cluster,
            "saved_secrets": [secret.ref for secret in plan.secrets.values() if secret.kind == "env"],
            "after": dependency(plan),
            "array_limit": options.array_limit,
            "cpus": plan.resources.cpus,
            "pyxis": plan.container.kind == "pyxis",
        }

    def notice_s(self, plan: LaunchPlan) -> int:
        return notice.notice_s(plan)

    def check_sweep(self, points: Sequence[Point]) -> Iterator[Diagnostic]:
        yield from sweep.check(points)

    def emit_sweep(self, points: Sequence[Point], render: Render) -> Iterator[Artifact]:
        yield from sweep.emit(points, render)


BACKEND = SlurmBackend()
