"""accelerate: runs `accelerate launch` over ssh on each listed host, or on this machine if no hosts are set (one node).

Emits: accelerate.yaml, deepspeed.json with parallel=deepspeed, and the files that backend ssh emits.
Launch: ./jobctl submit
Source: accelerate 1.15.0 (docs huggingface.co/docs/accelerate, `accelerate launch`), DeepSpeed 0.19.8.
"""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, ClassVar

from ...compiler.api import Artifact, Diagnostic, LaunchPlan, Omit, Render, run_all
from ...compiler.checks import accelerate as accelerate_checks
from ...compiler.launchers.accelerate.config_files import accelerate_yaml, deepspeed_json
from ...runtime.system.frozen_dataclass import dataclass
from .._shared import hosts
from .._shared.ssh import SshHostsBackend, SshOptions


@dataclass(frozen=True)
class AccelerateOptions(SshOptions):
    """The ssh options, plus extra and deepspeed_extra: trees merged last into accelerate.yaml and deepspeed.json."""

    extra: Mapping[str, Any]
    deepspeed_extra: Mapping[str, Any]


class AccelerateBackend(SshHostsBackend):
    name = "accelerate"
    Options = AccelerateOptions
    may_run_here = True
    honours: ClassVar[Mapping[str, tuple[str, ...]]] = {**hosts.HONOURS, "launcher": ("accelerate",)}

    def check(self, plan: LaunchPlan, options: AccelerateOptions) -> Iterator[Diagnostic]:
        return run_all(
            partial(super().check, plan, options),
            lambda: accelerate_checks.check(plan, options.extra, options.deepspeed_extra, "backend"),
            lambda: check_launch(plan),
        )

    def emit(self, plan: LaunchPlan, options: AccelerateOptions, render: Render) -> Iterator[Artifact]:
        yield accelerate_yaml(plan, render, options.extra)
        if plan.parallel == "deepspeed":
            yield deepspeed_json(plan, render, options.deepspeed_extra)
        yield from super().emit(plan, options, render)

    def engine_settings(self, plan: LaunchPlan, options: AccelerateOptions) -> Mapping[str, Any]:
        settings = super().engine_settings(plan, options)
        return {**settings, "hosts": lambda v: settings["hosts"] if hosts.hosts_in_rank_order(v.plan) else Omit}


def check_launch(plan: LaunchPlan) -> Iterator[Diagnostic]:
    """Yield JC4601 for storage.run=node without hosts, and JC4605 for a launcher other than `accelerate launch`.

    `honours` cannot report JC4605, because it does not cover torchrun, which needs no support from the backend.
    """
    if not hosts.hosts_in_rank_order(plan) and plan.run.storage == "node":
        because = "without hosts, the only node is this machine, which already has the run folder"
        title = "storage.run=node has no effect without hosts"
        yield Diagnostic("JC4601", title, because, "storage.run=shared", key="storage.run")
    if plan.launcher != "accelerate":
        because = "backend accelerate is backend ssh with `accelerate launch` as the launcher"
        hint = f"backend=ssh launcher={plan.launcher}, or launcher=accelerate"
        title = f"backend accelerate does not support launcher={plan.launcher}"
        yield Diagnostic("JC4605", title, because, hint, key="launcher")


BACKEND = AccelerateBackend()
