"""One optimizer step: micro batches, one exchange of gradients, one update.

The loss of a step is the SUM over all valid items of the global batch divided by their number, whoever
computed them. A mean of means would weigh items by how many others their rank happened to hold.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch

from .buffers import Buffers
from .config import schedule_of
from .errors import BrokenInput, Diverged
from .gpu_timer import GpuTimer
from .optimizer import Update, lr_at
from .training import Training


@dataclass(frozen=True)
class Wishes:
    """What the run should do after this step; on the way in this rank's wish, on the way out any rank's."""

    stop: bool = False
    save: bool = False
    give_up: bool = False  # nothing can be saved any more


@dataclass(frozen=True)
class StepResult:
    """loss in nats per item, exact and equal on all ranks; num_samples that counted, of all ranks.

    forward_s  of all forward passes of this rank, as its GPU measured; None on a CPU, where the clock is right
    trouble    why the weights are as before, in words: loss or gradient was not finite; "" = they are not
    """

    loss: float
    num_samples: int
    lr: float
    update: Update
    forward_s: float | None
    trouble: str
    wishes: Wishes


class Totals(NamedTuple):
    """What all ranks add up while the first micro batch is computed. late: how many leave the items to their loss."""

    items: float
    samples: float
    stop: float
    save: float
    give_up: float
    late: float


def train_step(training: Training, step: int, wishes: Wishes) -> StepResult:
    """Do global step `step`, from 0. Raises Diverged when the loss is not a number and none may be skipped.

    The ranks' wishes travel with the count of items, in one message that overlaps the first forward pass; so
    all ranks stop after the same step, and asking costs nothing. Losses are added where they are computed, and over
    the ranks beside the last backward pass, so that a GPU is asked for a number only before the update, which a loss
    that is not finite stops on all ranks. Where only the loss can count items, of some batch of any rank, gradients are
    of samples at first, and scaled once the items of all ranks are known. A step that is left out leaves no trace in
    buffers either.
    """
    config, group, parallel, loader = training.config, training.group, training.parallel, training.loader
    optim, phases, timer = schedule_of(config.optim), training.phases, GpuTimer(group.device)
    micro_batches = loader.take()
    num_samples = sum(len(fed.indices_R) for fed in micro_batches)
    counts = [training.recipe.count(fed.batch) if len(fed.indices_R) else 0 for fed in micro_batches]
    late = any(count is None for count in counts)
    num_counted = sum(count for count in counts if count is not None)
    num_local = num_samples if late else num_counted
    mine = Totals(num_local, num_samples, wishes.stop, wishes.save, wishes.give_up, late)
    sums = group.start_sum(mine)

    local = torch.zeros(2, dtype=torch.float64, device=group.device)
    local_loss, local_items = local.unbind()  # views; items: needed where the loss of any rank counts them
    buffers, of_padding = Buffers(parallel.module), Buffers(parallel.module)
    if config.loop.on_nan == "skip" or config.loop.precision == "fp16":
        buffers.keep()
    scale, totals = 0.0, mine
    for number, batch in enumerate(loader.on_device(micro_batches), start=1):
        last, is_real = number == len(micro_batches), len(micro_batches[number - 1].indices_R) > 0
        phases.enter("forward")
        if not is_real:
            of_padding.keep()
        with parallel.passes(last):
            with timer:
                loss, num_items = parallel.module(batch)
            if number == 1:
                phases.enter("exchange")
                totals = Totals(*sums())
                scale = group.world_size / divisor(totals.items)  # the exchange divides by the world size
            if is_real:
                local_loss += loss.detach()
                if counts[number - 1] is None:
                    local_items += num_items
            if last:
                if totals.late:
                    local_items += num_counted
                sum_of_losses = group.start_sum_of(local)
            phases.enter("backward")
            parallel.backward(loss * (scale if is_real else 0.0), last)  # padding takes part, and counts for nothing
        of_padding.put_back()
    phases.enter("data")
    loader.ahead()
    training.proof.note(micro_batches)

    phases.enter("update")
    losses = sum_of_losses()
    items_of_all = float(losses[1]) if totals.late else totals.items
    if items_of_all <= 0 and config.loop.on_nan == "stop":
        hint = "loop.on_nan=skip leaves such steps out; or a larger batch"
        raise BrokenInput(f"data: step {step + 1} has no item that counts, on any rank", hint=hint)
    if totals.late:
        parallel.rescale(totals.items / divisor(items_of_all))
    lr = lr_at(step, training.total_steps, optim)
    update = parallel.update(lr, optim.clip_norm, losses[0] if items_of_all > 0 else losses[0] * math.nan)
    if not math.isfinite(update.grad_norm):
        buffers.put_back()
    mean_loss = float(losses[0]) / items_of_all if items_of_all > 0 else math.nan
    trouble = ""
    if not math.isfinite(mean_loss) or not (math.isfinite(update.grad_norm) or update.skipped):
        if config.loop.on_nan == "stop":
            raise diverged(training, step, float(local_loss))
        if items_of_all <= 0:
            trouble = "no item counts, on any rank"
        elif not math.isfinite(update.grad_norm):
            trouble = ", ".join(not_finite(training, float(local_loss)))
    return StepResult(
        loss=mean_loss,
        num_samples=int(totals.samples),
        lr=lr,
        update=update,
        forward_s=timer.seconds(),
        trouble=trouble,
        wishes=Wishes(stop=totals.stop > 0, save=totals.save > 0, give_up=totals.give_up > 0),
    )


def divisor(num_items: float) -> float:
    """What to divide by: the items of all ranks, which weights may make fewer than one. Without any, the losses of the
    first passes are 0 as well, and the step is an error or left out."""
    return 1.0 if num_items <= 0 else num_items


def diverged(training: Training, step: int, local_loss: float) -> Diverged:
    """The error that says at which step and on which ranks training went wrong. All ranks call it."""
    return Diverged(
        f"the loss or its gradient is not a finite number at step {step + 1}",
        not_finite(training, local_loss),
        hint="the newest checkpoint is from before; a lower optim.lr or a smaller optim.clip_norm may help, in a new"
        " run from its weights (--fork, from step 0); --resume with loop.on_nan=skip leaves such steps out",
    )


def not_finite(training: Training, local_loss: float) -> list[str]:
    """On which ranks the loss is not a number, in words. All ranks call it."""
    losses = training.group.gather(torch.tensor([local_loss], dtype=torch.float64))
    ranks = [
        f"the loss of rank {rank} is {float(loss)}" for rank, loss in enumerate(losses) if not torch.isfinite(loss)
    ]
    return ranks[:20] or [f"the gradient is not finite; the loss of rank {training.group.rank} is {local_loss}"]
