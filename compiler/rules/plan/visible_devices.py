"""JC3006: GPUs hidden from the ranks that are to use them, by a variable set by hand."""

from __future__ import annotations

from collections.abc import Iterator

from ...diagnostics import Diagnostic
from ...plan import LaunchPlan
from ...spec import JobSpec

_MASKS = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL")


def check(spec: JobSpec, plan: LaunchPlan) -> Iterator[Diagnostic]:
    masks = [name for name in _MASKS if name in spec.env]
    if not masks or not plan.topology.gpus:
        return
    if len(masks) > 1:
        title = f"{' and '.join(masks)} together"
        because = "each counts among those that the other leaves, so that in the end ranks may find no GPU"
        yield _error(title, because, f"~env.{masks[1]}", masks[1])
        return
    left = [device for device in spec.env[masks[0]].split(",") if device.strip() not in ("", "-1")]
    if len(left) < plan.topology.procs:
        title = f"env.{masks[0]} leaves {len(left)} GPU{'s' * (len(left) != 1)} to {plan.topology.procs} ranks"
        because = "the other ranks end at once with `invalid device ordinal`"
        yield _error(
            title, because, f"~env.{masks[0]}, and the engine gives the GPUs; or procs={max(len(left), 1)}", masks[0]
        )


def _error(title: str, because: str, hint: str, name: str) -> Diagnostic:
    return Diagnostic("JC3006", title, because, hint, key=f"env.{name}", judgment=True)
