"""Recipe: a training run's data, model, optimizer, loss and validation in one class.

A custom recipe overrides what it needs: `recipe: my_pkg.MyRecipe`, with `from jobc_trainer.recipe import Recipe`.
Sample order, sharding, gradient exchange, checkpoints and resume are not part of the recipe, so their guarantees hold
for every recipe.

Shapes: B samples per batch, K classes; `…` zero or more dimensions.
"""

import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import Optimizer

from ..config.instantiate import import_dotted_name, run_user_code, target_callable
from ..config.schema import TrainConfig, kind_of
from ..config.target import Target
from ..data import map_style
from ..data.open import open_source
from ..data.source import IGNORE, DataSource
from ..lifecycle.errors import BrokenInput
from ..models.build import build_model
from .mfu import flops_per_sample
from .optimizer import build_optimizer

Sum: TypeAlias = Tensor
Count: TypeAlias = Tensor | float | None  # may be a sum of weights; None means the result of count()


class Recipe:
    """Default recipe: builds model, data, loss and optimizer from train.json.

    score: name of the score, which is the mean of measure()'s second value. None = the data source's name, or "loss"
           if you override the loss but not measure().
    """

    score: str | None = None

    def __init__(self, config: TrainConfig) -> None:
        self.config = config
        self.items_of: Callable[..., Any] = cross_entropy
        if isinstance(config.loss, Target):
            self.items_of = target_callable(config.loss, "loss")

    def build_data(self) -> DataSource:
        """Return the training and validation data, which must be the same on every rank. For your own data sets, use
        `return self.source(train, val)`.
        """
        return open_source(self.config)

    def build_model(self, source: DataSource) -> nn.Module:
        """Return a new model on the CPU. Use torch's global random generator, whose seed is the same on all ranks."""
        return build_model(self.config.model, source.num_inputs, source.num_classes)

    def build_optimizer(self, model: nn.Module) -> Optimizer:
        """Return the optimizer. The largest learning rate of its groups must be optim.lr. Before each step, the trainer
        sets that rate from the schedule, and scales the rates of other groups in proportion.
        """
        return build_optimizer(model, self.config.optim)

    def count(self, batch: Any) -> float | None:
        """Return the number of items in a batch, by which the loss is divided.

        Return None if only loss() can count them; gradients are then scaled later. This number overrides the count from
        loss(); both must agree for the first batch.
        """
        is_usual = type(self).loss is Recipe.loss and self.items_of is cross_entropy
        return int((inputs_and_targets(batch)[1] != IGNORE).sum()) if is_usual else None

    def loss(self, model: nn.Module, batch: Any) -> tuple[Sum, Count]:
        """Return the sum of the loss over a batch's items, and the number of items. Do not return the mean: the trainer
        divides the sum by the number of items on all ranks.
        """
        inputs, targets = inputs_and_targets(batch)
        outputs = call_model_with_inputs(model, inputs)
        if self.items_of is cross_entropy:
            return cross_entropy(outputs, targets), None
        return loss_sum_and_count(self.items_of(outputs, targets), targets, self.items_of, self.config)

    def measure(self, model: nn.Module, batch: Any) -> tuple[Sum, Sum | float, Count]:
        """Return, for a held-out batch, the sums of loss and score (see `score`) over its items, and the item count."""
        if type(self).loss is Recipe.loss and self.items_of is cross_entropy:
            inputs, targets = inputs_and_targets(batch)
            logits = call_model_with_inputs(model, inputs)
            return cross_entropy(logits, targets), (logits.argmax(-1) == targets).sum(), (targets != IGNORE).sum()
        loss, num_items = self.loss(model, batch)
        return loss, 0.0, self.count(batch) if num_items is None else num_items

    def flops_per_sample(self, num_parameters: int) -> float | None:
        """Return the FLOPs of the forward and backward pass for one sample, to compute the MFU, or None if unknown.

        num_parameters: number of parameters of the whole model.
        """
        if type(self).build_model is not Recipe.build_model:  # config.model does not describe this model
            return None
        return flops_per_sample(self.config.model, num_parameters)

    def source(self, train: Any, val: Any = None, collate: Callable[[list[Any]], Any] | None = None) -> DataSource:
        """Wrap map-style data sets as a DataSource. val: a data set, the fraction of `train` to hold out, or None"""
        return map_style.source_from_datasets(type(self).__name__, train, val, self.config.seed, collate)


def build_recipe(config: TrainConfig) -> Recipe:
    """Return the recipe that config.recipe names. Raises BrokenInput if it is not a subclass of Recipe."""
    if config.recipe is None:
        return Recipe(config)
    recipe_class = import_dotted_name(config.recipe, "recipe")
    if not (isinstance(recipe_class, type) and issubclass(recipe_class, Recipe)):
        hint = "class MyRecipe(Recipe), with `from jobc_trainer.recipe import Recipe`"
        raise BrokenInput(f"recipe: {config.recipe} is not a subclass of Recipe", hint=hint)
    recipe: Recipe = run_user_code(lambda: recipe_class(config), f"recipe: {config.recipe}(config) failed")
    return recipe


def inputs_and_targets(batch: Any) -> Any:
    """Return the batch if it is (inputs, targets), as the default methods of Recipe require. Raises BrokenInput."""
    if isinstance(batch, Mapping) or (isinstance(batch, list | tuple) and len(batch) != 2):
        description = ", ".join(map(str, batch)) if isinstance(batch, Mapping) else f"{len(batch)} values"
        raise BrokenInput(
            f"data: a batch is {type(batch).__name__} ({description:.120}), not (inputs, target)",
            hint="set data.collate to a function that returns (inputs, targets), or write a recipe with its own loss()",
        )
    return batch


def call_model_with_inputs(model: nn.Module, inputs: Any) -> Any:
    """Call the model with a batch's inputs: a tensor, a list of positional arguments, or a mapping of keyword ones."""
    if isinstance(inputs, Mapping):
        return model(**inputs)
    return model(*inputs) if isinstance(inputs, list | tuple) else model(inputs)


def cross_entropy(logits: Any, targets: Tensor) -> Sum:
    """Return the cross-entropy in nats, summed over the targets that are not IGNORE.

    logits:  logits_B…K
    targets: targets_B…, int64
    Raises BrokenInput if shapes or types do not match, and on a CPU if a target is outside 0..K-1.
    """
    if not isinstance(logits, Tensor) or logits.shape[:-1] != targets.shape or targets.is_floating_point():
        got = f"{logits.dtype} {list(logits.shape)}" if isinstance(logits, Tensor) else type(logits).__name__
        raise BrokenInput(
            f"model: outputs and targets do not match: {got} for {targets.dtype} targets {list(targets.shape)}",
            [f"cross-entropy needs outputs {[*targets.shape, 'classes']} and integer targets"],
            hint="another model._target_, or your own loss: loss._target_",
        )
    try:
        return F.cross_entropy(logits.flatten(0, -2).float(), targets.flatten(), ignore_index=IGNORE, reduction="sum")
    except IndexError as error:  # torch 2.13 on a CPU; on a GPU it is a device-side assert
        real = targets[targets != IGNORE]
        raise BrokenInput(
            f"model: {logits.shape[-1]} output classes, but targets are {int(real.min())} to {int(real.max())}",
            hint="the model needs one output per class, and targets start at 0",
        ) from error


def loss_sum_and_count(
    result: Any, targets: Any, items_of: Callable[..., Any], config: TrainConfig
) -> tuple[Sum, Count]:
    """Convert the result of a loss function to (sum, count).

    result: (sum, count), or one loss per item (0 for ignored targets).
    Raises BrokenInput for any other result.
    """
    name = kind_of(config.loss)
    if isinstance(result, tuple) and len(result) == 2:
        return result[0].sum().float(), result[1]
    if isinstance(result, Tensor) and result.ndim and result.shape[0] == len(targets):
        if isinstance(targets, Tensor) and result.shape != targets.shape[: result.ndim]:
            raise BrokenInput(
                f"loss: {name} returned {list(result.shape)} for targets {list(targets.shape)}",
                ["torch broadcasts outputs and targets of different shapes, with only a warning"],
                hint="return model outputs with the shape of the targets; a custom loss can return (sum, count)",
            )
        ignored = loss_ignore_index(items_of)
        counts_all = ignored is None or not isinstance(targets, Tensor) or result.shape != targets.shape
        return result.sum(dtype=torch.float32), result.numel() if counts_all else (targets != ignored).sum()
    got = f"a tensor {list(result.shape)}" if isinstance(result, Tensor) else type(result).__name__
    reason = "a mean does not include the number of items, which can differ between ranks and micro-batches"
    if isinstance(result, Tensor) and result.ndim:
        reason = "the first dimension must be the batch, so that padding can be masked"
    raise BrokenInput(
        f"loss: {name} returned {got} for a batch of {len(targets)}",
        [reason],
        hint="return one loss per item (reduction: none), in the shape of the targets, or (sum, count)",
    )


def loss_ignore_index(items_of: Callable[..., Any]) -> Any:
    """Return the ignore_index of a torch loss (a module's attribute or a function's argument), or None."""
    if isinstance(items_of, nn.Module):
        return getattr(items_of, "ignore_index", None)
    try:
        argument = inspect.signature(items_of).parameters.get("ignore_index")
    except (TypeError, ValueError):  # a function without a Python signature
        return None
    return argument.default if argument is not None else None
