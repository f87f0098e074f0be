"""SkyPilot: one task for `sky launch` or `sky jobs launch`. On each node, it execs `jobctl join`, which runs launch.sh.

Emits: task.sky.yaml.
Launch: ./jobctl submit, or sky launch task.sky.yaml
Source: SkyPilot 0.14.1: docs.skypilot.co, its schema, and real launches on Slurm 22.05.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

from ...compiler.diagnostics.diagnostic import Diagnostic, has_errors
from ...compiler.emit.artifact import Artifact
from ...compiler.emit.render import DigestLeaf, Render, of
from ...compiler.plan.launch_plan import LaunchPlan
from ...compiler.plan.runtime_vars import RuntimeVar, Scope, Spelling
from ...compiler.plugins.backend import ANY, NODE_LAUNCHERS, Backend
from ...compiler.rules import findings, run_all
from ...compiler.spec.job_spec import JobSpec
from . import task
from .config import requested_cloud
from .finished_task import FinishedTask
from .options import SkypilotOptions
from .yaml_comments import NOTES


class SkypilotBackend(Backend):
    name = "skypilot"
    Options = SkypilotOptions
    launch = "./jobctl submit"
    sends_code = True
    spellings: ClassVar[Mapping[RuntimeVar, Spelling]] = {
        RuntimeVar.JOB_ID: Spelling(Scope.NODE, "$SKYPILOT_TASK_ID"),
        RuntimeVar.RUN_ID: Spelling(Scope.NODE, "$JOBC_RUN_ID, or $SKYPILOT_TASK_ID"),
        RuntimeVar.RUN_DIR: Spelling(Scope.NODE, "plan.run.root/plan.run.folder/$JOBC_RUN_ID"),
        RuntimeVar.ATTEMPT: Spelling(Scope.NODE, "jobctl join finds the attempt in the run folder, or $JOBC_ATTEMPT"),
        RuntimeVar.NODE_RANK: Spelling(Scope.NODE, "$SKYPILOT_NODE_RANK"),
        RuntimeVar.HEAD_ADDR: Spelling(Scope.NODE, "first line of $SKYPILOT_NODE_IPS"),
        RuntimeVar.HEAD_PORT: Spelling(Scope.NODE, "plan.rendezvous.port, or 0: node 0 chooses a port and shares it"),
    }
    honours: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "launcher": NODE_LAUNCHERS,
        "setup.kind": ("none", "venv", "conda", "uv", "image"),
        "container.kind": ("pod",),
        "code.kind": ("snapshot", "git", "shared", "image", "none"),
        "run.storage": ("shared", "node", "object"),
        "secret_kinds": ("env", "file"),
        **dict.fromkeys(("container.image", "container.workdir", "mounts", "labels", "network.*"), ANY),
        **{f"resources.{name}": ANY for name in ("gpu_type", "cpus", "mem_bytes", "shm_bytes", "hosts")},
        **{f"lifecycle.{name}": ANY for name in ("time_limit_s", "max_requeues")},
        "queue.*": ANY,  # if the infrastructure has a queue; rules/infra.py reports settings that are ignored
    }

    def check(self, plan: LaunchPlan, options: SkypilotOptions) -> Iterator[Diagnostic]:
        rules = f"{__package__}.rules"
        checks = run_all(
            lambda: findings(rules, plan, options),
            lambda: findings(f"{rules}.task", FinishedTask.from_plan(plan, options)),
        )
        diagnostics = []
        for diagnostic in checks:
            diagnostics.append(diagnostic)
            yield diagnostic
        if not has_errors(diagnostics):
            yield from findings(f"{rules}.last", FinishedTask.from_plan(plan, options))

    def emit(self, plan: LaunchPlan, options: SkypilotOptions, render: Render) -> Iterator[Artifact]:
        render = render.with_digest(task.artifact_digest(plan))
        yield render.yaml([task.task_document(plan, options)], "task.sky.yaml", NOTES)

    def engine_settings(self, plan: LaunchPlan, options: SkypilotOptions) -> Mapping[str, Any]:
        sent = [*self.sends(plan, options).values()]
        return {
            "runs": lambda v: str(v.options.records),
            "storage_root": lambda v: v.plan.run.scratch if v.plan.run.storage == "object" else v.plan.run.root,
            task.DIGEST: DigestLeaf(task.artifact_digest(plan), of.whole.digest),
            "start_timeout_s": of.options.start_timeout,
            "cluster": lambda v: v.options.cluster or task.to_cluster_name(v.plan.run.folder),
            "managed": of.options.managed,
            "ends_with_last_job": lambda v: requested_cloud(v.plan, v.options) == "slurm" and not v.options.managed,
            "procs": of.plan.topology.procs,
            "secrets": lambda v: task.secret_variables(v.plan),
            "local_files": lambda v: sent if len(v.options.file_mounts) + len(v.options.extra) else [],
            "has_setup": lambda v: bool(v.options.setup),
            "check_words": lambda v: _autostop_words(v.options) if v.options.managed else [],
            "idle": lambda v: _idle_action_text(v.options),
            "end_is": lambda v: task.result_location_hint(v.plan),
            "usage_collection": of.options.usage_collection,
            "store": lambda v: _STORE if v.plan.run.storage == "object" else None,
        }

    def starts_again(self, plan: LaunchPlan, options: SkypilotOptions) -> bool:
        return options.managed

    def shares_runs(self, spec: JobSpec, options: SkypilotOptions) -> bool:
        return spec.nodes == 1 or options.managed or options.cloud == "slurm" or spec.storage.root.startswith("/")

    def data_hint(self, plan: LaunchPlan, options: SkypilotOptions, path: Path) -> str:
        if options.file_mounts or {"file_mounts", "volumes"} & options.extra.keys():
            return ""
        return f"'backend.file_mounts={{/{path.name}: \"{path}\"}}' storage.data=/{path.name}"

    def sends(self, plan: LaunchPlan, options: SkypilotOptions) -> Mapping[str, str]:
        return FinishedTask.from_plan(plan, options).local_files()


_STORE: Mapping[str, Any] = {
    "JOBC_STORE": of.plan.run.root,
    "JOBC_STORE_ENDPOINT": lambda v: v.plan.run.endpoint or "",
    "JOBC_STORE_REGION": lambda v: v.plan.run.region or "",
}


def _idle_action_text(options: SkypilotOptions) -> str:
    idle, verb = task.idle_minutes(options), "deletes" if options.down else "stops"
    return "" if idle is None else f"after {idle} min idle, SkyPilot {verb} the cluster"


def _autostop_words(options: SkypilotOptions) -> list[str]:
    """Return the `sky launch` options that set autostop for a check's cluster. A managed job's task does not set it."""
    idle = task.idle_minutes(options)
    return [] if idle is None else ["--idle-minutes-to-autostop", str(idle), *(["--down"] if options.down else [])]


BACKEND = SkypilotBackend()
