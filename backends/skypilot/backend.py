"""SkyPilot: one task, for `sky launch` or `sky jobs launch`; on each node its `run` becomes task.sh, then node.sh.

Emits  task.sky.yaml, task.sh (one node) and the verbs
Launch ./jobctl submit, or sky launch task.sky.yaml
Source SkyPilot 0.14.1: docs.skypilot.co, its schema, and real launches on Slurm 22.05
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from ...compiler.diagnostics.diagnostic import Diagnostic, has_errors
from ...compiler.emit.artifact import Artifact
from ...compiler.emit.render import Render, of
from ...compiler.plan.launch_plan import LaunchPlan
from ...compiler.plan.runtime_vars import RuntimeVar, Scope, Spelling
from ...compiler.plugins.backend import ANY, NODE_LAUNCHERS
from ...compiler.rules import findings, run_all
from ...compiler.spec.job_spec import JobSpec
from . import pod_config, protected, task
from .config import cloud
from .finished import FinishedTask
from .notes import NOTES
from .options import SkypilotOptions


class SkypilotBackend:
    name = "skypilot"
    Options = SkypilotOptions
    launch = "./jobctl submit"
    spellings: ClassVar[Mapping[RuntimeVar, Spelling]] = {
        RuntimeVar.JOB_ID: Spelling(Scope.NODE, "$SKYPILOT_TASK_ID"),
        RuntimeVar.RUN_ID: Spelling(Scope.NODE, "$JOBC_RUN_ID, or $SKYPILOT_TASK_ID"),
        RuntimeVar.RUN_DIR: Spelling(Scope.NODE, "plan.run.root/plan.run.folder/$JOBC_RUN_ID"),
        RuntimeVar.ATTEMPT: Spelling(Scope.NODE, "join_run finds it in the run folder, or $JOBC_ATTEMPT"),
        RuntimeVar.NODE_RANK: Spelling(Scope.NODE, "$SKYPILOT_NODE_RANK"),
        RuntimeVar.HEAD_ADDR: Spelling(Scope.NODE, "first line of $SKYPILOT_NODE_IPS"),
        RuntimeVar.HEAD_PORT: Spelling(Scope.NODE, "plan.rendezvous.port, or 0: node 0 chooses one and shares it"),
    }
    honours: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "launcher": NODE_LAUNCHERS,
        "setup.kind": ("none", "venv", "conda", "uv", "image"),
        "container.kind": ("pod",),
        "container.image": ANY,
        "container.workdir": ANY,
        "code.kind": ("snapshot", "git", "shared", "image", "none"),
        "run.storage": ("shared", "node", "object"),
        "secret_kinds": ("env", "file"),
        "mounts": ANY,
        "labels": ANY,
        "resources.gpu_type": ANY,
        "resources.cpus": ANY,
        "resources.mem_bytes": ANY,
        "resources.shm_bytes": ANY,
        "resources.hosts": ANY,
        "network.*": ANY,
        "lifecycle.time_limit_s": ANY,
        "lifecycle.max_requeues": ANY,
        "queue.*": ANY,  # if the infrastructure has a queue; rules/unheard_wish.py reports what it lacks
    }

    def check(self, plan: LaunchPlan, options: SkypilotOptions) -> Iterator[Diagnostic]:
        rules = f"{__package__}.rules"
        checks = run_all(
            lambda: findings(rules, plan, options),
            lambda: findings(f"{rules}.task", FinishedTask.of(plan, options)),
            lambda: protected.check(plan, options),
            lambda: pod_config.check(options),
        )
        diagnostics = []
        for diagnostic in checks:
            diagnostics.append(diagnostic)
            yield diagnostic
        if not has_errors(diagnostics):
            yield from findings(f"{rules}.last", FinishedTask.of(plan, options))

    def emit(self, plan: LaunchPlan, options: SkypilotOptions, render: Render) -> Iterator[Artifact]:
        render = render.digested(task.digest(plan))
        yield render.yaml([task.document(plan, options)], "task.sky.yaml", NOTES)
        variables = {"run_root": task.run_root, "cloud": cloud}
        yield render.template("task.sh.j2", "task.sh", executable=True, **variables)
        if plan.run.storage == "object":
            yield render.chosen(render.template("bucket.sh.j2", "bucket.sh"), of.plan.run.storage)

    def engine_settings(self, plan: LaunchPlan, options: SkypilotOptions) -> Mapping[str, Any]:
        idle = None if options.autostop is None else math.ceil(options.autostop / 60)
        at_idle = f"after {idle} min idle SkyPilot {'deletes' if options.down else 'stops'} it"
        store = ("JOBC_STORE", "JOBC_STORE_ENDPOINT", "JOBC_STORE_REGION")
        places = (plan.run.root, plan.run.endpoint or "", plan.run.region or "")
        return {
            "runs": str(options.records),
            "storage_root": task.run_root(plan),
            "cluster": options.cluster or task.cluster_name(plan.run.folder),
            "managed": options.managed,
            "ends_with_last_job": cloud(plan, options) == "slurm" and not options.managed,
            "procs": plan.topology.procs,
            "secrets": task.secret_variables(plan),
            "local_files": list(self.sends(plan, options).values()),
            "has_setup": bool(options.setup),
            "check_words": _autostop_words(idle, options.down) if options.managed else [],
            "idle": "" if idle is None else at_idle,
            "end_is": task.result_location(plan),
            "usage_collection": options.usage_collection,
            "store": dict(zip(store, places, strict=True)) if plan.run.storage == "object" else None,
        }

    def starts_again(self, plan: LaunchPlan, options: SkypilotOptions) -> bool:
        return options.managed

    def shares_runs(self, spec: JobSpec, options: SkypilotOptions) -> bool:
        return spec.nodes == 1 or options.managed or options.cloud == "slurm" or spec.storage.root.startswith("/")

    def sends(self, plan: LaunchPlan, options: SkypilotOptions) -> Mapping[str, str]:
        return FinishedTask.of(plan, options).local_files()


def _autostop_words(idle: int | None, down: bool) -> list[str]:
    """Return options of `sky launch` for the cluster of a check, because the task of a managed job has no autostop.

    idle: minutes
    """
    return [] if idle is None else ["--idle-minutes-to-autostop", str(idle), *(["--down"] if down else [])]


BACKEND = SkypilotBackend()
