"""Four loops for the same training: jobc's, jobc's without torch.compile, a bare loop, and accelerate's.

All have the same model, initial weights, optimizer, precision, sample order and batches. Only the loop differs.
Shapes: B samples of one pass, T context.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from jobc.trainer.build.build import build
from jobc.trainer.checkpoint.random_state import seed_model
from jobc.trainer.config.schema import TrainConfig
from jobc.trainer.data.order import SampleOrder
from jobc.trainer.data.source import DataSource
from jobc.trainer.dist.env import RankEnvironment
from jobc.trainer.dist.hang_watch import HangWatchdog
from jobc.trainer.dist.process_group import RankGroup
from jobc.trainer.lifecycle.requests import StopSignals
from jobc.trainer.loop.hooks import Hooks
from jobc.trainer.loop.loop import train_step
from jobc.trainer.models.build import build_model
from jobc.trainer.recipe import recipe
from jobc.trainer.recipe.loss import ModelWithLoss
from jobc.trainer.recipe.optimizer import learning_rate_at_step

Loop = Callable[[int], float]  # runs global step n and returns its loss in nats per token


def ours(config: TrainConfig, env: RankEnvironment, group: RankGroup) -> Loop:
    """Run the steps of trainer/loop/loop.py without validation and checkpoints.

    The hang watchdog is not started, because it would report a hang while the other loops have their turns.
    """
    training = build(config, env, group)
    watch = HangWatchdog(training.phases, group.rank, ["rank 0"], config.process_group.step_timeout_s, None)
    hooks = Hooks(training, StopSignals(), watch)

    def step(number: int) -> float:
        result = train_step(training, number, hooks.before_step(number))
        hooks.report_metrics(number + 1, result)
        hooks.run_checks(number + 1, result)
        return result.loss

    return step


def ours_eager(config: TrainConfig, env: RankEnvironment, group: RankGroup) -> Loop:
    """Run jobc's loop without torch.compile."""
    return ours(dataclasses.replace(config, loop=dataclasses.replace(config.loop, compile="none")), env, group)


def bare(config: TrainConfig, env: RankEnvironment, group: RankGroup) -> Loop:
    """Run a loop optimized only for speed: nanoGPT's train.py, without its logging and saving."""
    made = parts(config, group)
    module, optimizer, total = made.module, made.optimizer, config.batch.accumulation

    def step(number: int) -> float:
        _set_lr(optimizer, learning_rate_at_step(number, config.loop.steps or 1, config.optim))
        loss_sum = torch.zeros((), device=group.device)
        for batch in made.batches(number):
            loss = module(batch)[0] / (batch[1].numel() * total)
            torch.autograd.backward(loss)
            loss_sum += loss.detach()
        nn.utils.clip_grad_norm_(module.parameters(), config.optim.clip_norm or math.inf)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return float(loss_sum)

    return step


def accelerate(config: TrainConfig, env: RankEnvironment, group: RankGroup) -> Loop:
    """Run accelerate's loop around the same compiled module: prepare(), accumulate(), backward(), clip_grad_norm_()."""
    from accelerate import Accelerator  # an extra

    made, total = parts(config, group), config.batch.accumulation
    # no mixed_precision: the module has its own autocast
    theirs = Accelerator(cpu=group.device.type == "cpu", gradient_accumulation_steps=total)
    module, optimizer = theirs.prepare(made.module, made.optimizer)

    def step(number: int) -> float:
        _set_lr(optimizer, learning_rate_at_step(number, config.loop.steps or 1, config.optim))
        loss_sum = torch.zeros((), device=group.device)
        for batch in made.batches(number):
            with theirs.accumulate(module):
                loss = module(batch)[0] / batch[1].numel()
                theirs.backward(loss)  # divides by the number of passes
                if theirs.sync_gradients and config.optim.clip_norm is not None:
                    theirs.clip_grad_norm_(module.parameters(), config.optim.clip_norm)
                optimizer.step()
                optimizer.zero_grad()
            loss_sum += loss.detach() / total
        return float(loss_sum)

    return step


LOOPS: dict[str, Callable[[TrainConfig, RankEnvironment, RankGroup], Loop]] = {
    "jobc": ours,
    "bare loop": bare,
    "accelerate": accelerate,
    "jobc, eager": ours_eager,
}


def flops_per_token(config: TrainConfig, source: DataSource) -> float:
    """Return 6 N + 12 L H Q T, as in nanoGPT, where Q = width / heads.

    This covers the forward and backward pass, without the position embedding.
    """
    model: Any = config.model
    parameters = build_model(model, source.num_inputs, source.num_classes).parameters()
    num_parameters = sum(parameter.numel() for parameter in parameters)
    counted = num_parameters - model.context * model.width
    return float(6 * counted + 12 * model.layers * model.width * model.context)


@dataclasses.dataclass(frozen=True)
class Parts:
    """Parts of a loop other than jobc's: a model that returns its loss, its optimizer, and its batches.

    A batch is (tokens_BT, targets_BT).
    """

    module: nn.Module
    optimizer: Any
    batches: Callable[[int], Iterator[tuple[Tensor, Tensor]]]


def parts(config: TrainConfig, group: RankGroup) -> Parts:
    """Build parts with the same weights, compilation, optimizer and sample order as jobc's loop."""
    made = recipe.build_recipe(config)
    source = made.build_data()
    order = SampleOrder(config.seed, len(source.train), config.batch.global_, config.loop.drop_last)
    seed_model(config.seed)
    model = made.build_model(source).to(group.device)
    module: Any = ModelWithLoss(model, made, config.loop.precision)
    if config.loop.compile == "model":
        module = torch.compile(module, dynamic=False)

    def batches(number: int) -> Iterator[tuple[Tensor, Tensor]]:
        indices_G, _ = order.global_batch(number)
        for indices_B in torch.split(indices_G, config.batch.micro):
            inputs_BT, targets_BT = (on_device(tensor, group.device) for tensor in source.train.batch(indices_B))
            yield inputs_BT, targets_BT

    return Parts(module, made.build_optimizer(model), batches)


def on_device(tensor: Tensor, device: torch.device) -> Tensor:
    """Copy from pinned memory, as nanoGPT does, so that the CPU does not wait for the GPU."""
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor


def _set_lr(optimizer: Any, lr: float) -> None:
    for parameters in optimizer.param_groups:
        parameters["lr"] = lr
