"""SkyPilot: one task, for `sky launch` or `sky jobs launch`; on each node its `run` becomes task.sh, then node.sh.

Emits  task.sky.yaml, task.sh (one node), engine.sh (what the scripts ask SkyPilot) and the verbs
Launch ./submit.sh, or sky launch task.sky.yaml
Source SkyPilot 0.14.1: docs.skypilot.co, its schema, and real launches on Slurm 22.05
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, ClassVar

from ...compiler.artifact import Artifact
from ...compiler.backend import ANY, NODE_LAUNCHERS, VERBS
from ...compiler.diagnostics import Diagnostic, has_errors
from ...compiler.equivalence.reading import Reading, Stage
from ...compiler.plan import LaunchPlan
from ...compiler.render import Render
from ...compiler.rules import findings
from ...compiler.words import RuntimeVar, Scope, Spelling
from . import pod_config, protected, task
from .config import cloud
from .finished import Finished
from .notes import NOTES
from .options import SkypilotOptions

if TYPE_CHECKING:
    from ...compiler.equivalence.verbs import Verbs


class SkypilotBackend:
    name = "skypilot"
    Options = SkypilotOptions
    launch = "./submit.sh"
    spellings: ClassVar[Mapping[RuntimeVar, Spelling]] = {
        RuntimeVar.JOB_ID: Spelling(Scope.NODE, "$SKYPILOT_TASK_ID"),
        RuntimeVar.RUN_ID: Spelling(Scope.NODE, "$JOBC_RUN_ID, or $SKYPILOT_TASK_ID"),
        RuntimeVar.RUN_DIR: Spelling(Scope.NODE, "plan.run.root/plan.run.folder/$JOBC_RUN_ID"),
        RuntimeVar.ATTEMPT: Spelling(Scope.NODE, "join_run finds it in the run folder, or $JOBC_ATTEMPT"),
        RuntimeVar.NODE_RANK: Spelling(Scope.NODE, "$SKYPILOT_NODE_RANK"),
        RuntimeVar.HEAD_ADDR: Spelling(Scope.NODE, "first line of $SKYPILOT_NODE_IPS"),
        RuntimeVar.HEAD_PORT: Spelling(Scope.NODE, "plan.rendezvous.port, or 0: node 0 chooses and tells the others"),
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
        "queue.*": ANY,  # as far as the infrastructure has a queue: rules/unheard_wish.py names what it has not
    }

    def check(self, plan: LaunchPlan, options: SkypilotOptions) -> Iterator[Diagnostic]:
        rules, finished = f"{__package__}.rules", Finished.of(plan, options)
        found = [*findings(rules, plan, options), *findings(f"{rules}.task", finished)]
        found += [*protected.check(plan, options), *pod_config.check(options)]
        yield from found
        if not has_errors(found):
            yield from findings(f"{rules}.last", finished)

    def emit(self, plan: LaunchPlan, options: SkypilotOptions, render: Render) -> Iterator[Artifact]:
        render = render.digested(task.digest(plan))
        yield render.yaml([task.document(plan, options)], "task.sky.yaml", NOTES)
        files = list(self.sends(plan, options).values())
        own = {
            "cluster_name": task.cluster_name,
            "secret_variables": task.secret_variables,
            "run_root": task.run_root,
            "cloud": cloud,
            "local_files": lambda *_said_in: files,
        }
        for script in ("task.sh", "engine.sh", *VERBS):
            yield render.template(f"{script}.j2", script, executable=script != "engine.sh", **own)
        if plan.run.storage == "object":
            yield render.chosen(render.template("bucket.sh.j2", "bucket.sh"), lambda v: v.plan.run.storage)

    def starts_again(self, plan: LaunchPlan, options: SkypilotOptions) -> bool:
        return options.managed

    def sends(self, plan: LaunchPlan, options: SkypilotOptions) -> Mapping[str, str]:
        return Finished.of(plan, options).local_files()

    def read_back(self, stage: Stage) -> Reading:
        from .read_back import read_back

        return read_back(stage)

    def verbs(self) -> type[Verbs]:
        from .read_verbs import SkyVerbs

        return SkyVerbs


BACKEND = SkypilotBackend()
