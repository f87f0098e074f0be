"""Find a model's blocks, which are the units of activation checkpointing, compilation and sharding.

The model lists its blocks, in order, in the attribute `blocks`, or, as in transformers 5.23, their class names in
`_no_split_modules`. With fsdp and hsdp, the job can name the classes in parallel.transformer_layer_cls_to_wrap.
Checkpointing is applied first, then compilation, then sharding. All three work in place, so that parameters keep their
names.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from ..config.schema import LoopConfig
from ..lifecycle.errors import BrokenInput


def find_blocks(model: nn.Module, classes: Sequence[str] = ()) -> list[nn.Module]:
    """Return the modules of these classes, outermost first; if no classes are given, return declared_blocks(). Raises
    BrokenInput if the model has no module of one of the classes.
    """
    if not classes:
        return declared_blocks(model)
    inner = [module for module in model.modules() if module is not model]
    if missing := sorted({*classes} - {type(module).__name__ for module in inner}):
        available = sorted({type(module).__name__ for module in inner} - {type(model).__name__})
        title = f"parallel.transformer_layer_cls_to_wrap: the model has no module of class {', '.join(missing)}"
        raise BrokenInput(title, [f"the model has {', '.join(available)}"])
    return [module for module in inner if type(module).__name__ in classes]


def declared_blocks(model: nn.Module) -> list[nn.Module]:
    """Return the blocks that the model lists, or []. An attribute `blocks` may be something else, such as a number."""
    blocks = getattr(model, "blocks", ())
    listed = blocks if isinstance(blocks, (list, tuple, nn.ModuleList, nn.Sequential)) else ()
    if modules := [block for block in listed if isinstance(block, nn.Module)]:
        return modules
    classes: set[str] = set()
    for module in model.modules():  # a transformers model may be a submodule
        names = getattr(module, "_no_split_modules", None)
        classes |= set(names) if isinstance(names, (list, tuple, set, frozenset)) else set()
    return [module for module in model.modules() if module is not model and type(module).__name__ in classes]


def apply_checkpointing_and_compile(model: nn.Module, loop: LoopConfig, classes: Sequence[str] = ()) -> None:
    """Apply loop.activation_checkpointing and loop.compile to the blocks. Raises BrokenInput if there are none."""
    blocks = find_blocks(model, classes)
    if not blocks and (loop.activation_checkpointing or loop.compile == "blocks"):
        key = "activation_checkpointing" if loop.activation_checkpointing else "compile"
        raise BrokenInput(
            f"loop.{key} needs the model's blocks, but {type(model).__name__} does not name any",
            hint="add an attribute `blocks`, a list of modules; or parallel.transformer_layer_cls_to_wrap with fsdp",
        )
    # replace forward() only, so that the hooks of FSDP and DeepSpeed are neither compiled nor recomputed
    if loop.activation_checkpointing:
        for block in blocks[:: loop.activation_checkpointing]:
            block.__dict__["forward"] = with_activation_checkpointing(block.forward)
    if loop.compile == "blocks":
        # once for the first shape, and once more for all others; with dynamic=False, torch 2.13 would compile eight
        # shapes and run all others uncompiled
        for block in blocks:
            block.__dict__["forward"] = torch.compile(block.forward)


def with_activation_checkpointing(forward: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap `forward` in activation checkpointing: keep only its inputs, and recompute the rest in the backward pass."""

    @functools.wraps(forward)
    def run_checkpointed(*args: Any, **kwargs: Any) -> Any:
        return checkpoint(forward, *args, use_reentrant=False, **kwargs)

    return run_checkpointed
