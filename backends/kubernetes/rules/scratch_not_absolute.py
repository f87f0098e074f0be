"""JC4519: a relative scratch folder, which each program in a pod would resolve differently."""

from __future__ import annotations

from collections.abc import Iterator

from ....compiler.diagnostics.diagnostic import Diagnostic
from ....compiler.plan.launch_plan import LaunchPlan
from ..options import KubernetesOptions


def check(plan: LaunchPlan, options: KubernetesOptions) -> Iterator[Diagnostic]:
    scratch = plan.run.scratch
    if plan.run.storage == "object" and not scratch.startswith("/"):
        title = f"storage.scratch={scratch} is not an absolute path"
        because = "containers in a pod have different working directories, so a relative path is ambiguous"
        hint = f"storage.scratch=/tmp/{scratch.removeprefix('~/').lstrip('./') or 'jobc-runs'}"
        yield Diagnostic("JC4519", title, because, hint, key="storage.scratch")
