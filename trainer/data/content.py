"""Do two ranks train on the same samples, whatever their indices? The mark of data that are shared out wrongly.

Such as those that read the next sample of a file of LOCAL_RANK: then every node trains on the same. The bytes of the
first batches are compared between the ranks. Samples may be alike by chance, and those of a made-up data set may all be
the same, so that ranks have to agree for some steps, in batches that differ from each other.
"""

import ctypes
import hashlib
from typing import Any

import torch

from ..distributed import Group
from ..errors import BrokenInput
from .copier import tensors
from .loader import Fed

FIRST_STEPS = 2  # after which most data sets are seen to differ, and nothing more is done
MOST_STEPS = 16
DIFFERENT = 5  # batches at least, in which ranks have to agree
MOST_NAMED = 20


class Content:
    """What this rank was given, as digests; batches that only fill up are none of it."""

    def __init__(self, group: Group) -> None:
        self._group = group
        self._batches: list[bytes] = []
        self._steps, self._ended = 0, group.world_size == 1

    def note(self, step: list[Fed]) -> None:
        """These micro batches have been given to the model. All ranks call it. Raises BrokenInput."""
        if self._ended:
            return
        self._batches += [digest(fed.batch) for fed in step if len(fed.indices_R)]
        self._steps += 1
        if self._steps == FIRST_STEPS:
            self._ended = not self._alike()
        elif self._steps == MOST_STEPS:
            self.judge()
            self._ended = True

    def judge(self) -> None:
        """All ranks call it. Raises BrokenInput when some have had the same for long enough."""
        if self._ended:
            return
        alike = self._alike()
        self._ended = not alike
        found = [ranks for ranks, different in alike if different >= DIFFERENT]
        if found:
            raise BrokenInput(
                f"data: {self._named(found)} were given the same samples",
                [f"the same bytes on rank {listed(ranks)} in {self._steps} steps" for ranks in found[:MOST_NAMED]],
                hint="__getitem__ must go by its index alone: the trainer gives each rank others",
            )

    def _named(self, found: list[list[int]]) -> str:
        if len(found[0]) == self._group.world_size:
            return f"all {self._group.world_size} ranks"
        return " and ".join(f"ranks {listed(ranks)}" for ranks in found[:2])

    def _alike(self) -> list[tuple[list[int], int]]:
        """Ranks whose batches so far were the same, and how many different ones these are."""
        whole = hashlib.blake2b(b"".join(self._batches), digest_size=8).digest()
        mine = [int.from_bytes(whole, "big", signed=True), len(self._batches), len(set(self._batches))]
        by_content: dict[tuple[int, int], list[int]] = {}
        different: dict[tuple[int, int], int] = {}
        for rank, row in enumerate(self._group.gather(torch.tensor(mine, dtype=torch.int64))):
            content, number, num_different = row.tolist()
            by_content.setdefault((content, number), []).append(rank)
            different[content, number] = num_different
        return [(ranks, different[key]) for key, ranks in by_content.items() if len(ranks) > 1 and key[1]]


def digest(batch: Any) -> bytes:
    """Of every tensor in a batch."""
    found = hashlib.blake2b(digest_size=8)
    for tensor in tensors(batch):
        tensor = tensor.detach().cpu().contiguous()
        found.update(ctypes.string_at(tensor.data_ptr(), tensor.numel() * tensor.element_size()))
    return found.digest()


def listed(ranks: list[int]) -> str:
    """0, 2, 4"""
    more = f" and {len(ranks) - MOST_NAMED} more" if len(ranks) > MOST_NAMED else ""
    return ", ".join(map(str, ranks[:MOST_NAMED])) + more
