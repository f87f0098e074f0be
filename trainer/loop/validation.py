"""Compute the exact loss on held-out data: every chosen sample counts once, with any number of ranks.

About once a second, the ranks exchange stop requests. Without this, a validation could use up the time that is left for
saving.
"""

import math
import time
from collections.abc import Callable

import torch

from ...runtime.system.frozen_dataclass import dataclass
from ..build.build import Training
from ..data.batch_copier import BatchCopier
from ..data.loader import fetch_batch, fully_counted_slots, read_in_workers
from ..dist.process_group import RankGroup
from ..lifecycle.errors import BrokenInput
from ..recipe.module_state import eval_mode_without_gradients

POLL_S = 1.0  # between polls for stop requests


class ValidationFailed(Exception):
    """Raised on all ranks together if a validation fails, so that they save first. error: this rank's, or None"""

    def __init__(self, error: Exception | None) -> None:
        super().__init__("validation failed" if error else "validation failed on another rank")
        self.error = error


@dataclass(frozen=True)
class ValidationResult:
    """Result of a validation.

    loss:  loss per item, in nats for cross-entropy.
    score: score that the data source or the recipe defines.
    """

    loss: float
    score: float
    num_samples: int
    seconds: float


class Validator:
    """Evaluates the current weights. Each rank takes a shard without padding; the results are summed over ranks."""

    def __init__(self, training: Training) -> None:
        self._training, group = training, training.group
        available, micro = len(training.source.validation), training.config.batch.micro
        self.num_samples = min(available, training.config.validation.max_samples or available)
        indices_N = torch.arange(self.num_samples) * available // max(self.num_samples, 1)  # evenly spaced
        # as many turns on all ranks as the busiest rank has batches, so that the watchdog can compare the ranks
        self._num_turns = -(-len(indices_N[:: group.world_size]) // micro)
        local_N = indices_N[group.rank :: group.world_size]
        batches = list(torch.split(local_N, micro)) if len(local_N) else []
        self._num_counted = len(batches)
        if training.parallel.equal_passes:  # a rank with fewer batches runs extra passes that do not count
            batches += [indices_N[:1]] * (self._num_turns - len(batches))
        loader = training.config.loader
        split, self._slots = training.source.validation, [fully_counted_slots(indices_B) for indices_B in batches]
        self._workers = read_in_workers(split, self._slots, loader, group.device) if loader.workers else None

    def validate(self, stop_requested: Callable[[], bool] = lambda: False) -> ValidationResult | None:
        """Run the validation. All ranks call it. Return None on all ranks if one of them has a stop request.

        Raises ValidationFailed on all ranks if one of them fails. With equal_passes, a failed rank raises its own error
        immediately: the other ranks are waiting for it in the same pass, so no further exchange is possible.
        """
        started = time.perf_counter()
        training, model, phases = self._training, self._training.parallel.evaluated, self._training.phases
        phases.enter("exchange")
        # evaluate with rank 0's buffers (such as BatchNorm's running means) because checkpoints contain them
        training.group.copy_from_rank_0(model.buffers())
        copier = BatchCopier(training.group.device)
        device = training.group.device
        sums = torch.zeros(3, dtype=torch.float64, device=device)  # loss, score, items; read once, at the end
        error: Exception | None = None
        poll = StopPoll(training.group, lambda: error is not None or stop_requested())
        is_interrupted = False
        with eval_mode_without_gradients(model):
            in_process = (fetch_batch(training.source.validation, slots) for slots in self._slots)
            batches = iter(in_process if self._workers is None else self._workers)
            for number in range(self._num_turns):
                phases.enter("validation")
                try:
                    fed = None if error else next(batches, None)  # None: this rank has fewer batches than turns
                    phases.enter("validation")
                    if fed is not None:
                        outputs = model(copier.finish_copy(fed.batch), measure=True)
                        if number < self._num_counted:
                            values = [torch.as_tensor(value, dtype=torch.float64, device=device) for value in outputs]
                            sums += torch.stack(values)
                except Exception as caught:
                    if training.parallel.equal_passes and training.group.world_size > 1:
                        raise
                    error = caught
                phases.enter("exchange")
                if number + 1 < self._num_turns and poll.should_stop_after(number + 1):
                    is_interrupted = True
                    break
            phases.enter("validation")
            if error is None and not is_interrupted:
                next(batches, None)  # exhaust the iterator, so that workers are ready for the next validation
        local_sums = [0.0] * 3 if error else sums.tolist()
        phases.enter("exchange")
        loss, score, items, num_failed = training.group.start_sum([*local_sums, error is not None])()
        if num_failed:
            raise ValidationFailed(error)
        if is_interrupted:
            return None
        if items <= 0:
            title = f"data: none of the {self.num_samples:,} held-out samples has an item to measure"
            raise ValidationFailed(BrokenInput(title))
        score = readable_score(training.source.score, loss / items, score / items)
        return ValidationResult(loss / items, score, self.num_samples, time.perf_counter() - started)


class StopPoll:
    """Polls all ranks for stop requests, after the same turns on every rank. The slowest rank sets the interval."""

    def __init__(self, group: RankGroup, stop_requested: Callable[[], bool]) -> None:
        self._group, self._stop_requested = group, stop_requested
        self._turns = self._next = 1
        self._polled_at = time.perf_counter()

    def should_stop_after(self, turn: int) -> bool:
        """Return whether to stop after this turn, counted from 1. All ranks call it after each turn."""
        if turn < self._next:
            return False
        values = [float(self._stop_requested()), time.perf_counter() - self._polled_at]
        stop, seconds = self._group.elementwise_maximum(torch.tensor(values, dtype=torch.float64)).tolist()
        self._turns = max(1, min(2 * self._turns, int(self._turns * POLL_S / max(seconds, 1e-9))))
        self._next = turn + self._turns
        self._polled_at = time.perf_counter()
        return bool(stop)


def readable_score(kind: str, loss: float, mean: float) -> float:
    """Return a readable score: the loss in bits per byte or token, the loss itself, or the mean of another score."""
    if kind in ("bits_per_byte", "bits_per_token"):
        return loss / math.log(2)
    return loss if kind == "loss" else mean
