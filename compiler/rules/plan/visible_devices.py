"""JC3006: a variable that the user sets and that hides GPUs from ranks that need them.

Source: CUDA Programming Guide 13 (CUDA_VISIBLE_DEVICES); torch 2.13, torch/cuda/__init__.py (_parse_visible_devices).
"""

import re
from collections.abc import Iterator
from itertools import takewhile

from ...diagnostics.diagnostic import Diagnostic
from ...plan.launch_plan import LaunchPlan
from ...spec.job_spec import JobSpec
from ._variables import user_variables

_MASKS = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL")
_DEVICES = (r"\s*\+?0*(\d+)", r"(GPU-.+)", r"(MIG-.+)")  # all entries of one mask have the same kind


def check(spec: JobSpec, plan: LaunchPlan) -> Iterator[Diagnostic]:
    masks, procs = (
        {variable.name: variable for variable in user_variables(spec) if variable.name in _MASKS},
        plan.topology.procs,
    )
    if not masks or not plan.topology.gpus:
        return
    first, *others = sorted(masks.values(), key=lambda variable: _MASKS.index(variable.name))
    if others:
        title = f"{' and '.join(variable.name for variable in (first, *others))} together"
        because = "each variable filters the GPUs that the other leaves visible, so ranks may find no GPU"
        yield _error(title, because, others[0].without(), others[0].key)
        return
    visible, hidden = _count_visible(first.value)
    if visible < procs and first.is_known:
        title = f"{first.title} leaves {visible} GPU{'s' * (visible != 1)} to {procs} rank{'s' * (procs != 1)}"
        because = "the other ranks fail immediately with `invalid device ordinal`" if visible else "no rank finds a GPU"
        alternative = f"procs={visible}" if visible else "gpus=0"
        hint = f"{first.without()}, so that the engine allocates the GPUs; or {alternative}"
        yield _error(title, "; ".join(filter(None, (hidden, because))), hint, first.key)


def _count_visible(mask: str) -> tuple[int, str]:
    """Return how many GPUs a mask leaves visible, and why the rest is hidden."""
    names = mask.split(",")
    kind = next((pattern for pattern in _DEVICES if re.match(pattern, mask)), _DEVICES[0])
    devices = [match[1] for match in takewhile(bool, (re.match(kind, name) for name in names)) if match]
    if twice := next((device for device in devices if devices.count(device) > 1), None):
        return 0, f"GPU {twice} is listed twice, which hides all GPUs"
    hides = len(devices) < len(names) - 1
    return len(devices), f"{names[len(devices)]!r} is not a GPU, and CUDA ignores the rest of the list" if hides else ""


def _error(title: str, because: str, hint: str, key: str) -> Diagnostic:
    return Diagnostic("JC3006", title, because, hint, key=key, judgment=True)
