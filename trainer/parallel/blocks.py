"""The blocks of a model: what is recomputed, compiled and sharded as one.

A model names them: its attribute `blocks` holds them in order, or, as in models of transformers 5.23, its attribute
`_no_split_modules` holds their classes. Or the job names the classes, with fsdp and hsdp:
parallel.transformer_layer_cls_to_wrap. Recompute, then compile, then shard: each takes in what the one before it made.
All is done in place, so that parameters keep their names.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from ..config.schema import LoopConfig
from ..lifecycle.errors import BrokenInput

Forward = Callable[..., Any]


def blocks_of(model: nn.Module, classes: Sequence[str] = ()) -> list[nn.Module]:
    """The modules of these classes, outer before inner; without any, those that the model names, perhaps none.

    Raises BrokenInput when no module is of one of the classes.
    """
    if not classes:
        return named_blocks(model)
    inner = [module for module in model.modules() if module is not model]
    if missing := sorted({*classes} - {type(module).__name__ for module in inner}):
        available = sorted({type(module).__name__ for module in inner} - {type(model).__name__})
        raise BrokenInput(
            f"parallel.transformer_layer_cls_to_wrap: the model has no module of class {', '.join(missing)}",
            [f"it has {', '.join(available)}"],
        )
    return [module for module in inner if type(module).__name__ in classes]


def named_blocks(model: nn.Module) -> list[nn.Module]:
    """Return the blocks that the model names itself: `blocks` may be something else, such as their number."""
    blocks = getattr(model, "blocks", ())
    if isinstance(blocks, (list, tuple, nn.ModuleList, nn.Sequential)):
        modules = [block for block in blocks if isinstance(block, nn.Module)]
        if modules:
            return modules
    classes: set[str] = set()
    for module in model.modules():  # such a model may be a part of another
        names = getattr(module, "_no_split_modules", None)
        classes |= set(names) if isinstance(names, (list, tuple, set, frozenset)) else set()
    return [module for module in model.modules() if module is not model and type(module).__name__ in classes]


def prepare(model: nn.Module, loop: LoopConfig, classes: Sequence[str] = ()) -> None:
    """Apply loop.activation_checkpointing and loop.compile to blocks. Raises BrokenInput if there are none."""
    blocks = blocks_of(model, classes)
    if not blocks and (loop.activation_checkpointing or loop.compile == "blocks"):
        key = "activation_checkpointing" if loop.activation_checkpointing else "compile"
        raise BrokenInput(
            f"loop.{key} needs the model's blocks, and {type(model).__name__} does not name any",
            hint="add an attribute `blocks`, a list of modules; or parallel.transformer_layer_cls_to_wrap with fsdp",
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
    def again(*inputs: Any, **named: Any) -> Any:
        return checkpoint(forward, *inputs, use_reentrant=False, **named)

    return again


def compiled(forward: Forward) -> Forward:
    """`forward` by torch.compile 2.13: once for the first length, and once more for all others.

    With dynamic=False torch would compile eight lengths and run all others without compilation.
    """
    compiled_forward: Forward = torch.compile(forward)
    return compiled_forward


def _replace_forward(block: nn.Module, forward: Forward) -> None:
    """Hooks stay around it: FSDP's and DeepSpeed's are no part of what is compiled or done again."""
    setattr(block, "forward", forward)  # noqa: B010 (mypy: a method cannot be assigned to)
