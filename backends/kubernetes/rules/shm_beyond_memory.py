"""JC4508: shared memory that is not smaller than the pod's memory."""

from __future__ import annotations

from collections.abc import Iterator

from ....compiler.diagnostics.diagnostic import Diagnostic
from ....compiler.plan.launch_plan import LaunchPlan
from ....compiler.spec.value_types import show_bytes
from ..options import KubernetesOptions


def check(plan: LaunchPlan, options: KubernetesOptions) -> Iterator[Diagnostic]:
    shm, memory = plan.resources.shm_bytes, plan.resources.mem_bytes
    if shm and memory and shm >= memory:
        because = "/dev/shm counts toward the pod's memory, and the pod is killed when that is full (137)"
        yield Diagnostic("JC4508", "shm is not less than mem", because, f"mem={show_bytes(2 * shm)}", key="shm")
