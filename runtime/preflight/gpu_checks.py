"""Check a node's GPUs before a run. Part of node_checks.py; packed only in jobs with GPUs."""

from __future__ import annotations

import os
from collections.abc import Iterator

from ..system import gpus
from .node_checks import Check, SameOnAllNodes


def check_gpus_of_type(wanted: int, gpu_type: str) -> Iterator[Check | SameOnAllNodes]:
    """Check how many GPUs are free, and their type. gpu_type: "" for any"""
    found = gpus.list_gpus(os.environ)
    yield from check_gpus(found, wanted)
    if gpu_type:
        good, text = gpus.compare_gpu_types(found, gpu_type)
        yield Check(good, "gpu_type", text, "use other hosts, or gpu_type=null for any type")


def check_gpus(found: list[gpus.Gpu] | None, wanted: int) -> Iterator[Check | SameOnAllNodes]:
    """Check that enough GPUs are free. found: this node's GPUs, or None if only torch can tell"""
    if found is None:
        return
    busy = [gpu for gpu in found if not gpu.is_free]
    text = f"{len(found) - len(busy)} free GPU{'s' * (len(found) - len(busy) != 1)} of {len(found)}"
    if len(found) - len(busy) >= wanted:
        yield Check(True, "gpus", f"{text}, required: {wanted}")
    elif len(found) < wanted:
        yield Check(False, "gpus", f"GPUs visible to the driver: {len(found)}, required: {wanted}", gpus.HINT)
    else:
        hint = "check `nvidia-smi` or `rocm-smi --showpids` there; use other nodes, or kill leftovers of old runs"
        yield Check(False, "gpus", f"{text}, required: {wanted}: {'; '.join(gpu.use for gpu in busy)}", hint)
    kinds = sorted({gpu.name for gpu in found})
    if kinds:
        hint = "choose nodes of one type with queue.nodelist or hosts; the slowest node limits the speed"
        yield SameOnAllNodes("gpu", f"GPU {', '.join(kinds)}", hint)


def check_devices(found: int, wanted: int) -> Check:
    """Check how many GPUs torch can use."""
    return Check(found >= wanted, "devices", gpus.describe_usable_gpus(found, wanted), gpus.HINT)
