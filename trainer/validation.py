"""The loss on held-out data, exact: every chosen sample counts once, whatever the number of ranks.

About once a second the ranks ask each other whether one of them was told to stop: a validation may take longer than
there is time to save.
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from .data.copier import Copier
from .data.loader import ValidationBatches
from .distributed import Group
from .errors import BrokenInput
from .evaluating import evaluating
from .training import Training

ASK_S = 1.0  # between two questions for a stop


class Failed(Exception):
    """A validation that failed, raised on all ranks together, so that they can save first. error: this rank's own."""

    def __init__(self, error: Exception | None) -> None:
        super().__init__("the validation failed" if error else "the validation failed on another rank")
        self.error = error


@dataclass(frozen=True)
class Validation:
    """loss per item, in nats where it is cross-entropy; score as the source or the recipe names it."""

    loss: float
    score: float
    num_samples: int
    seconds: float


class Validator:
    """Measures the current weights as often as it is asked to. Each rank takes a share without padding; sums are added
    over the ranks."""

    def __init__(self, training: Training) -> None:
        self.num_samples = len(chosen(training))
        self._training = training
        shares = my_batches(training)
        self._counts = [counts for _, counts in shares]
        # of the rank that has most: all take as many turns, so that it can be told who is behind
        self._most = -(-len(chosen(training)[:: training.group.world_size]) // training.config.batch.micro)
        held_out, loader = training.source.validation, training.config.loader
        self._batches = ValidationBatches(held_out, [each for each, _ in shares], loader, training.group.device)

    def validate(self, told_to_stop: Callable[[], bool] = lambda: False) -> Validation | None:
        """All ranks call it; there is held-out data. None, on all: one was told to stop, and it is broken off.

        Raises Failed on all of them when one cannot go on; its own error, at once, where the others are in the same
        pass and wait for it (equal_passes): they can agree on nothing more.
        """
        started = time.perf_counter()
        training, model, phases = self._training, self._training.parallel.evaluated, self._training.phases
        phases.enter("exchange")
        # rank 0's, such as running means of BatchNorm: they are what a checkpoint has
        training.group.give_from_first(model.buffers())
        copier = Copier(training.group.device)
        device = training.group.device
        sums = torch.zeros(3, dtype=torch.float64, device=device)  # loss, score, items; read once
        error: Exception | None = None
        asks = Asks(training.group, lambda: error is not None or told_to_stop())
        breaks_off = False
        with evaluating(model):
            batches = iter(self._batches)
            for number in range(self._most):
                phases.enter("validation")
                try:
                    fed = None if error else next(batches, None)  # fewer than the rank that has most
                    phases.enter("validation")
                    if fed is not None:
                        found = model(copier.finish(fed.batch), measure=True)
                        if self._counts[number]:
                            sums += torch.stack(
                                [torch.as_tensor(each, dtype=torch.float64, device=device) for each in found]
                            )
                except Exception as caught:
                    if training.parallel.equal_passes and training.group.world_size > 1:
                        raise
                    error = caught
                phases.enter("exchange")
                if number + 1 < self._most and asks.stop_after(number + 1):
                    breaks_off = True
                    break
            phases.enter("validation")
            if error is None and not breaks_off:
                next(batches, None)  # its end, so that workers are ready for the next validation
        values = [0.0] * 3 if error else sums.tolist()
        phases.enter("exchange")
        loss, score, items, num_failed = training.group.start_sum([*values, error is not None])()
        if num_failed:
            raise Failed(error)
        if breaks_off:
            return None
        if items <= 0:
            title = f"data: none of the {self.num_samples:,} held-out samples has an item that counts"
            raise Failed(BrokenInput(title))
        score = as_score(training.source.score, loss / items, score / items)
        return Validation(loss / items, score, self.num_samples, time.perf_counter() - started)


class Asks:
    """Was any rank told to stop? All ask after the same turns: which, they learn from the slowest of them."""

    def __init__(self, group: Group, told_to_stop: Callable[[], bool]) -> None:
        self._group, self._told = group, told_to_stop
        self._turns = self._next = 1
        self._asked_at = time.perf_counter()

    def stop_after(self, turn: int) -> bool:
        """All ranks call it after each turn, from 1."""
        if turn < self._next:
            return False
        mine = [float(self._told()), time.perf_counter() - self._asked_at]
        stop, seconds = self._group.largest(torch.tensor(mine, dtype=torch.float64)).tolist()
        self._turns = max(1, min(2 * self._turns, int(self._turns * ASK_S / max(seconds, 1e-9))))
        self._next = turn + self._turns
        self._asked_at = time.perf_counter()
        return bool(stop)


def as_score(kind: str, loss: float, mean: float) -> float:
    """What people read: a loss in nats per byte or token as bits, the loss itself, or the mean of a score."""
    if kind in ("bits_per_byte", "bits_per_token"):
        return loss / math.log(2)
    return loss if kind == "loss" else mean


def chosen(training: Training) -> Tensor:
    """indices_N of the held-out samples that are measured, evenly spaced."""
    available = len(training.source.validation)
    number = min(available, training.config.validation.max_samples or available)
    return torch.arange(number) * available // max(number, 1)


def my_batches(training: Training) -> Sequence[tuple[Tensor, bool]]:
    """This rank's share, in batches of the size that training uses; the last may be smaller. And whether it counts:
    where all ranks must do equally many passes, some do one more for nothing."""
    indices_N, micro = chosen(training), training.config.batch.micro
    mine, first = (indices_N[rank :: training.group.world_size] for rank in (training.group.rank, 0))
    batches = [(indices_B, True) for indices_B in (torch.split(mine, micro) if len(mine) else ())]
    if training.parallel.equal_passes:
        batches += [(indices_N[:1], False)] * (-(-len(first) // micro) - len(batches))
    return batches
