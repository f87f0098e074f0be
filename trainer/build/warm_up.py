"""The warm-up pass: run one batch through the model, the backward pass and a validation, without changing any state.

The pass compiles the model, opens connections, and makes DDP fix its buckets. A gradient's position in the buckets
determines the order in which three or more ranks add it up. A resumed run must use the same order as an uninterrupted
one. If the data is unreadable or does not fit the model, the job fails here, under the long timeout.
"""

from functools import partial

import torch
from torch import Tensor
from torch.utils.checkpoint import CheckpointError

from ..config.schema import TrainConfig, kind_of
from ..data.batch_copier import BatchCopier
from ..data.loader import MicroBatch, fully_counted_slots, read_extra_batches
from ..data.source import DataSource, Split
from ..dist.process_group import RankGroup
from ..lifecycle.errors import BrokenInput
from ..parallel.interface import Parallel
from ..recipe.loss import copy_loss_buffers, require_unchanged_loss_buffers
from ..recipe.module_state import SavedBuffers, eval_mode_without_gradients
from ..recipe.recipe import Recipe
from . import checks
from .checks import call_user_code, has_user_code


def warm_up(parallel: Parallel, recipe: Recipe, config: TrainConfig, source: DataSource, group: RankGroup) -> float:
    """Run the first pass and, for user code, a measurement. Return the number of items in the first batch."""
    phases = group.phases
    phases.begin_outside_steps("data")
    micro, num_held_out, held_out = config.batch.micro, len(source.validation), None
    first = read_batch(source.train, torch.arange(micro) % len(source.train), "batch", recipe, config, group)
    if num_held_out and has_user_code(recipe):
        number = min(micro, num_held_out)
        indices_B = torch.arange(number) * num_held_out // number
        held_out = read_batch(source.validation, indices_B, "held-out batch", recipe, config, group)
    counted = call_user_code(lambda: recipe.count(first.batch), recipe, "recipe: count() of the first batch failed")
    checks.check_count(counted, "count()", max_dims=1)
    buffers, loss_buffers = SavedBuffers(parallel.module), copy_loss_buffers(recipe)
    phases.enter("forward")
    batch = BatchCopier(group.device).finish_copy(first.batch)
    model = kind_of(config.model) if type(recipe) is Recipe else config.recipe
    title = f"model: the forward pass of {model} failed on the first batch"
    loss, num_items = checks.check_loss(call_user_code(lambda: parallel.module(batch), recipe, title))
    require_unchanged_loss_buffers(recipe, loss_buffers)
    checks.check_count(num_items, "loss()")
    checks.check_counts_agree(counted, num_items)
    phases.enter("backward")
    run_first_backward(parallel, recipe, loss, counted=counted is not None)
    del loss  # free the loss because not every parallel.kind runs a backward pass here
    if held_out is not None:  # measure it as a validation does, so that an error appears now and not a day later
        batch = BatchCopier(group.device).finish_copy(held_out.batch)
        title = "validation: measure() failed on the first held-out batch"
        with eval_mode_without_gradients(parallel.evaluated):
            checks.check_measure(call_user_code(lambda: parallel.evaluated(batch, measure=True), recipe, title))
    buffers.restore()
    return float(num_items if counted is None else counted)


def read_batch(
    split: Split, indices_B: Tensor, name: str, recipe: Recipe, config: TrainConfig, group: RankGroup
) -> MicroBatch:
    slots = fully_counted_slots(indices_B)
    read = partial(read_extra_batches, split, [slots], config.loader, group.device)
    batches: list[MicroBatch] = call_user_code(read, recipe, f"data: the loader returned no {name}")
    return batches[0]


def run_first_backward(parallel: Parallel, recipe: Recipe, loss: Tensor, counted: bool) -> None:
    """Run the first batch's backward pass. counted: whether count() returned the number of items"""
    title = "model: the backward pass failed on the first batch"
    try:
        call_user_code(lambda: parallel.run_warm_up_backward(loss, counted=counted), recipe, title)
    except BrokenInput as error:
        if isinstance(error.__cause__, CheckpointError):
            error.hint = "blocks must compute the same result again; with transformers, build the model with"
            error.hint += " use_cache=False; or loop.activation_checkpointing=0"
        raise
