"""JC4605: a launcher other than `accelerate launch`.

`honours` cannot report this, because it is not checked for torchrun, which needs no support from a backend.
"""

from __future__ import annotations

from collections.abc import Iterator

from ....compiler.diagnostics.diagnostic import Diagnostic
from ....compiler.plan.launch_plan import LaunchPlan
from ..options import AccelerateOptions


def check(plan: LaunchPlan, options: AccelerateOptions) -> Iterator[Diagnostic]:
    if plan.launcher != "accelerate":
        because = "this backend is the same as ssh with `accelerate launch` as the launcher"
        hint = f"backend=ssh launcher={plan.launcher}, or launcher=accelerate"
        yield Diagnostic(
            "JC4605", f"backend accelerate does not support launcher={plan.launcher}", because, hint, key="launcher"
        )
