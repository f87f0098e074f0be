"""The loss on held-out data, exact: every chosen sample counts once, whatever the number of ranks.

About once a second the ranks ask each other whether one of them has a request to stop: a validation may take longer
than the time that is left to save.
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..build.build import Training
from ..data.batch_copier import BatchCopier
from ..data.loader import ValidationBatches
from ..dist.process_group import Group
from ..lifecycle.errors import BrokenInput
from ..recipe.eval_mode import evaluating

POLL_S = 1.0  # between two polls for a request to stop


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
    """Measures the current weights. Each rank takes a share without padding; sums are added over the ranks."""

    def __init__(self, training: Training) -> None:
        self.num_samples = len(validation_indices(training))
        self._training = training
        shares = my_batches(training)
        self._counts = [counts for _, counts in shares]
        # of the rank with most: all take as many turns, so that the watch sees which rank is behind
        self._num_turns = -(
            -len(validation_indices(training)[:: training.group.world_size]) // training.config.batch.micro
        )
        held_out, loader = training.source.validation, training.config.loader
        self._batches = ValidationBatches(
            held_out, [indices_B for indices_B, _ in shares], loader, training.group.device
        )

    def validate(self, stop_requested: Callable[[], bool] = lambda: False) -> Validation | None:
        """Measure; all ranks call it, and there are held-out data. None on all ranks: one has a request to stop.

        Raises Failed on all of them when one cannot go on; its own error, at once, where the others are in the same
        pass and wait for it (equal_passes): they can agree on nothing more.
        """
        started = time.perf_counter()
        training, model, phases = self._training, self._training.parallel.evaluated, self._training.phases
        phases.enter("exchange")
        # rank 0's, such as running means of BatchNorm: they are what a checkpoint has
        training.group.give_from_first(model.buffers())
        copier = BatchCopier(training.group.device)
        device = training.group.device
        sums = torch.zeros(3, dtype=torch.float64, device=device)  # loss, score, items; read once
        error: Exception | None = None
        poll = StopPoll(training.group, lambda: error is not None or stop_requested())
        is_interrupted = False
        with evaluating(model):
            batches = iter(self._batches)
            for number in range(self._num_turns):
                phases.enter("validation")
                try:
                    fed = None if error else next(batches, None)  # fewer than the rank that has most
                    phases.enter("validation")
                    if fed is not None:
                        outputs = model(copier.finish(fed.batch), measure=True)
                        if self._counts[number]:
                            sums += torch.stack(
                                [torch.as_tensor(value, dtype=torch.float64, device=device) for value in outputs]
                            )
                except Exception as caught:
                    if training.parallel.equal_passes and training.group.world_size > 1:
                        raise
                    error = caught
                phases.enter("exchange")
                if number + 1 < self._num_turns and poll.stop_after(number + 1):
                    is_interrupted = True
                    break
            phases.enter("validation")
            if error is None and not is_interrupted:
                next(batches, None)  # its end, so that workers are ready for the next validation
        values = [0.0] * 3 if error else sums.tolist()
        phases.enter("exchange")
        loss, score, items, num_failed = training.group.start_sum([*values, error is not None])()
        if num_failed:
            raise Failed(error)
        if is_interrupted:
            return None
        if items <= 0:
            title = f"data: none of the {self.num_samples:,} held-out samples has an item to measure"
            raise Failed(BrokenInput(title))
        score = readable_score(training.source.score, loss / items, score / items)
        return Validation(loss / items, score, self.num_samples, time.perf_counter() - started)


class StopPoll:
    """Has any rank a request to stop? All ask after the same turns: which, they learn from the slowest of them."""

    def __init__(self, group: Group, stop_requested: Callable[[], bool]) -> None:
        self._group, self._stop_requested = group, stop_requested
        self._turns = self._next = 1
        self._polled_at = time.perf_counter()

    def stop_after(self, turn: int) -> bool:
        """All ranks call it after each turn, from 1."""
        if turn < self._next:
            return False
        values = [float(self._stop_requested()), time.perf_counter() - self._polled_at]
        stop, seconds = self._group.largest(torch.tensor(values, dtype=torch.float64)).tolist()
        self._turns = max(1, min(2 * self._turns, int(self._turns * POLL_S / max(seconds, 1e-9))))
        self._next = turn + self._turns
        self._polled_at = time.perf_counter()
        return bool(stop)


def readable_score(kind: str, loss: float, mean: float) -> float:
    """Return a readable score: a loss in bits per byte or token, the loss itself, or the mean of a score."""
    if kind in ("bits_per_byte", "bits_per_token"):
        return loss / math.log(2)
    return loss if kind == "loss" else mean


def validation_indices(training: Training) -> Tensor:
    """indices_N of the held-out samples that are measured, evenly spaced."""
    available = len(training.source.validation)
    number = min(available, training.config.validation.max_samples or available)
    return torch.arange(number) * available // max(number, 1)


def my_batches(training: Training) -> Sequence[tuple[Tensor, bool]]:
    """Yield this rank's batches of the training batch size, the last one smaller, and whether each counts: some ranks
    run an extra pass so that all run equally many.
    """
    indices_N, micro = validation_indices(training), training.config.batch.micro
    mine, first = (indices_N[rank :: training.group.world_size] for rank in (training.group.rank, 0))
    batches = [(indices_B, True) for indices_B in (torch.split(mine, micro) if len(mine) else ())]
    if training.parallel.equal_passes:
        batches += [(indices_N[:1], False)] * (-(-len(first) // micro) - len(batches))
    return batches
