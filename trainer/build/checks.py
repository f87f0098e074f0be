"""Before the first step, check the parts that users provide: data set, model, loss, score and counts.

Input:  the value that a method of the recipe returned.
Output: the same value if it is valid; otherwise a BrokenInput with a one-line description and a hint.
parallel/interface.py checks the optimizer, and recipe/loss.py checks a loss's parameters and buffers.
"""

import contextlib
import math
from collections.abc import Callable
from numbers import Real
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import UninitializedParameter

from ..checkpoint.safe_pickle import require_loadable_state
from ..config.instantiate import run_user_code
from ..config.schema import kind_of
from ..config.target import Target
from ..data.source import DataSource
from ..lifecycle.errors import BrokenInput, list_names
from ..recipe.recipe import Recipe


def has_user_code(recipe: Recipe) -> bool:
    config = recipe.config
    return type(recipe) is not Recipe or any(
        isinstance(section, Target) for section in (config.model, config.data, config.loss)
    )


def call_user_code(function: Callable[[], Any], recipe: Recipe, title: str) -> Any:
    """Call `function` as run_user_code() does, but raise errors unchanged if the job has no user code."""
    return run_user_code(function, title) if has_user_code(recipe) else function()


def check_source(source: Any) -> DataSource:
    if not isinstance(source, DataSource):
        hint = "return self.source(train, val), which makes a Source from data sets"
        raise BrokenInput(f"recipe: build_data() must return a Source, not {type(source).__name__}", hint=hint)
    return source


def check_score_name(score: Any) -> None:
    if score is not None and not isinstance(score, str):
        raise BrokenInput(f"recipe: score is {score!r:.60}, but must be one word that names the score of measure()")


def check_model(model: Any, recipe: Recipe) -> nn.Module:
    """Check that the result of build_model() can be trained and saved, and return it."""
    if not isinstance(model, nn.Module):
        raise BrokenInput(f"recipe: build_model() must return a torch.nn.Module, not {type(model).__name__}")
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise BrokenInput(f"model: {kind_of(recipe.config.model)} has no trainable parameters")
    check_storage(model)
    require_loadable_state("the model's state_dict", model.state_dict())  # now, not at the first save
    return model


def check_storage(model: nn.Module) -> None:
    """Reject tensors that cannot be written in place, because the first broadcast and each resume write in place."""
    lazy = [name for name, parameter in model.named_parameters() if isinstance(parameter, UninitializedParameter)]
    if lazy:
        hint = "specify the sizes of these parameters, or run one batch through the model after you build it"
        raise BrokenInput(f"model: uninitialized (lazy) parameters: {list_names(lazy)}", hint=hint)
    tensors = [*model.named_parameters(), *model.named_buffers()]
    if empty := [name for name, tensor in tensors if tensor.is_meta]:
        hint = "build the model on the CPU; or use to_empty(device='cpu') and initialize the model"
        raise BrokenInput(f"model: tensors on the `meta` device have no values: {list_names(empty)}", hint=hint)
    if expanded := [name for name, tensor in tensors if is_expanded(tensor)]:
        hint = "expand() creates such tensors; use .clone() to give each element separate memory"
        raise BrokenInput(f"model: elements of a tensor share memory: {list_names(expanded)}", hint=hint)


def is_expanded(tensor: Tensor) -> bool:
    """Return whether the elements along some dimension share memory, as after expand()."""
    if tensor.layout != torch.strided:
        return False
    return any(size > 1 and stride == 0 for size, stride in zip(tensor.shape, tensor.stride(), strict=True))


def check_loss(output: Any) -> tuple[Tensor, Any]:
    """Check that loss() returned (sum, count) and that the sum depends on a trainable parameter. Return both."""
    is_pair = isinstance(output, tuple) and len(output) == 2
    if not (is_pair and isinstance(output[0], Tensor) and output[0].ndim == 0):
        raise BrokenInput("recipe: loss() must return (sum, count), where sum is a tensor with one element")
    if not output[0].requires_grad:
        raise BrokenInput("loss: the result does not depend on any trainable parameter")
    return output[0], output[1]


def check_measure(output: Any) -> None:
    if not (isinstance(output, tuple | list) and len(output) == 3 and all(map(is_number, output))):
        raise BrokenInput("recipe: measure() must return (loss, score, count), each summed over the batch")


def check_count(count: Any, method: str, max_dims: int = 0) -> None:
    """Check the number of items that a method of the recipe returned. None, which means unknown, is valid."""
    if count is not None and not is_number(count, max_dims):
        raise BrokenInput(f"recipe: {method} returned the item count {count!r:.60}, which is not a number")


def check_counts_agree(counted: Any, num_items: Any) -> None:
    """Check that count() and loss() agree on the number of items in a batch, and that at least one returns it."""
    if counted is None and num_items is None:
        raise BrokenInput("recipe: neither count() nor loss() returns the number of items in a batch")
    if counted is not None and num_items is not None and not math.isclose(counted, float(num_items), rel_tol=1e-6):
        counts = f"count() returned {counted:g} items but loss() {float(num_items):g}"
        raise BrokenInput(f"recipe: {counts} for the same batch")


def is_number(value: Any, max_dims: int = 0) -> bool:
    """Return whether `value` can become a tensor with one element and at most `max_dims` dimensions."""
    try:
        tensor = torch.as_tensor(value, dtype=torch.float64)
    except (TypeError, ValueError, RuntimeError):
        return False
    return tensor.numel() == 1 and tensor.ndim <= max_dims


def validated_flops(recipe: Recipe, num_parameters: int) -> float | None:
    """Return the recipe's FLOPs for training on one sample, or None if unknown."""
    flops = run_user_code(lambda: recipe.flops_per_sample(num_parameters), "recipe: flops_per_sample() failed")
    if flops is None:
        return None
    with contextlib.suppress(OverflowError):
        if isinstance(flops, Real) and 0 < float(flops) < math.inf:
            return float(flops)
    hint = "return None if the number is unknown"
    raise BrokenInput(f"recipe: flops_per_sample() returned {flops!r:.60}, not a number above 0", hint=hint)
