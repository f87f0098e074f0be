"""Estimate how many parameters FSDP gathers at once, in trainer/parallel/fsdp.py or, for other programs, in accelerate
1.15.0.

A unit is gathered while it runs, and the next one is prefetched. Parameters outside all units belong to the root: the
trainer keeps them from the forward pass to the end of the backward pass. Source: torch 2.13,
torch.distributed.fsdp.fully_shard.
"""

from collections.abc import Mapping
from typing import Any

from .parameters import ModelSize, Tree


def gathered_parameters(parallel: Mapping[str, Any], size: ModelSize) -> int | None:
    """Return the number of gathered parameters, None if the largest unit is unknown. parallel: from train.json"""
    n, policy = size.parameters, parallel["auto_wrap_policy"]
    is_whole = policy == "NO_WRAP" or (policy == "SIZE_BASED_WRAP" and n < parallel["min_num_params"])
    if is_whole or not parallel["reshard_after_forward"]:
        return n
    if size.modules is None:
        return None if size.largest_unit is None else min(2 * size.largest_unit, n)
    unit, unwrapped = size.modules.block, size.modules.rest
    if policy == "SIZE_BASED_WRAP":
        unit, unwrapped = parameters_wrapped_by_size(size.modules.tree, parallel["min_num_params"])
    elif {*parallel["transformer_layer_cls_to_wrap"]} - {size.modules.kind}:
        return None
    return min(2 * unit + unwrapped, n)


def parameters_wrapped_by_size(module: Tree, least: int) -> tuple[int, int]:
    """Return the number of parameters in the largest unit, and the number outside all units, for wrapping by size.

    least: a module is a unit if it has at least this many parameters that are not in a unit inside it.
    """
    if isinstance(module, int):
        return 0, module
    largest = unwrapped = 0
    for count, child in module:
        inside, remaining = parameters_wrapped_by_size(child, least)
        is_unit = remaining >= least
        largest = max(largest, inside, remaining if is_unit else 0)
        unwrapped += 0 if is_unit else count * remaining
    return largest, unwrapped
