"""Interface of a kind of parallelism: the methods called by training steps, checkpoints and validation.

To add a kind, add a file with a class that implements them.
"""

import hashlib
import inspect
import math
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from torch import Tensor, nn
from torch.optim import Optimizer

from ..config.instantiate import run_user_code
from ..config.schema import optimizer_schedule
from ..dist.process_group import RankGroup, format_ranks
from ..lifecycle.errors import BrokenInput, list_names
from ..recipe.optimizer import StepUpdate, parameter_names_by_index, require_no_scheduler
from ..recipe.recipe import Recipe


class Parallel(Protocol):
    """One model and its optimizer, distributed over all ranks. All ranks must call every method except pass_context().

    module:        the model with its loss (loss.ModelWithLoss), for training steps.
    evaluated:     the model with its loss, for validation.
    equal_passes:  whether all ranks must call `evaluated` the same number of times.
    names:         names of the optimizer's parameters, in the order of its state.
    counts_ahead:  whether each step waits for the item count of all ranks before its first backward pass. There are
                   three reasons to wait: gradients cannot be scaled afterwards; fp16 gradients could overflow; or, on
                   a GPU, this wait detects a lost peer, because waiting for the GPU itself raises no error.
    gathers:       whether weights() and optimizer_state() return CPU copies, which the next step does not change.
    """

    module: nn.Module
    evaluated: nn.Module
    equal_passes: bool
    names: list[str]
    gathers: bool

    @property
    def counts_ahead(self) -> bool: ...

    def run_warm_up_backward(self, loss: Tensor, counted: bool) -> None:
        """Run a backward pass without changing weights. counted: whether count() returned the item count"""

    def pass_context(self, last: bool) -> AbstractContextManager[None]:
        """Return the context for one pass. last: whether it is the step's last, in which ranks exchange gradients"""

    def backward(self, loss: Tensor, last: bool) -> None:
        """Run the backward pass. The gradient exchange averages over ranks."""

    def gradient_norm(self) -> Tensor | None:
        """Return the gradient norm on the device, or None if only update() knows it."""

    def update(self, lr: float, clip_norm: float | None, norm: float | None, factor: float, loss: float) -> StepUpdate:
        """Run one optimizer step, unless a gradient or the loss is NaN or Inf on some rank (DeepSpeed steps anyway).

        lr:     largest learning rate of the parameter groups.
        norm:   value of gradient_norm().
        factor: factor by which the gradients are multiplied before clipping.
        loss:   mean over all ranks.
        """

    def weights(self) -> Mapping[str, Any]:
        """Return the model's unsharded state_dict(), complete on rank 0."""

    def optimizer_state(self) -> Mapping[str, Any]:
        """Return the optimizer's unsharded state_dict(), complete on rank 0. With fp16, it includes `loss_scale`."""

    def load_weights(self, weights: Mapping[str, Any]) -> None:
        """Load an unsharded state_dict. Raises RuntimeError if it belongs to a different model."""

    def load_optimizer(self, state: Mapping[str, Any]) -> None: ...


def copy_from_rank_0(model: nn.Module, group: RankGroup) -> None:
    """Broadcast rank 0's parameters and buffers. DDP does this itself; fully_shard (torch 2.13) does not, and DeepSpeed
    0.19.8 broadcasts only parameters.
    """
    named = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    lines = [f"{name} {value.dtype} {list(value.shape)}" for name, value in named.items()]
    require_same_on_ranks(lines, "the model", group)
    group.copy_from_rank_0(named.values())


def build_checked_optimizer(recipe: Recipe, model: nn.Module, group: RankGroup) -> Optimizer:
    """Build the recipe's optimizer for the wrapped model. Rank 0 warns about parameters that the optimizer lacks.

    Raises BrokenInput if the result is not an Optimizer, if a group has no learning rate or one that the trainer would
    overwrite, or if an optimizer from torch.optim has none of the model's parameters. (A custom one may train copies.)
    """
    optimizer = run_user_code(lambda: recipe.build_optimizer(model), "recipe: build_optimizer() failed")
    if not isinstance(optimizer, Optimizer):
        kind = type(optimizer).__name__
        raise BrokenInput(f"recipe: build_optimizer() must return a torch.optim.Optimizer, not {kind}")
    if not all(isinstance(param_group.get("lr"), (int, float, Tensor)) for param_group in optimizer.param_groups):
        hint = "set lr=NUMBER, which the schedule changes; optimizers that find their own rate are not supported"
        raise BrokenInput("recipe: the optimizer from build_optimizer() has a parameter group without lr", hint=hint)
    require_no_scheduler(optimizer.param_groups)
    require_configured_rate(optimizer, recipe, group)
    optimized = {parameter for param_group in optimizer.param_groups for parameter in param_group["params"]}
    trainable = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
    left_out = [name for name, parameter in trainable.items() if parameter not in optimized]
    if len(left_out) == len(trainable) and type(optimizer).__module__.startswith("torch.optim."):
        hint = "use model.parameters() of the model passed to build_optimizer(self, model)"
        raise BrokenInput("recipe: the optimizer from build_optimizer() has none of the model's parameters", hint=hint)
    if left_out and group.is_first:
        count, shown = f"{len(left_out)} of {len(trainable)} parameters", list_names(left_out)
        print(f"warning: {count} are not in the optimizer and will not be trained\n  {shown}", flush=True)
    return optimizer


def require_configured_rate(optimizer: Optimizer, recipe: Recipe, group: RankGroup) -> None:
    """Raise BrokenInput if a recipe's own optimizer has a learning rate other than optim.lr, which the trainer sets. If
    that rate is only the default of the optimizer's class, rank 0 prints a note instead.
    """
    lr = optimizer_schedule(recipe.config.optim).lr
    largest = max(float(param_group["lr"]) for param_group in optimizer.param_groups)
    if type(recipe).build_optimizer is Recipe.build_optimizer or math.isclose(largest, lr, rel_tol=1e-6):
        return
    default = inspect.signature(type(optimizer)).parameters.get("lr")
    if default is None or default.default != largest:
        raise BrokenInput(
            f"recipe: the optimizer from build_optimizer() has the learning rate {largest:g}, but optim.lr is {lr:g}",
            ["the trainer sets optim.lr before each step, according to its schedule"],
            hint=f"optim.lr={largest:g}; or use self.config.optim.lr in build_optimizer()",
        )
    if group.is_first:
        print(f"optim: the learning rate is optim.lr={lr:g}, not {largest:g}, the optimizer's default", flush=True)


def require_equal_parameter_names(optimizer: Optimizer, model: nn.Module, group: RankGroup) -> list[str]:
    """Return the names of the optimizer's parameters. Raises BrokenInput if their order differs between ranks."""
    names = parameter_names_by_index(optimizer, model)
    require_same_on_ranks(names, "the order of the optimizer's parameters", group)
    return names


def require_same_on_ranks(lines: Sequence[str], subject: str, group: RankGroup) -> None:
    """Raise BrokenInput if `lines` differ between ranks, because the ranks' collectives would not match."""
    digests = group.all_gather_bytes(hashlib.sha256("\n".join(lines).encode()).digest())
    if unlike := [rank for rank, digest in enumerate(digests) if digest != digests[0]]:
        raise BrokenInput(
            f"{subject} on {format_ranks(unlike)} differs from rank 0",
            hint="use the same order on all ranks; the order of a `set` differs between processes",
        )


def is_extra_state(name: str, value: Any) -> bool:
    """Return whether a state_dict entry comes from get_extra_state() and is not a weight."""
    return name.rpartition(".")[2] == "_extra_state" or not isinstance(value, Tensor)


def weight_shapes(weights: Mapping[str, Any]) -> Mapping[str, object]:
    return {name: "extra" if is_extra_state(name, value) else value.shape for name, value in weights.items()}


def require_same_shapes(weights: Mapping[str, Any], shapes: Mapping[str, object]) -> None:
    """Raise RuntimeError if names or shapes differ. The lines of the message after the first contain the names."""
    saved = weight_shapes(weights)
    if wrong := sorted(name for name in saved.keys() | shapes if saved.get(name) != shapes.get(name)):
        raise RuntimeError("weights of a different model:\n" + "\n".join(wrong))
