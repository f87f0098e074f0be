"""The blocks of a model: what is recomputed, compiled and sharded as one.

A model names them: its attribute `blocks` holds them in order. Recompute, then compile, then shard: each takes in
what the one before it made. All is done in place, so that parameters keep their names.
"""

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from ..config import LoopConfig
from ..errors import BrokenInput

Forward = Callable[..., Any]


def blocks_of(model: nn.Module) -> list[nn.Module]:
    """Those that the model names, in order; none when it names none."""
    return [block for block in getattr(model, "blocks", ()) if isinstance(block, nn.Module)]


def prepare(model: nn.Module, loop: LoopConfig) -> None:
    """As loop.activation_checkpointing and loop.compile say of blocks. Raises BrokenInput when there are none."""
    blocks = blocks_of(model)
    if not blocks and (loop.activation_checkpointing or loop.compile == "blocks"):
        key = "activation_checkpointing" if loop.activation_checkpointing else "compile"
        raise BrokenInput(
            f"loop.{key} is about blocks, and {type(model).__name__} names none",
            hint="give the model an attribute `blocks`, a list of modules",
        )
    if loop.activation_checkpointing:
        for block in blocks[:: loop.activation_checkpointing]:
            _replace_forward(block, recomputed(block.forward))
    if loop.compile == "blocks":
        for block in blocks:
            _replace_forward(block, compiled(block.forward))


def recomputed(forward: Forward) -> Forward:
    """`forward`, which keeps its inputs alone and computes the rest again in the backward pass."""

    @functools.wraps(forward)
    def again(*inputs: Any) -> Any:
        return checkpoint(forward, *inputs, use_reentrant=False)

    return again


def compiled(forward: Forward) -> Forward:
    """`forward` by torch.compile. Each shape for itself: there are few, and one general kernel is slower."""
    made: Forward = torch.compile(forward, dynamic=False)
    return made


def _replace_forward(block: nn.Module, forward: Forward) -> None:
    """Hooks stay around it: FSDP's and DeepSpeed's are no part of what is compiled or done again."""
    setattr(block, "forward", forward)  # noqa: B010 (mypy: a method cannot be assigned to)
