"""JC4512: a pod without an image."""

from __future__ import annotations

from collections.abc import Iterator

from ....compiler.diagnostics.diagnostic import Diagnostic
from ....compiler.plan.launch_plan import LaunchPlan
from ....compiler.spec.examples import IMAGE
from ..options import KubernetesOptions


def check(plan: LaunchPlan, options: KubernetesOptions) -> Iterator[Diagnostic]:
    if plan.container.image is None:
        because = "a pod runs a container image, which must contain bash, Python and torch"
        hint = f"container=pod python=image image={IMAGE}"
        yield Diagnostic("JC4512", "a pod needs an image", because, hint, key="image")
