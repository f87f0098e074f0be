"""One optimizer step: micro batches, one exchange of gradients, one update.

The loss of a step is the SUM over all valid items of the global batch divided by their number, whoever
computed them. A mean of means would weigh items by how many others their rank happened to hold.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch

from .buffers import Buffers
from .config import schedule_of
from .data.loader import Fed
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


class Sums(NamedTuple):
    """What the ranks add up beside the last backward pass of a step; how many wish for what Wishes has."""

    loss: float
    items: float
    stop: float
    save: float
    give_up: float


def train_step(training: Training, step: int, wishes: Wishes) -> StepResult:
    """Do global step `step`, from 0. Raises Diverged when the loss is not a number and none may be skipped.

    Losses, items and the ranks' wishes are one message, beside the last backward pass: so all ranks stop after the same
    step, asking costs nothing, and a GPU is asked for numbers only before the update, which a loss that is not finite
    stops on all ranks. Gradients are divided by the number of items that is expected, for all ranks' is not known yet;
    where it is another one, the update scales them, or one more message, beside the first pass, has told it. A step
    that is left out leaves no trace in buffers either.
    """
    config, group, parallel, loader = training.config, training.group, training.parallel, training.loader
    optim, phases, timer = schedule_of(config.optim), training.phases, GpuTimer(group.device)
    micro_batches, num_samples = loader.take(), training.order.num_real(step, 1)
    counts = [training.recipe.count(fed.batch) if len(fed.indices_R) else 0 for fed in micro_batches]
    expected = divisor(num_samples * training.items_per_sample)
    counted = count_ahead(training, micro_batches, counts) if parallel.counts_ahead else None

    local = torch.zeros(len(Sums._fields), dtype=torch.float64, device=group.device)
    local_loss, local_items, *wished = local.unbind()  # views
    local_items += float(sum(count for count in counts if count is not None))
    for place, wish in zip(wished, (wishes.stop, wishes.save, wishes.give_up), strict=True):
        place.fill_(wish)
    buffers, of_padding = Buffers(parallel.module), Buffers(parallel.module)
    if config.loop.on_nan == "skip" or config.loop.precision == "fp16":
        buffers.keep()
    for number, batch in enumerate(loader.on_device(micro_batches), start=1):
        last, is_real = number == len(micro_batches), len(micro_batches[number - 1].indices_R) > 0
        phases.enter("forward")
        if not is_real:
            of_padding.keep()
        with parallel.passes(last):
            with timer:
                loss, num_items = parallel.module(batch)
            if number == 1 and counted is not None:
                phases.enter("exchange")
                expected = divisor(counted()[0])
            if is_real:
                local_loss += loss.detach()
                if counts[number - 1] is None:
                    local_items += num_items
            if last:
                sums = group.start_sum_of(local)
            phases.enter("backward")
            scale = group.world_size / expected if is_real else 0.0  # the exchange divides by the world size
            parallel.backward(loss * scale, last)  # padding takes part, and counts for nothing
        of_padding.put_back()
    phases.enter("data")
    loader.ahead()
    training.proof.note(micro_batches)

    phases.enter("update")
    summed, norm_tensor = sums(), parallel.norm()
    norm = None if norm_tensor is None else float(norm_tensor)  # the only time in a step that the device is waited for
    of_all = Sums(*summed.tolist())
    if of_all.items <= 0 and config.loop.on_nan == "stop":
        hint = "loop.on_nan=skip leaves such steps out; or a larger batch"
        raise BrokenInput(f"data: step {step + 1} has no item that counts, on any rank", hint=hint)
    mean_loss = of_all.loss / of_all.items if of_all.items > 0 else math.nan
    lr = lr_at(step, training.total_steps, optim)
    update = parallel.update(lr, optim.clip_norm, norm, expected / divisor(of_all.items), mean_loss)
    if not math.isfinite(update.grad_norm):
        buffers.put_back()
    trouble = ""
    if not math.isfinite(mean_loss) or not (math.isfinite(update.grad_norm) or update.skipped):
        if config.loop.on_nan == "stop":
            raise diverged(training, step, float(local_loss))
        if of_all.items <= 0:
            trouble = "no item counts, on any rank"
        elif not math.isfinite(update.grad_norm):
            trouble = ", ".join(not_finite(training, float(local_loss)))
    return StepResult(
        loss=mean_loss,
        num_samples=num_samples,
        lr=lr,
        update=update,
        forward_s=timer.seconds(),
        trouble=trouble,
        wishes=Wishes(stop=of_all.stop > 0, save=of_all.save > 0, give_up=of_all.give_up > 0),
    )


def count_ahead(
    training: Training, micro_batches: Sequence[Fed], counts: Sequence[float | None]
) -> Callable[[], list[float]]:
    """Begin to add up the items of all ranks. Where the loss alone can count, they are as many as expected."""
    known = [count for count in counts if count is not None]
    num_samples = sum(len(fed.indices_R) for fed in micro_batches)
    mine = sum(known) if len(known) == len(counts) else num_samples * training.items_per_sample
    return training.group.start_sum([mine])


def divisor(num_items: float) -> float:
    """What to divide by: items, which weights may make fewer than one. Without any the step is an error or left out."""
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
