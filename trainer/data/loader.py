"""Micro batches of one rank, in the order of order.py: read here or by worker processes.

Who reads a sample and when has no influence on what it is: the loader is given indices, and keeps no position.
"""

import ctypes
import faulthandler
import multiprocessing.connection
import os
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from ..config.schema import LoaderConfig
from ..lifecycle.errors import lost_worker
from . import order
from .batch_copier import BatchCopier
from .map_style import MapStyleSplit
from .order import Order
from .source import IGNORE, Split

Slots = tuple[Tensor, int, int]  # indices_B, how many of its first ones count, epoch
PR_SET_PDEATHSIG = 1  # prctl(2), Linux


@dataclass(frozen=True)
class MicroBatch:
    """One micro-batch with its metadata.

    indices_R    int64, of the samples that count
    num_padding  slots that only fill up the last batch of an epoch, and do not count
    batch        (inputs, targets), or what the user's collate makes
    """

    indices_R: Tensor
    num_padding: int
    batch: Any


def fetch(split: Split, slots: Slots) -> tuple[Tensor, int, Any]:
    """The fields of Fed. Padding is marked in targets of ours, so that shapes stay; a user's batch does without it.

    A rank with only padding still gets samples, but none count.
    """
    indices_B, num_real, epoch = slots
    real_R, num_padding = indices_B[:num_real], len(indices_B) - num_real
    if isinstance(split, MapStyleSplit):
        return real_R, num_padding, split.batch(real_R if num_real else indices_B, epoch)
    inputs, targets = split.batch(indices_B)
    if num_padding:
        targets = targets.clone()
        targets[num_real:] = IGNORE
    return real_R, num_padding, (inputs, targets)


def slots_without_padding(indices_B: Tensor) -> Slots:
    """Slots that all count, of no epoch in particular."""
    return indices_B, len(indices_B), 0


def training_slots(plan: Order, rank: int, world_size: int, micro: int, first_step: int) -> Iterator[Slots]:
    """All micro batches of one rank from `first_step` on, without end."""
    step = first_step
    while True:
        indices_R, num_real = order.shard(*plan.global_batch(step), rank, world_size)
        epoch = plan.epoch_of(step)
        for indices_B in torch.split(indices_R, micro):
            yield indices_B, min(num_real, len(indices_B)), epoch
            num_real = max(num_real - len(indices_B), 0)
        step += 1


def read_extra_batches(
    split: Split, wanted: Sequence[Slots], config: LoaderConfig, device: torch.device
) -> list[MicroBatch]:
    """A few batches beside the training. Where workers will read, one reads these as well: a file that a data set opens
    when it is first asked would else be one for all of them, with one place to read from."""
    if not config.workers:
        return [MicroBatch(*fetch(split, slots)) for slots in wanted]
    batches = iter(_workers(split, wanted, replace(config, workers=1), device))
    try:
        return [MicroBatch(*fields) for fields in batches]
    except Exception as error:
        if dead := _dead(batches):
            raise lost_worker(*dead) from error
        for slots in wanted:  # the same error without a worker's words around it
            fetch(split, slots)
        raise
    finally:
        batches._shutdown_workers()  # torch 2.13: else it lives as long as the traceback of an error


class Loader:
    """Training batches, one optimizer step after the other.

    num_micro  micro batches of one step
    """

    def __init__(
        self,
        split: Split,
        slots: Iterator[Slots],
        num_micro: int,
        config: LoaderConfig,
        device: torch.device,
        moves: Callable[[], None] = lambda: None,
    ) -> None:
        self._num_micro, self._moves = num_micro, moves
        self._to = BatchCopier(device)
        if config.workers:
            self._batches = iter(_workers(split, slots, config, device))
        else:
            self._batches = (fetch(split, step_slots) for step_slots in slots)
        self._next: list[MicroBatch] | None = None

    def take(self) -> list[MicroBatch]:
        """The micro batches of the next step, in host memory."""
        micro_batches, self._next = self._next or self._read(), None
        return micro_batches

    def ahead(self) -> None:
        """While a GPU computes: read the next step, and start to copy its first batch. Nothing on a CPU, which has no
        time left; there workers read ahead."""
        if self._to.stream is not None:
            self._next = self._next or self._read()
            self._to.start(self._next[0].batch)

    def on_device(self, step: list[MicroBatch]) -> Iterator[Any]:
        """The batches of `step` on the device; each is copied while the one before it is computed."""
        for this, following in zip(step, [*step[1:], None], strict=True):
            batch = self._to.finish(this.batch)
            if following is not None:
                self._to.start(following.batch)
            yield batch

    def close(self) -> None:
        """End the workers."""
        self._batches = iter(())

    def _read(self) -> list[MicroBatch]:
        read = []
        try:
            for fields in islice(self._batches, self._num_micro):
                read.append(MicroBatch(*fields))
                self._moves()
            return read
        except (OSError, EOFError, RuntimeError) as error:  # what it is, depends on where the worker was
            if dead := _dead(self._batches):
                raise lost_worker(*dead) from error
            raise


class ValidationBatches:
    """Iterate over it once for each validation; workers stay from one to the next."""

    def __init__(self, split: Split, indices: Sequence[Tensor], config: LoaderConfig, device: torch.device) -> None:
        self._split = split
        self._slots = [slots_without_padding(indices_B) for indices_B in indices]
        self._workers = _workers(split, self._slots, config, device) if config.workers else None

    def __iter__(self) -> Iterator[MicroBatch]:
        batches = (fetch(self._split, slots) for slots in self._slots)
        return (MicroBatch(*fields) for fields in (batches if self._workers is None else self._workers))


def _workers(split: Split, slots: Iterable[Slots], config: LoaderConfig, device: torch.device) -> Any:
    """A DataLoader that gives what fetch() makes of each of `slots`, in their order."""
    return DataLoader(
        _Fetching(split),
        sampler=_Plain(slots),
        batch_size=None,  # a "sample" of this data set is a micro batch
        collate_fn=_as_it_is,
        num_workers=config.workers,
        prefetch_factor=config.prefetch,
        persistent_workers=True,
        pin_memory=device.type == "cuda",
        worker_init_fn=_begin_worker,
        generator=torch.Generator(),  # not the global one, of which dropout draws
    )


class _Plain:
    """Slots as a rank sends them to its workers: of a tensor it would send a file, with a thread that serves it, and
    a process that is forked beside such a thread may wait forever for a lock that it held."""

    def __init__(self, slots: Iterable[Slots]) -> None:
        self._slots = slots

    def __iter__(self) -> Iterator[tuple[list[int], int, int]]:
        return ((indices_B.tolist(), num_real, epoch) for indices_B, num_real, epoch in self._slots)


class _Fetching(Dataset[Any]):
    """Fetch samples for each slot, in a loader worker."""

    def __init__(self, split: Split) -> None:
        self._split = split

    def __getitem__(self, slots: Any) -> Any:
        indices, num_real, epoch = slots
        return fetch(self._split, (torch.tensor(indices, dtype=torch.int64), num_real, epoch))


def _dead(batches: Any) -> tuple[int, str] | None:
    """A worker that has ended, and how."""
    for worker in getattr(batches, "_workers", ()):
        worker.join(0.5 if worker.sentinel in multiprocessing.connection.wait([worker.sentinel], 0.1) else 0)
        if worker.exitcode is not None:
            code = worker.exitcode
            return worker.pid, f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"
    return None


def _as_it_is(value: Any) -> Any:
    return value


def _begin_worker(number: int) -> None:
    """torch has given it one thread. Its rank alone decides when to stop, and it does not outlive its rank.

    What it is doing it writes to the log of its rank at SIGQUIT, which watch.py sends when data are waited for.
    """
    faulthandler.register(signal.SIGQUIT, file=2)
    for stop in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(stop, signal.SIG_IGN)
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    if os.getppid() == 1:  # the rank went before that
        os._exit(0)
