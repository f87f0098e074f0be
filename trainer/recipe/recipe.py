"""Recipe: data, model, optimizer, loss and validation of a training run in one class.

A recipe of your own changes what it needs to: `recipe: my_pkg.MyRecipe`, with `from jobc_trainer.recipe import Recipe`.
Order of samples, their shares, the exchange of gradients, checkpoints and resumes are not a recipe's business, so their
guarantees hold for every recipe.

Shapes: B samples of one batch, K classes; `…` any dimensions, or none.
"""

import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import Optimizer

from ..config.instantiate import function_of, locate, run_user_code
from ..config.schema import TrainConfig
from ..config.target import Target
from ..data import map_style
from ..data.open import open_source
from ..data.source import IGNORE, DataSource
from ..lifecycle.errors import BrokenInput
from ..models.build import build_model
from .mfu import flops_per_sample
from .optimizer import build_optimizer

Sum: TypeAlias = Tensor
Count: TypeAlias = Tensor | float | None  # or a sum of weights; None: as count() has said


class Recipe:
    """The sections model, data, loss and optim of train.json, as they stand.

    score  what the second value of measure() is, on average: a word of your own; None = as the data say, and "loss"
           with a loss of your own that no measure() of yours goes with
    """

    score: str | None = None

    def __init__(self, config: TrainConfig) -> None:
        self.config = config
        self.items_of: Callable[..., Any] = cross_entropy
        if isinstance(config.loss, Target):
            self.items_of = function_of(config.loss, "loss")

    def build_data(self) -> DataSource:
        """Both splits; `return self.source(train, val)` for data sets of your own. On every rank the same."""
        return open_source(self.config)

    def build_model(self, source: DataSource) -> nn.Module:
        """A new model, on the CPU. Draw from torch's global generator: all ranks draw the same."""
        return build_model(self.config.model, source)

    def build_optimizer(self, model: nn.Module) -> Optimizer:
        """The trainer sets the learning rates before each step: optim.lr by its schedule for the largest, which must be
        optim.lr here as well, and those of other groups in proportion."""
        return build_optimizer(model, self.config.optim)

    def count(self, batch: Any) -> float | None:
        """Items of a batch, by which its loss is divided, whatever loss() says; of the first batch both must say the
        same. None: only loss() can tell, gradients are scaled later."""
        loss = type(self).loss is Recipe.loss and self.items_of is cross_entropy
        return int((inputs_and_targets(batch)[1] != IGNORE).sum()) if loss else None

    def loss(self, model: nn.Module, batch: Any) -> tuple[Sum, Count]:
        """The loss added over the items of a batch, and how many they are. Never their mean: only all ranks' counts
        together say what to divide by."""
        inputs, targets = inputs_and_targets(batch)
        if self.items_of is cross_entropy:
            return cross_entropy(outputs(model, inputs), targets), None
        return loss_sum_and_count(self.items_of(outputs(model, inputs), targets), targets, self.items_of, self.config)

    def measure(self, model: nn.Module, batch: Any) -> tuple[Sum, Sum | float, Count]:
        """Return loss, score (see `score`) and item count of held-out data, each summed over a batch."""
        if type(self).loss is not Recipe.loss:
            loss, num_items = self.loss(model, batch)
            return loss, 0.0, self.count(batch) if num_items is None else num_items
        inputs, targets = inputs_and_targets(batch)
        logits = outputs(model, inputs)
        if self.items_of is cross_entropy:
            return cross_entropy(logits, targets), (logits.argmax(-1) == targets).sum(), (targets != IGNORE).sum()
        loss, num_items = loss_sum_and_count(self.items_of(logits, targets), targets, self.items_of, self.config)
        return loss, 0.0, num_items

    def flops_per_sample(self, num_parameters: int) -> float | None:
        """Floating-point operations of training on one sample, forward and backward, for the MFU; None: not
        known. `num_parameters` are those of the whole model."""
        if type(self).build_model is not Recipe.build_model:  # then it is another one than the config says
            return None
        return flops_per_sample(self.config.model, num_parameters)

    def source(self, train: Any, val: Any = None, collate: Callable[[list[Any]], Any] | None = None) -> DataSource:
        """Map-style data sets as a Source. val: one too, the share of `train` that is held out, or None."""
        return map_style.source_of(type(self).__name__, train, val, self.config.seed, collate)


def build_recipe(config: TrainConfig) -> Recipe:
    """The recipe that config.recipe names. Raises BrokenInput when it is none."""
    if config.recipe is None:
        return Recipe(config)
    recipe_class = locate(config.recipe, "recipe")
    if not (isinstance(recipe_class, type) and issubclass(recipe_class, Recipe)):
        hint = "class MyRecipe(Recipe), with `from jobc_trainer.recipe import Recipe`"
        raise BrokenInput(f"recipe: {config.recipe} is not a subclass of Recipe", hint=hint)
    recipe: Recipe = run_user_code(lambda: recipe_class(config), f"recipe: {config.recipe}(config)")
    return recipe


def inputs_and_targets(batch: Any) -> Any:
    """(inputs, targets), which is what the methods of Recipe itself take."""
    if isinstance(batch, Mapping) or (isinstance(batch, list | tuple) and len(batch) != 2):
        description = ", ".join(map(str, batch)) if isinstance(batch, Mapping) else f"{len(batch)} values"
        raise BrokenInput(
            f"data: a batch is {type(batch).__name__} ({description:.120}), not (inputs, target)",
            hint="set data.collate to a function that returns (inputs, targets), or write a recipe with its own loss()",
        )
    return batch


def outputs(model: nn.Module, inputs: Any) -> Any:
    """The model called with the inputs of a batch: one tensor, several in a list, or a mapping of named ones."""
    if isinstance(inputs, Mapping):
        return model(**inputs)
    return model(*inputs) if isinstance(inputs, list | tuple) else model(inputs)


def cross_entropy(logits: Any, targets: Tensor) -> Sum:
    """logits_B…K and int64 targets_B…: nats, added over the targets that are not IGNORE."""
    if not isinstance(logits, Tensor) or logits.shape[:-1] != targets.shape or targets.is_floating_point():
        got = f"{logits.dtype} {list(logits.shape)}" if isinstance(logits, Tensor) else type(logits).__name__
        raise BrokenInput(
            f"model: outputs and targets do not match: {got} for {targets.dtype} targets {list(targets.shape)}",
            [f"cross-entropy needs outputs {[*targets.shape, 'classes']} and integer targets"],
            hint="another model._target_, or a loss of your own: loss._target_",
        )
    try:
        return F.cross_entropy(logits.flatten(0, -2).float(), targets.flatten(), ignore_index=IGNORE, reduction="sum")
    except IndexError as error:  # of torch 2.13 on a CPU; on a GPU it is an assertion of the device
        real = targets[targets != IGNORE]
        raise BrokenInput(
            f"model: {logits.shape[-1]} output classes, but targets are {int(real.min())} to {int(real.max())}",
            hint="the model needs one output per class, and targets start at 0",
        ) from error


def loss_sum_and_count(
    found: Any, targets: Any, items_of: Callable[..., Any], config: TrainConfig
) -> tuple[Sum, Count]:
    """Return a loss as (sum, count), given either that or a loss per item; 0 for ignored targets."""
    name = config.loss.name if isinstance(config.loss, Target) else "cross_entropy"
    if isinstance(found, tuple) and len(found) == 2:
        return found[0].sum().float(), found[1]
    if isinstance(found, Tensor) and found.ndim and found.shape[0] == len(targets):
        if isinstance(targets, Tensor) and found.shape != targets.shape[: found.ndim]:
            raise BrokenInput(
                f"loss: {name} returned {list(found.shape)} for targets {list(targets.shape)}",
                ["torch broadcasts outputs and targets of different shapes, with only a warning"],
                hint="return model outputs with the shape of the targets; a custom loss can return (sum, count)",
            )
        ignored = ignore_index_of(items_of)
        counts_all = ignored is None or not isinstance(targets, Tensor) or found.shape != targets.shape
        return found.sum(dtype=torch.float32), found.numel() if counts_all else (targets != ignored).sum()
    got = f"a tensor {list(found.shape)}" if isinstance(found, Tensor) else type(found).__name__
    if isinstance(found, Tensor) and found.ndim:
        raise BrokenInput(
            f"loss: {name} returned {got} for a batch of {len(targets)}",
            ["the first dimension must be the batch, so that padding can be masked"],
            hint="return one loss per item, in the shape of the targets, or (sum, count)",
        )
    raise BrokenInput(
        f"loss: {name} returned {got} for a batch of {len(targets)}",
        ["a mean does not contain its number of items, which can differ between ranks and micro-batches"],
        hint="return one loss per item (reduction: none), or (sum, count)",
    )


def ignore_index_of(items_of: Callable[..., Any]) -> Any:
    """The target that a loss of torch 2.13 leaves out: an attribute of CrossEntropyLoss and NLLLoss, an argument of
    cross_entropy() and nll_loss(). None: every target counts."""
    if isinstance(items_of, nn.Module):
        return getattr(items_of, "ignore_index", None)
    try:
        argument = inspect.signature(items_of).parameters.get("ignore_index")
    except (TypeError, ValueError):  # made by another language
        return None
    return argument.default if argument is not None else None
