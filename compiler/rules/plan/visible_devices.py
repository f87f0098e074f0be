"""JC3006: GPUs hidden from the ranks that are to use them, by a variable set by hand.

Source CUDA Programming Guide 13 (CUDA_VISIBLE_DEVICES); torch 2.13, torch/cuda/__init__.py (_parse_visible_devices)
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import takewhile

from ...diagnostics import Diagnostic
from ...plan import LaunchPlan
from ...spec import JobSpec

_MASKS = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL")
_DEVICES = (r"\s*\+?0*(\d+)", r"(GPU-.+)", r"(MIG-.+)")  # of one mask all are of one kind


def check(spec: JobSpec, plan: LaunchPlan) -> Iterator[Diagnostic]:
    masks, procs = [name for name in _MASKS if name in spec.env], plan.topology.procs
    if not masks or not plan.topology.gpus:
        return
    if len(masks) > 1:
        title = f"{' and '.join(masks)} together"
        because = "each counts among those that the other leaves, so that in the end ranks may find no GPU"
        yield _error(title, because, f"~env.{masks[1]}", masks[1])
        return
    left, hidden = _left(spec.env[masks[0]])
    if left < procs:
        title = f"env.{masks[0]} leaves {left} GPU{'s' * (left != 1)} to {procs} rank{'s' * (procs != 1)}"
        because = "the other ranks end at once with `invalid device ordinal`" if left else "no rank finds a GPU"
        other = f"procs={left}" if left else "gpus=0"
        hint = f"~env.{masks[0]}, and the engine gives the GPUs; or {other}"
        yield _error(title, "; ".join(filter(None, (hidden, because))), hint, masks[0])


def _left(mask: str) -> tuple[int, str]:
    """How many GPUs a mask leaves, and what hides others that stand in it."""
    names = mask.split(",")
    kind = next((each for each in _DEVICES if re.match(each, mask)), _DEVICES[0])
    devices = [found[1] for found in takewhile(bool, (re.match(kind, name) for name in names)) if found]
    if twice := next((device for device in devices if devices.count(device) > 1), None):
        return 0, f"a GPU that stands there twice, {twice}, hides all"
    hides = len(devices) < len(names) - 1
    return len(devices), f"the list ends at {names[len(devices)]!r}, which is no GPU" if hides else ""


def _error(title: str, because: str, hint: str, name: str) -> Diagnostic:
    return Diagnostic("JC3006", title, because, hint, key=f"env.{name}", judgment=True)
