"""Acme: a queue that starts one job file on every node it gives out.

Emits  job.acme.sh, labels.acme.yaml and the verbs; engine.py submits the job
Launch ./jobctl submit
Source acme(1), the part that tests/bin/acme stands in for
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from jobc.compiler.api import (
    ANY,
    Artifact,
    Backend,
    Count,
    Diagnostic,
    LaunchPlan,
    Render,
    RuntimeVar,
    Scope,
    Spelling,
    of,
)


@dataclass(frozen=True)
class AcmeQueue:
    """One queue (group `acme_queue`). name: as acme calls it; most_nodes: that one job may have there."""

    name: str
    most_nodes: Count


@dataclass(frozen=True)
class AcmeOptions:
    """placement: nodes close together, or far apart; notify: addresses that get a mail at the end; queue: see there."""

    placement: Literal["pack", "spread"]
    notify: tuple[str, ...]
    queue: AcmeQueue


class AcmeBackend(Backend):
    name = "acme"
    Options = AcmeOptions
    launch = "./jobctl submit"
    spellings: ClassVar[Mapping[RuntimeVar, Spelling]] = {
        RuntimeVar.RUN_ID: Spelling(Scope.SUBMIT, '$(basename -- "$run")'),
        RuntimeVar.RUN_DIR: Spelling(Scope.SUBMIT, "$run"),
        RuntimeVar.ATTEMPT: Spelling(Scope.SUBMIT, "$attempt"),
        RuntimeVar.JOB_ID: Spelling(Scope.NODE, "$ACME_JOB_ID"),
        RuntimeVar.NODE_RANK: Spelling(Scope.NODE, "$ACME_RANK"),
        RuntimeVar.HEAD_ADDR: Spelling(Scope.NODE, "${ACME_HOSTS%% *}"),
        RuntimeVar.HEAD_PORT: Spelling(Scope.NODE, "$((20000 + ACME_JOB_ID % 12000))"),
    }
    honours: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "launcher": ("torchrun", "spawn"),
        "setup.kind": ("none", "venv", "conda", "uv", "modules"),
        "code.kind": ("snapshot", "shared", "none"),
        "run.storage": ("shared",),
        "secret_kinds": ("file",),  # acme starts a job without the variables of the submitting shell
        "resources.cpus": ANY,
        "lifecycle.time_limit_s": ANY,
        "queue.name": ANY,
        "labels": ANY,
    }

    def check(self, plan: LaunchPlan, options: AcmeOptions) -> Iterator[Diagnostic]:
        queue = plan.queue.name or options.queue.name
        if not re.fullmatch(r"[a-z][a-z0-9_-]*", queue):
            title, because = f"no queue can be called {queue!r}", "acme's queues are called a-z, digits, _ and -"
            yield Diagnostic("ACME01", title, because, "queue.name=slow", key="queue.name")
        elif plan.queue.name is None and plan.topology.nodes > options.queue.most_nodes:
            because = f"it gives one job {options.queue.most_nodes} at most"
            hint = f"acme_queue=slow, or nodes={options.queue.most_nodes}"
            yield Diagnostic("ACME02", f"queue {queue} has no {plan.topology.nodes} nodes", because, hint, key="nodes")

    def emit(self, plan: LaunchPlan, options: AcmeOptions, render: Render) -> Iterator[Artifact]:
        yield render.template("job.acme.sh.j2", "job.acme.sh", executable=True)
        document = {
            "job": of.plan.name,
            "labels": lambda v: dict(v.plan.labels),
            "notify": of.options.notify,
        }
        yield render.yaml([document], "labels.acme.yaml", {(0, "notify"): "mail at the end of the job"})


BACKEND = AcmeBackend()
