"""Explain, for `jobc why`, what sets CUDA_VISIBLE_DEVICES and similar variables."""

from collections.abc import Mapping
from typing import Any

from ...plan.runtime_vars import RuntimeVar, Scope
from ...plugins.registry import find_plugins

VISIBLE_GPUS = ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES")


def explain_visible_gpus(plan: Mapping[str, Any], path: str, is_shared: bool = False) -> str:
    """Return a sentence that explains what sets the variable.

    plan: the plan's keys and values.
    path: the job's file that sets the variable, "" for none.
    is_shared: whether several nodes share a machine.
    """
    if path:
        return f"{path} sets it"
    if not plan["topology.gpus"]:
        return "this job neither sets the variable nor requests GPUs from an engine"
    if is_shared:
        return "jobctl sets this variable to the node's share of the GPUs that jobctl submit may use"
    if _has_engine(plan["backend.name"]):
        return "the engine allocates `gpus` GPUs on each node: it sets this variable or hides the other GPUs"
    return "not set by jobc: the ranks inherit the value from their node's environment, or see all GPUs"


def _has_engine(backend: str) -> bool:
    """Return whether an engine places the nodes. Assumes that it does if the backend is not installed."""
    plugin = find_plugins().get(backend)
    return plugin is None or plugin.load().spellings[RuntimeVar.NODE_RANK].scope > Scope.SUBMIT
