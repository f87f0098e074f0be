"""Sum a step's loss, items and requests over all ranks, in one message that overlaps the last backward pass.

Input:  a step's micro-batches, and the loss and number of items of each forward pass.
Output: the factor by which each micro-batch's loss is multiplied before backward(), and the totals over all ranks.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..build.build import Training
from ..data.loader import MicroBatch
from .rank_requests import StopAndSaveRequests


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
        """Return the requests of any rank."""
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
        """Return whether micro-batch `number` contains only padding."""
        return len(self._micro_batches[number].indices_R) == 0

    def add(self, number: int, loss: Tensor, num_items: Any) -> None:
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
        """Return the factor by which the loss of micro-batch `number` is multiplied before backward(). It contains the
        world size because the gradient exchange divides by it. Padding has factor 0.
        """
        return 0.0 if self.is_padding(number) else self._training.group.world_size / self.expected_items

    def wait(self) -> None:
        """Wait for the exchange. On a GPU, the stream waits, not this process."""
        self._reduced = self._exchange()

    def reduced_totals(self) -> StepTotals:
        """Return the sums over all ranks. Call wait() first."""
        return StepTotals(*self._reduced.tolist())

    def _start_count(self) -> Callable[[], list[float]]:
        """Start summing the items over all ranks: the exact number if count() returned it, else the expected one."""
        counts = [count for count in self._counts if count is not None]
        num_samples = sum(len(fed.indices_R) for fed in self._micro_batches)
        is_exact = len(counts) == len(self._counts)
        return self._training.group.start_sum(
            [sum(counts) if is_exact else num_samples * self._training.items_per_sample]
        )


def loss_divisor(num_items: float) -> float:
    """Return the loss divisor: the (weighted) item count, which can be below 1, or 1 if the step has no items."""
    return 1.0 if num_items <= 0 else num_items
