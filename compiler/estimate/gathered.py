"""Estimate how many parameters FSDP gathers at once: trainer/parallel/fsdp.py, or accelerate 1.15.0 for other programs.

A unit is gathered while it runs, and the next is on its way. What no unit holds is the model's own: the trainer keeps
it from the forward pass to the end of the backward pass. Source torch 2.13, torch.distributed.fsdp.fully_shard.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .parameters import ModelSize, Tree


def gathered(parallel: Mapping[str, Any], size: ModelSize) -> int | None:
    """parallel: of train.json; None if the size of the largest unit is unknown"""
    n, policy = size.parameters, parallel["auto_wrap_policy"]
    is_whole = policy == "NO_WRAP" or (policy == "SIZE_BASED_WRAP" and n < parallel["min_num_params"])
    if is_whole or not parallel["reshard_after_forward"]:
        return n
    if size.modules is None:
        return None if size.largest_unit is None else min(2 * size.largest_unit, n)
    unit, unwrapped = size.modules.block, size.modules.rest
    if policy == "SIZE_BASED_WRAP":
        unit, unwrapped = wrapped(size.modules.tree, parallel["min_num_params"])
    elif {*parallel["transformer_layer_cls_to_wrap"]} - {size.modules.kind}:
        return None
    return min(2 * unit + unwrapped, n)


def wrapped(module: Tree, least: int) -> tuple[int, int]:
    """(parameters of the largest unit, those in none) by size: modules of `least` beside what is wrapped in them."""
    if isinstance(module, int):
        return 0, module
    largest = unwrapped = 0
    for count, child in module:
        inside, remaining = wrapped(child, least)
        is_unit = remaining >= least
        largest = max(largest, inside, remaining if is_unit else 0)
        unwrapped += 0 if is_unit else count * remaining
    return largest, unwrapped
