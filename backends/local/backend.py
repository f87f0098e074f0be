"""Local: this machine, no scheduler. One node whose ranks are started by submit.sh itself.

Emits  submit.sh and the other verbs; node.sh does the starting
Launch ./submit.sh
Source torchrun manual, PyTorch 2.13 (docs.pytorch.org/docs/stable/elastic/run.html)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

from ...compiler.artifact import Artifact
from ...compiler.backend import VERBS
from ...compiler.diagnostics import Diagnostic
from ...compiler.plan import LaunchPlan
from ...compiler.render import Render
from ...compiler.words import RuntimeVar, Scope, Spelling

LAUNCHERS = ("torchrun", "spawn")
CODE = ("lib", "snapshot", "shared", "none")
SECRETS = ("env", "file")
PYTHON = ("none", "venv", "conda", "uv", "modules")


@dataclass(frozen=True)
class LocalOptions:
    """detach: submit.sh returns at once and the run goes on without the terminal."""

    detach: bool


class LocalBackend:
    name = "local"
    Options = LocalOptions
    launch = "./submit.sh"
    spellings: ClassVar[Mapping[RuntimeVar, Spelling]] = {  # submit.sh makes the run, so it knows everything
        RuntimeVar.JOB_ID: Spelling(Scope.SUBMIT, "$run_id"),
        RuntimeVar.RUN_ID: Spelling(Scope.SUBMIT, "$run_id"),
        RuntimeVar.RUN_DIR: Spelling(Scope.SUBMIT, "$run"),
        RuntimeVar.ATTEMPT: Spelling(Scope.SUBMIT, "$attempt"),
        RuntimeVar.NODE_RANK: Spelling(Scope.SUBMIT, "0"),
        RuntimeVar.HEAD_ADDR: Spelling(Scope.SUBMIT, "127.0.0.1"),
        RuntimeVar.HEAD_PORT: Spelling(Scope.SUBMIT, "plan.rendezvous.port, or a free port for 0"),
    }
    honours = frozenset({"launcher", "setup.kind", "code.kind", "lifecycle.time_limit_s", "secret_kinds"})

    def check(self, plan: LaunchPlan, options: LocalOptions) -> Iterator[Diagnostic]:
        if plan.topology.nodes != 1:
            yield Diagnostic(
                "JC4201",
                f"backend local runs on one node, not {plan.topology.nodes}",
                "it starts processes on this machine only",
                f"nodes=1 procs={plan.topology.world_size} for as many ranks here",
                key="nodes",
            )
        for name, secret in plan.secrets.items():
            if secret.kind not in SECRETS:
                yield Diagnostic(
                    "JC4202",
                    f"backend local has no secrets from {secret.kind}",
                    "it reads them from variables and files of this machine",
                    f"secrets.{name}=env:{name}, or secrets.{name}=file:PATH",
                    key=f"secrets.{name}",
                )
        yield from _one_of(plan.launcher, LAUNCHERS, "launcher", "launcher")
        yield from _one_of(plan.code.kind, CODE, "code", "code.kind")
        yield from _one_of(plan.setup.kind, PYTHON, "env", "python.kind")

    def emit(self, plan: LaunchPlan, options: LocalOptions, render: Render) -> Iterator[Artifact]:
        for verb in VERBS:
            yield render.template(f"{verb}.j2", verb, executable=True)


def _one_of(value: str, known: tuple[str, ...], group: str, key: str) -> Iterator[Diagnostic]:
    if value not in known:
        words = [word for word in known if word != "lib"]
        yield Diagnostic(
            "JC4202",
            f"backend local has no {group}={value}",
            f"it knows {', '.join(words)}",
            f"{group}={words[0]}",
            key=key,
        )


BACKEND = LocalBackend()
