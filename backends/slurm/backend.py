"""Slurm: one batch job that starts node.sh once per node, or once per rank with launcher=srun.

Emits  job.sbatch, task.sh (one node), engine.sh (what status.sh, stop.sh and the others ask Slurm) and the verbs
Launch ./submit.sh, or sbatch job.sbatch
Source Slurm manual pages sbatch, srun, scancel, squeue, scontrol; 22.05 to 25.11 (slurm.schedmd.com/archive)
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from ...compiler.artifact import Artifact
from ...compiler.backend import ANY, NODE_LAUNCHERS, VERBS
from ...compiler.diagnostics import Diagnostic
from ...compiler.plan import LaunchPlan
from ...compiler.render import Render
from ...compiler.words import RuntimeVar, Scope, Spelling
from .._shared import containers
from . import pyxis

MIB = 1024**2


@dataclass(frozen=True)
class SlurmOptions:
    """version: MAJOR.MINOR of the site's Slurm; gpus_as, mem_policy: which options the site wants; constraint: node
    features; directives: more options of sbatch, each one word."""

    version: str
    gpus_as: Literal["gpus-per-node", "gres"]
    mem_policy: Literal["given", "all", "none"]
    constraint: str | None
    directives: tuple[str, ...]


class SlurmBackend:
    name = "slurm"
    Options = SlurmOptions
    launch = "./submit.sh"
    spellings: ClassVar[Mapping[RuntimeVar, Spelling]] = {
        RuntimeVar.RUN_DIR: Spelling(Scope.BATCH, "$run"),
        RuntimeVar.RUN_ID: Spelling(Scope.BATCH, '$(basename -- "$run")'),
        RuntimeVar.ATTEMPT: Spelling(Scope.BATCH, "$((first_attempt + ${SLURM_RESTART_COUNT:-0}))"),
        RuntimeVar.JOB_ID: Spelling(Scope.BATCH, "$SLURM_JOB_ID"),
        RuntimeVar.HEAD_ADDR: Spelling(Scope.NODE, 'first name of "$SLURM_STEP_NODELIST"'),
        RuntimeVar.HEAD_PORT: Spelling(Scope.NODE, "plan.rendezvous.port, or 0: node 0 chooses and tells the others"),
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

    def check(self, plan: LaunchPlan, options: SlurmOptions) -> Iterator[Diagnostic]:
        yield from _version(options.version)
        yield from _one_word(plan, options)
        yield from _equal_shares(plan)
        yield from containers.check(self.name, plan)
        yield from pyxis.check(plan)
        if options.mem_policy != "given" and plan.resources.mem_bytes is not None:
            because = f"backend.mem_policy={options.mem_policy} leaves the memory to the site"
            yield Diagnostic("JC4302", "mem has no effect", because, "mem=null, or backend.mem_policy=given", key="mem")

    def emit(self, plan: LaunchPlan, options: SlurmOptions, render: Render) -> Iterator[Artifact]:
        spelt = {f.__name__: f for f in (memory, duration, tasks_per_node, cpus_per_task)}
        yield render.template("job.sbatch.j2", "job.sbatch", executable=True, **spelt)
        for script in ("task.sh", "engine.sh", *VERBS):
            yield render.template(f"{script}.j2", script, executable=script != "engine.sh")


def tasks_per_node(plan: LaunchPlan) -> int:
    """Tasks that srun starts on each node: the ranks themselves, or one that starts them."""
    return plan.topology.procs if plan.launcher == "srun" else 1


def cpus_per_task(plan: LaunchPlan) -> int | None:
    """Cores of one task; the spec counts them per node. None = the site decides."""
    return plan.resources.cpus // tasks_per_node(plan) if plan.resources.cpus else None


def memory(size: int) -> str:
    """Bytes as --mem takes them, rounded up to whole MiB: Slurm's M and G are MiB and GiB."""
    mib = -(-size // MIB)
    return f"{mib // 1024}G" if mib % 1024 == 0 else f"{mib}M"


def duration(seconds: int) -> str:
    """Seconds as --time takes them without doubt: D-HH:MM:SS."""
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    return f"{days}-{hours:02}:{minutes:02}:{seconds:02}"


def _version(version: str) -> Iterator[Diagnostic]:
    """JC4301"""
    if not re.fullmatch(r"\d\d\.\d\d", version) or not "22.05" <= version <= "25.11":
        because = "jobc knows the options of Slurm 22.05 to 25.11"
        title, hint = f"no Slurm {version} is known", "backend.version=23.11, as `sbatch --version` says it"
        yield Diagnostic("JC4301", title, because, hint, key="backend.version")


def _equal_shares(plan: LaunchPlan) -> Iterator[Diagnostic]:
    """JC4304: --cpus-per-task is one number, so cores that the ranks cannot share evenly would be lost."""
    cpus, tasks = plan.resources.cpus, tasks_per_node(plan)
    if cpus is not None and cpus % tasks:
        title = f"{cpus} cores cannot be shared by {tasks} tasks a node"
        because = "launcher=srun starts a task for each rank, and Slurm gives each the same number of cores"
        hint = f"cpus={max(cpus - cpus % tasks, tasks)}, or launcher=torchrun"
        yield Diagnostic("JC4304", title, because, hint, key="cpus")


def _one_word(plan: LaunchPlan, options: SlurmOptions) -> Iterator[Diagnostic]:
    """JC4303 for text that an #SBATCH line would not hand on as it is: the line is read by sbatch, not by a shell."""
    queue = plan.queue
    texts = {
        "gpu_type": plan.resources.gpu_type,
        "queue.name": queue.name,
        "queue.account": queue.account,
        "queue.qos": queue.qos,
        "queue.priority": queue.priority,
        "queue.reservation": queue.reservation,
        "backend.constraint": options.constraint,
        **{f"queue.after.{i}": job for i, job in enumerate(queue.after)},
        **{f"backend.directives.{i}": text for i, text in enumerate(options.directives)},
    }
    for key, text in texts.items():
        if text is not None and not re.fullmatch(r"[\w.,:+=/@%&|*()\[\]-]+", text, re.ASCII):
            title = f"{key}: {text!r} does not fit in an #SBATCH line"
            because = "sbatch would split or cut it: letters, digits and .,:+=/@%&|*()[]-_ only"
            yield Diagnostic("JC4303", title, because, f"another {key}", key=key)
        elif key.startswith("backend.directives.") and text and not text.startswith("-"):
            yield Diagnostic("JC4303", f"{key}: {text!r} is no option", "an option begins with -", f"--{text}", key=key)


BACKEND = SlurmBackend()
