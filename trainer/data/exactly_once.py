"""Check at run time that each sample of an epoch is trained on exactly once, by exactly one rank.

Every rank records the indices in the batches that its model actually received, not in those planned for it. At the end
of an epoch, at a save and at the end of training, the ranks combine their records, which have one byte per sample.

    data: 32,217 samples, 16 ranks, overlap 0, missing 0, padded 7 (weight 0), epoch 0
"""

import base64
import ctypes
import zlib
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from ..dist.process_group import RankGroup
from ..lifecycle.errors import BrokenInput
from .duplicate_batches import DuplicateBatchCheck
from .loader import MicroBatch
from .order import SampleOrder

NOTED_STEPS = 256  # steps between counts; one count takes as long as a small step


class ExactlyOnceCheck:
    """Record of the samples that the ranks received in the current epoch.

    order:      the expected samples.
    first_step: the first recorded step. It is later than the epoch's first step if the previous attempt left no record.
    """

    def __init__(
        self, order: SampleOrder, group: RankGroup, first_step: int, before: Mapping[str, Any] | None = None
    ) -> None:
        self._order, self._group, self._first_step = order, group, first_step
        self._seen_N = torch.zeros(order.num_samples, dtype=torch.uint8)  # how many times this rank saw each sample
        self._num_fed, self._num_padding = 0, 0
        self._before: Tensor | None = None  # seen_N of all ranks in earlier attempts; kept on rank 0
        self._notes: list[tuple[Tensor, int]] = []  # (indices_R, num_padding) of each micro-batch
        self._content = DuplicateBatchCheck(group)
        if before is not None and first_step % order.steps_per_epoch:
            try:
                self._continue_record(before)
            except (KeyError, TypeError, ValueError, zlib.error) as error:
                raise BrokenInput("the `data` entry in the checkpoint's state.json is damaged") from error

    def _continue_record(self, before: Mapping[str, Any]) -> None:
        if self._order.epoch_of(self._first_step) != before["epoch"]:
            return
        self._first_step = int(before["first_step"])
        if self._group.is_first:
            self._before = _unpack_bits(base64.b64decode(before["seen"]), self._order.num_samples)
            self._num_fed, self._num_padding = int(before["num_fed"]), int(before["num_padding"])

    def record_step(self, step: list[MicroBatch]) -> None:
        """Record the micro-batches that the model received. Their indices are copied because a tensor from a worker is
        an open file that would keep the samples in memory."""
        self._notes += [(fed.indices_R.clone(), fed.num_padding) for fed in step]
        self._content.record_step(step)
        if len(self._notes) >= NOTED_STEPS:
            self._count_recorded_samples()

    def after_step(self, done: int) -> str | None:
        """At the end of an epoch, return the result of verify_epoch() and start the next epoch. done: finished steps"""
        if done % self._order.steps_per_epoch:
            return None
        line = self.verify_epoch(done)
        self._seen_N.zero_()
        self._num_fed, self._num_padding, self._before, self._first_step = 0, 0, None, done
        return line

    def verify_epoch(self, done: int) -> str:
        """Check the current epoch after `done` steps and return one line. All ranks call it. Raises BrokenInput."""
        self._content.require_different_batches()
        seen_N, num_fed, num_padding = self._sum_over_ranks()
        epoch, steps = self._order.epoch_of(done - 1), range(self._first_step, done)
        expected = self._order.num_samples_without_padding(self._first_step, len(steps))
        distinct = int(seen_N.count_nonzero())
        overlap, missing = num_fed - distinct, expected - distinct
        is_full_epoch = len(steps) == self._order.steps_per_epoch
        line = (
            f"data: {expected:,} samples, {self._group.world_size} rank{'s' * (self._group.world_size > 1)},"
            f" overlap {overlap}, missing {missing}, padded {num_padding} (weight 0), epoch {epoch}"
            + ("" if is_full_epoch else f", steps {steps.start + 1:,} to {done:,}")
        )
        if overlap or missing or num_padding != self._order.batch * len(steps) - expected:
            hint = "do not use these weights; the cause is a custom sampler or a bug in the trainer"
            raise BrokenInput("some samples were not trained on exactly once", [line], hint)
        return line

    def undetermined_warning(self) -> str:
        """Return a line about what the last check could not determine, or ""."""
        return self._content.undetermined_warning()

    def counts_to_json_object(self, done: int) -> dict[str, Any]:
        """On rank 0, return all ranks' counts after `done` steps as JSON, for a checkpoint. All ranks call it."""
        seen_N, num_fed, num_padding = self._sum_over_ranks()
        if not self._group.is_first:  # rank 0 writes it
            return {}
        return {
            "epoch": self._order.epoch_of(done),
            "first_step": self._first_step,
            "num_fed": num_fed,
            "num_padding": num_padding,
            "seen": base64.b64encode(zlib.compress(_pack_bits(seen_N), 1)).decode(),
        }

    def _count_recorded_samples(self) -> None:
        if self._notes:
            indices_R = torch.cat([indices_R for indices_R, _ in self._notes])
            self._seen_N.index_add_(0, indices_R, torch.ones(len(indices_R), dtype=torch.uint8))
            self._num_fed += len(indices_R)
        self._num_padding += sum(num_padding for _, num_padding in self._notes)
        self._notes.clear()

    def _sum_over_ranks(self) -> tuple[Tensor, int, int]:
        """Combine all ranks' records: whether each sample was seen, number of samples, number of padding slots."""
        self._count_recorded_samples()
        numbers = self._group.start_sum([self._num_fed, self._num_padding])
        seen_N = self._seen_N.clamp(max=1)
        if self._before is not None:
            seen_N = seen_N.maximum(self._before)
        seen_N = self._group.elementwise_maximum(seen_N)
        num_fed, num_padding = numbers()
        return seen_N, int(num_fed), int(num_padding)


BITS = torch.tensor([1, 2, 4, 8, 16, 32, 64, 128], dtype=torch.uint8)


def _pack_bits(seen_N: Tensor) -> bytes:
    bits = torch.zeros(-(-len(seen_N) // 8) * 8, dtype=torch.uint8)
    bits[: len(seen_N)] = seen_N > 0
    packed = (bits.view(-1, 8) * BITS).sum(1, dtype=torch.uint8)
    return ctypes.string_at(packed.data_ptr(), packed.numel())  # without NumPy, which torch does not require


def _unpack_bits(content: bytes, num_samples: int) -> Tensor:
    """Unpack one bit per sample. Raises ValueError if the size is wrong."""
    size = -(-num_samples // 8)
    bits = zlib.decompressobj().decompress(content, size + 1)  # limits the size of untrusted data
    if len(bits) != size:
        raise ValueError(f"{len(bits)} bytes of {size}")
    packed = torch.frombuffer(bytearray(bits), dtype=torch.uint8)
    return ((packed[:, None] & BITS) > 0).flatten()[:num_samples].to(torch.uint8)
