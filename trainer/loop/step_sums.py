"""Sum a step's loss, items and requests over all ranks, in one message that overlaps the last backward pass.

Input:  a step's micro-batches, and the loss and number of items of each forward pass.
Output: the factor by which each micro-batch's loss is multiplied before backward(), and the totals over all ranks.

StopAndSaveRequests travel in the same message. StepResult is what the hooks receive after a step.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ...runtime.system.frozen_dataclass import dataclass
from ..build.build import Training
from ..data.loader import MicroBatch
from ..recipe.optimizer import StepUpdate


@dataclass(frozen=True)
class StopAndSaveRequests:
    """Requests to act on after a step. Before the step, they are this rank's requests; after it, those of any rank.

    give_up: end the run because saving failed too often.
    """

    stop: bool = False
    save: bool = False
    give_up: bool = False


@dataclass(frozen=True)
class StepResult:
    """Result of one optimizer step.

    loss:        exact loss per item (in nats for cross-entropy); the same on all ranks.
    num_samples: number of samples on all ranks, without padding.
    forward_s:   GPU seconds of this rank's forward passes; None on a CPU, where the phase timers already measure it.
    skip_reason: why the update was skipped (NaN or Inf in loss or gradient), or "" if it was not skipped.
    requests:    requests of any rank.
    """

    loss: float
    num_samples: int
    lr: float
    update: StepUpdate
    forward_s: float | None
    skip_reason: str
    requests: StopAndSaveRequests


class StepTotals(NamedTuple):
    """Sums over all ranks. stop, save, give_up: number of ranks with that request"""

    loss: float
    items: float
    stop: float
    save: float
    give_up: float

    @property
    def mean_loss(self) -> float:
        """Return the loss per item, or NaN if there are no items."""
        return self.loss / self.items if self.items > 0 else math.nan

    @property
    def requests(self) -> StopAndSaveRequests:
        return StopAndSaveRequests(stop=self.stop > 0, save=self.save > 0, give_up=self.give_up > 0)


class StepSums:
    """Sums of loss and items: over this rank while its forward passes run, then over all ranks.

    num_samples:    number of samples in the step on all ranks, without padding.
    expected_items: expected number of items on all ranks, by which the loss is divided. The exact number is known only
                    after the last forward pass, so update() scales gradients by expected_items / items. If gradients
                    cannot be scaled (parallel.counts_ahead), a separate message counts the items during the first
                    forward pass.
    """

    def __init__(
        self, training: Training, step: int, micro_batches: Sequence[MicroBatch], requests: StopAndSaveRequests
    ) -> None:
        self._training, self._micro_batches = training, micro_batches
        self.num_samples = training.order.num_samples_without_padding(step, 1)
        counts = [training.recipe.count(fed.batch) if len(fed.indices_R) else 0 for fed in micro_batches]
        self._counts = counts  # None: only loss() knows the number of items
        self.expected_items = loss_divisor(self.num_samples * training.items_per_sample)
        self._exact_items = self._start_count() if training.parallel.counts_ahead else None
        device = training.group.device
        self._local = torch.zeros(len(StepTotals._fields), dtype=torch.float64, device=device)
        self._local_loss, self._local_items, *local_requests = self._local.unbind()  # views
        self._local_items += float(sum(count for count in counts if count is not None))
        for view, request in zip(local_requests, (requests.stop, requests.save, requests.give_up), strict=True):
            view.fill_(request)

    @property
    def local_loss(self) -> float:
        """Return this rank's loss. Reading it synchronizes with the device."""
        return float(self._local_loss)

    def is_padding(self, number: int) -> bool:
        return len(self._micro_batches[number].indices_R) == 0

    def add_pass(self, number: int, loss: Tensor, num_items: Any) -> None:
        """Add the forward pass of micro-batch `number`. The last one starts the exchange between ranks."""
        if number == 0 and self._exact_items is not None:
            self._training.phases.enter("exchange")
            self.expected_items = loss_divisor(self._exact_items()[0])
        if not self.is_padding(number):
            self._local_loss += loss.detach()
            if self._counts[number] is None:
                self._local_items += num_items
        if number == len(self._micro_batches) - 1:
            self._exchange = self._training.group.start_sum_on_device(self._local)

    def loss_factor(self, number: int) -> float:
        """Return the factor for a micro-batch's loss: 0 for padding, else world_size / items (backward() averages)."""
        return 0.0 if self.is_padding(number) else self._training.group.world_size / self.expected_items

    def wait_for_exchange(self) -> Callable[[], StepTotals]:
        """Wait for the exchange; on a GPU, the stream waits, not this process. The returned function reads the sums."""
        reduced = self._exchange()
        return lambda: StepTotals(*reduced.tolist())

    def _start_count(self) -> Callable[[], list[float]]:
        """Start summing the items over all ranks: the exact number if count() returned it, else the expected one."""
        counts = [count for count in self._counts if count is not None]
        num_items: float = sum(counts)
        if len(counts) < len(self._counts):
            num_items = sum(len(fed.indices_R) for fed in self._micro_batches) * self._training.items_per_sample
        return self._training.group.start_sum([num_items])


def loss_divisor(num_items: float) -> float:
    """Return the loss divisor: the (weighted) item count, which can be below 1, or 1 if the step has no items."""
    return 1.0 if num_items <= 0 else num_items
