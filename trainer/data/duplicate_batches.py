"""Detect ranks that train on the same samples despite different indices because the data set is sharded incorrectly.

An example is a data set that ignores the index and reads the next sample of a file chosen by LOCAL_RANK. Every node
then trains on the same samples. The check compares the bytes of the first batches between ranks. Samples may be equal
by chance, and those in a synthetic data set may all be equal. An error is therefore raised only if ranks have equal
batches in several steps and these batches differ from one another.
"""

import ctypes
import hashlib
from typing import Any

import torch
from torch import Tensor

from ..dist.process_group import RankGroup, format_ranks
from ..lifecycle.errors import BrokenInput
from .batch_copier import iter_tensors
from .loader import MicroBatch

FIRST_STEPS = 2  # batches from most data sets differ by then, so the comparison stops
MOST_STEPS = 16
DIFFERENT = 5  # minimum number of equal batches for an error; fewer, but more than one, may be equal by chance
MOST_NAMED = 20


class DuplicateBatchCheck:
    """Digests of the batches that this rank received, excluding padding batches."""

    def __init__(self, group: RankGroup) -> None:
        self._group = group
        self._batches: list[bytes] = []
        self._alike: list[tuple[list[int], int]] = []  # (ranks with equal batches so far, number of different batches)
        self._steps, self._ended = 0, group.world_size == 1

    def record_step(self, step: list[MicroBatch]) -> None:
        """Record the micro-batches that the model received. All ranks call it. Raises BrokenInput."""
        if self._ended:
            return
        self._batches += [batch_digest(fed.batch) for fed in step if len(fed.indices_R)]
        self._steps += 1
        if self._steps == FIRST_STEPS:
            self._update_equal_ranks()
        elif self._steps == MOST_STEPS:
            self.require_different_batches()
            self._ended = True

    def require_different_batches(self) -> None:
        """Raise BrokenInput if some ranks had the same batches for enough steps. All ranks call it."""
        if self._ended:
            return
        self._update_equal_ranks()
        if duplicates := [ranks for ranks, different in self._alike if different >= DIFFERENT]:
            groups = [format_ranks(ranks) for ranks in duplicates[:MOST_NAMED]]
            raise BrokenInput(
                f"data: {self._format_groups(duplicates)} got the same samples",
                [f"the same bytes on {ranks} in {self._steps} steps" for ranks in groups],
                hint="__getitem__ must depend only on its index: the trainer gives each rank different indices",
            )

    def undetermined_warning(self) -> str:
        """Return a warning if ranks may have received the same samples, or "". Called at the end, after
        require_different_batches().
        """
        doubtful = [(ranks, different) for ranks, different in self._alike if 1 < different < DIFFERENT]
        if not doubtful:
            return ""
        named, most = self._format_groups([ranks for ranks, _ in doubtful]), max(different for _, different in doubtful)
        message = f"warning: data: {named} seem to get the same samples in {most} batches"
        return f"{message}: many samples may be identical, or __getitem__ depends on more than its index"

    def _format_groups(self, groups: list[list[int]]) -> str:
        if len(groups[0]) == self._group.world_size:
            return f"all {self._group.world_size} ranks"
        return " and ".join(map(format_ranks, groups[:2]))

    def _update_equal_ranks(self) -> None:
        """Find ranks with the same batches so far; stop comparing once there are none."""
        digest = hashlib.blake2b(b"".join(self._batches), digest_size=8).digest()
        mine = [int.from_bytes(digest, "big", signed=True), len(self._batches), len(set(self._batches))]
        by_content: dict[tuple[int, ...], list[int]] = {}
        self._group.phases.enter("exchange")  # a rank that is still reading data holds up the others
        for rank, row in enumerate(self._group.all_gather(torch.tensor(mine, dtype=torch.int64))):
            by_content.setdefault(tuple(row.tolist()), []).append(rank)
        self._alike = [
            (ranks, different) for (_, number, different), ranks in by_content.items() if len(ranks) > 1 and number
        ]
        self._ended = not self._alike


def batch_digest(batch: Any) -> bytes:
    hasher = hashlib.blake2b(digest_size=8)
    for tensor in iter_tensors(batch):
        for part in dense_components(tensor.detach().cpu()):
            part = part.contiguous()
            hasher.update(ctypes.string_at(part.data_ptr(), part.numel() * part.element_size()))
    return hasher.digest()


def dense_components(tensor: Tensor) -> tuple[Tensor, ...]:
    """Return the tensors that make up a sparse tensor (torch 2.13, torch.sparse), or a dense tensor itself."""
    if tensor.layout == torch.strided:
        return (tensor,)
    if tensor.layout == torch.sparse_coo:
        tensor = tensor.coalesce()
        return tensor.indices(), tensor.values()
    if tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
        return tensor.crow_indices(), tensor.col_indices(), tensor.values()
    if tensor.layout in (torch.sparse_csc, torch.sparse_bsc):
        return tensor.ccol_indices(), tensor.row_indices(), tensor.values()
    return ()  # a layout of another library, such as mkldnn, cannot be compared
