"""Read one rank's micro-batches in the order that order.py defines, in this process or in workers.

The loader receives indices and has no position, so a sample does not depend on when it is read or by which process.
"""

import ctypes
import faulthandler
import multiprocessing.connection
import os
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from ..config.schema import LoaderConfig
from ..lifecycle.errors import dead_worker_error
from . import order
from .batch_copier import BatchCopier
from .map_style import MapStyleSplit
from .order import SampleOrder
from .source import IGNORE, Split

Slots = tuple[Tensor, int, int]  # indices_B, how many of them are real (these come first), epoch
PR_SET_PDEATHSIG = 1  # prctl(2), Linux


class MicroBatch(NamedTuple):
    """One micro-batch with its metadata.

    indices_R:   int64, indices of the samples that count.
    num_padding: number of slots that only pad the last batch of an epoch and do not count.
    batch:       (inputs, targets), or the result of the user's collate.
    """

    indices_R: Tensor
    num_padding: int
    batch: Any


def fetch_batch(split: Split, slots: Slots) -> MicroBatch:
    """Read a micro-batch. Built-in data marks padding in the targets; user data omits it. A rank that has only padding
    still reads samples, but none of them count.
    """
    indices_B, num_real, epoch = slots
    real_R, num_padding = indices_B[:num_real], len(indices_B) - num_real
    if isinstance(split, MapStyleSplit):
        return MicroBatch(real_R, num_padding, split.batch(real_R if num_real else indices_B, epoch))
    inputs, targets = split.batch(indices_B)
    if num_padding:
        targets = targets.clone()
        targets[num_real:] = IGNORE
    return MicroBatch(real_R, num_padding, (inputs, targets))


def fully_counted_slots(indices_B: Tensor) -> Slots:
    """Return these indices as slots in epoch 0, all of which count."""
    return indices_B, len(indices_B), 0


def iter_micro_batch_slots(
    plan: SampleOrder, rank: int, world_size: int, micro: int, first_step: int
) -> Iterator[Slots]:
    """Yield the slots of each of a rank's micro-batches, without end, starting at `first_step`."""
    step = first_step
    while True:
        indices_R, num_real = order.rank_shard(*plan.global_batch(step), rank, world_size)
        epoch = plan.epoch_of(step)
        for indices_B in torch.split(indices_R, micro):
            yield indices_B, min(num_real, len(indices_B)), epoch
            num_real = max(num_real - len(indices_B), 0)
        step += 1


def read_extra_batches(
    split: Split, wanted: Sequence[Slots], config: LoaderConfig, device: torch.device
) -> list[MicroBatch]:
    """Read a few batches outside of training. If workers will read the data, a worker reads these batches too. If the
    rank read them, a file that the data set opens on first use would be shared by all workers, with one file position.
    """
    if not config.workers:
        return [fetch_batch(split, slots) for slots in wanted]
    batches = iter(read_in_workers(split, wanted, replace(config, workers=1), device))
    try:
        return list(batches)
    except Exception as error:
        if dead := _find_dead_worker(batches):
            raise dead_worker_error(*dead) from error
        for slots in wanted:  # the same error without the worker's wrapping
            fetch_batch(split, slots)
        raise
    finally:
        batches._shutdown_workers()  # otherwise, the workers live as long as an error's traceback (torch 2.13)


class TrainingLoader:
    """Training batches, one optimizer step at a time. num_micro: micro-batches per step."""

    def __init__(
        self,
        split: Split,
        slots: Iterator[Slots],
        num_micro: int,
        config: LoaderConfig,
        device: torch.device,
        record_progress: Callable[[], None] = lambda: None,
    ) -> None:
        self._num_micro, self._record_progress = num_micro, record_progress
        self._to = BatchCopier(device)
        if config.workers:
            self._batches = iter(read_in_workers(split, slots, config, device))
        else:
            self._batches = (fetch_batch(split, step_slots) for step_slots in slots)
        self._next: list[MicroBatch] | None = None

    def take_step(self) -> list[MicroBatch]:
        micro_batches, self._next = self._next or self._read_step(), None
        return micro_batches

    def prefetch_next_step(self) -> None:
        """While a GPU computes, read the next step's batches and start copying the first. Does nothing on a CPU."""
        if self._to.stream is not None:
            self._next = self._next or self._read_step()
            self._to.start_copy(self._next[0].batch)

    def batches_on_device(self, step: list[MicroBatch]) -> Iterator[Any]:
        """Yield the batches of `step` on the device. Each one is copied while the model processes the previous one."""
        for this, following in zip(step, [*step[1:], None], strict=True):
            batch = self._to.finish_copy(this.batch)
            if following is not None:
                self._to.start_copy(following.batch)
            yield batch

    def close(self) -> None:
        self._batches = iter(())

    def _read_step(self) -> list[MicroBatch]:
        read: list[MicroBatch] = []
        try:
            for micro_batch in islice(self._batches, self._num_micro):
                read.append(micro_batch)
                self._record_progress()
            return read
        except (OSError, EOFError, RuntimeError) as error:  # the type depends on what the worker was doing
            if dead := _find_dead_worker(self._batches):
                raise dead_worker_error(*dead) from error
            raise


def read_in_workers(split: Split, slots: Iterable[Slots], config: LoaderConfig, device: torch.device) -> Any:
    """Return a DataLoader that yields fetch_batch() of each slot, in order. Its workers outlive an iteration.

    The rank sends its workers lists. A tensor would be sent as a file that a thread serves, and a process forked while
    such a thread is running may deadlock on a lock that the thread held.
    """
    plain = ((indices_B.tolist(), num_real, epoch) for indices_B, num_real, epoch in slots)
    return DataLoader(
        _FetchDataset(split),
        sampler=list(plain) if isinstance(slots, Sequence) else plain,
        batch_size=None,  # a "sample" in this data set is a micro-batch
        collate_fn=_return_unchanged,
        num_workers=config.workers,
        prefetch_factor=config.prefetch,
        persistent_workers=True,
        pin_memory=device.type == "cuda",
        worker_init_fn=_init_worker,
        generator=torch.Generator(),  # because dropout uses the global generator
    )


class _FetchDataset(Dataset[Any]):
    def __init__(self, split: Split) -> None:
        self._split = split

    def __getitem__(self, slots: Any) -> Any:
        indices, num_real, epoch = slots
        return fetch_batch(self._split, (torch.tensor(indices, dtype=torch.int64), num_real, epoch))


def _find_dead_worker(batches: Any) -> tuple[int, str] | None:
    """Return the process ID of a dead worker and how it ended, or None."""
    for worker in getattr(batches, "_workers", ()):
        worker.join(0.5 if worker.sentinel in multiprocessing.connection.wait([worker.sentinel], 0.1) else 0)
        if worker.exitcode is not None:
            code = worker.exitcode
            return worker.pid, f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"
    return None


def _return_unchanged(value: Any) -> Any:
    return value


def _init_worker(number: int) -> None:
    """Initialize a loader worker, to which torch gives one thread. The worker ignores stop signals and dies with its
    rank.

    On SIGQUIT, which hang_watch.py sends if the rank hangs while waiting for data, the worker writes its stack to the
    rank's log.
    """
    faulthandler.register(signal.SIGQUIT, file=2)
    for stop in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(stop, signal.SIG_IGN)
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    if os.getppid() == 1:  # the rank exited before the prctl() call
        os._exit(0)
