"""One optimizer step: micro batches, one exchange of gradients, one update.

The loss of a step is the SUM over all valid items of the global batch divided by their number, whoever
computed them. A mean of means would weigh items by how many others their rank happened to hold.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from .data.order import shard
from .data.source import IGNORE
from .errors import Diverged
from .gpu_timer import GpuTimer
from .loss import loss_sum
from .optimizer import lr_at
from .training import Training, on_device


@dataclass(frozen=True)
class Wishes:
    """What the run should do after this step; on the way in this rank's wish, on the way out any rank's."""

    stop: bool
    save: bool


@dataclass(frozen=True)
class StepResult:
    """loss in nats per item, exact and equal on all ranks; num_samples that counted, of all ranks.

    forward_s  of all forward passes of this rank, as its GPU measured; None on a CPU, where the clock is right
    trouble    why the weights are as before, in words: the gradient was not finite; "" = they are not
    """

    loss: float
    num_samples: int
    lr: float
    grad_norm: float
    forward_s: float | None
    trouble: str
    wishes: Wishes


def train_step(training: Training, step: int, wishes: Wishes) -> StepResult:
    """Do global step `step`, from 0. Raises Diverged when the loss is not a number and none may be skipped.

    The ranks' wishes travel with the count of items, in one message that overlaps the first forward pass; so
    all ranks stop after the same step, and asking costs nothing.
    """
    config, group, parallel, phases = training.config, training.group, training.parallel, training.phases
    batches, num_samples = micro_batches(training, step)
    timer = GpuTimer(group.device)
    num_local = sum(int((targets != IGNORE).sum()) for _, targets in batches)
    sums = group.start_sum([num_local, num_samples, wishes.stop, wishes.save])

    local_loss, scale, totals = 0.0, 0.0, [0.0]
    for number, batch in enumerate(batches, start=1):
        inputs, targets = on_device(batch, group.device)
        last = number == len(batches)
        phases.enter("forward")
        with parallel.passes(last):
            with timer:
                loss = loss_sum(parallel.module, inputs, targets, config.loop.precision)
            if number == 1:
                phases.enter("exchange")
                totals = sums()
                scale = group.world_size / totals[0]  # the exchange divides by the world size
            phases.enter("backward")
            parallel.backward(loss * scale, last)
        local_loss += loss.item()

    phases.enter("update")
    all_losses = group.start_sum([local_loss])
    lr = lr_at(step, training.total_steps, config.optim)
    grad_norm = parallel.update(lr, config.optim.clip_norm)
    mean_loss = all_losses()[0] / totals[0]
    if not (math.isfinite(grad_norm) and math.isfinite(mean_loss)) and config.loop.on_nan == "stop":
        raise diverged(training, step, local_loss)
    trouble = "" if math.isfinite(grad_norm) else ", ".join(not_finite(training, local_loss))
    return StepResult(
        loss=mean_loss,
        num_samples=int(totals[1]),
        lr=lr,
        grad_norm=grad_norm,
        forward_s=timer.seconds(),
        trouble=trouble,
        wishes=Wishes(stop=totals[2] > 0, save=totals[3] > 0),
    )


def micro_batches(training: Training, step: int) -> tuple[list[tuple[Tensor, Tensor]], int]:
    """This rank's (inputs, targets) of global step `step`, and how many of its samples count."""
    group = training.group
    indices_R, weights_R = (shard(t, group.rank, group.world_size) for t in training.order.global_batch(step))
    micro = training.config.batch.micro
    batches = []
    for indices_B, weights_B in zip(torch.split(indices_R, micro), torch.split(weights_R, micro), strict=True):
        inputs, targets = training.source.train.batch(indices_B)
        if not weights_B.all():
            targets = targets.clone()
            targets[weights_B == 0] = IGNORE
        batches.append((inputs, targets))
    return batches, int(weights_R.sum())


def diverged(training: Training, step: int, local_loss: float) -> Diverged:
    """The error that says at which step and on which ranks training went wrong. All ranks call it."""
    return Diverged(
        f"the loss or its gradient is not a finite number at step {step + 1}",
        not_finite(training, local_loss),
        hint="the newest checkpoint is from before; a lower optim.lr or a smaller optim.clip_norm may help,"
        " loop.on_nan=skip leaves such steps out",
    )


def not_finite(training: Training, local_loss: float) -> list[str]:
    """On which ranks the loss is not a number, in words. All ranks call it."""
    losses = training.group.gather(torch.tensor([local_loss], dtype=torch.float64))
    ranks = [
        f"the loss of rank {rank} is {float(loss)}" for rank, loss in enumerate(losses) if not torch.isfinite(loss)
    ]
    return ranks[:20] or [f"the gradient is not finite; the loss of rank {training.group.rank} is {local_loss}"]
