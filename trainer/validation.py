"""The loss on held-out data, exact: every chosen sample counts once, whatever the number of ranks."""

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from .data.source import Score
from .training import Training, on_device


@dataclass(frozen=True)
class Validation:
    """loss in nats per item; score in bits per byte or token, or the share of items whose best guess is right."""

    loss: float
    score: float
    num_samples: int
    seconds: float


def validate(training: Training) -> Validation:
    """Measure the current weights. Each rank takes a share without padding; sums are added over the ranks."""
    started = time.perf_counter()
    model, group = training.parallel.evaluated, training.group
    sums = torch.zeros(3, dtype=torch.float64, device=group.device)  # loss, right guesses, items
    model.eval()
    with torch.no_grad():  # not inference_mode: ZeRO 3 keeps some of the weights that it gathers here
        for indices_B, counts in my_batches(training):
            inputs, targets = on_device(training.source.validation.batch(indices_B), group.device)
            logits = model(inputs).flatten(0, -2).float()
            if not counts:
                continue
            targets = targets.flatten()
            sums[0] += F.cross_entropy(logits, targets, reduction="sum")
            sums[1] += (logits.argmax(-1) == targets).sum()
            sums[2] += len(targets)
    model.train()
    loss, right, items = group.start_sum(sums.tolist())()
    score = as_score(training.source.score, loss / items, right / items)
    return Validation(loss / items, score, len(chosen(training)), time.perf_counter() - started)


def as_score(kind: Score, loss: float, accuracy: float) -> float:
    """What people read: a loss in nats per byte or token as bits, or the accuracy itself."""
    return accuracy if kind == "accuracy" else loss / math.log(2)


def chosen(training: Training) -> Tensor:
    """indices_N of the held-out samples that are measured, evenly spaced."""
    available = len(training.source.validation)
    number = min(available, training.config.validation.max_samples or available)
    return torch.arange(number) * available // number


def my_batches(training: Training) -> Iterator[tuple[Tensor, bool]]:
    """This rank's share, in batches of the size that training uses; the last may be smaller. And whether it counts:
    where all ranks must do equally many passes, some do one more for nothing."""
    indices_N, micro = chosen(training), training.config.batch.micro
    mine, first = (indices_N[rank :: training.group.world_size] for rank in (training.group.rank, 0))
    batches = torch.split(mine, micro) if len(mine) else ()
    for indices_B in batches:
        yield indices_B, True
    if training.parallel.equal_passes:
        for _ in range(-(-len(first) // micro) - len(batches)):
            yield indices_N[:1], False
