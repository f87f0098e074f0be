"""Check that sample N is the same on every rank and in every attempt. It may differ, for example, if a folder is
listed in a different order.

A few samples are read twice. If both reads return the same bytes, the sample depends only on its index, and every other
rank and attempt should read the same bytes. A mismatch causes only a warning because another CPU or library may round
differently.
"""

import hashlib
from collections.abc import Callable, Sequence

import torch

from ..dist.process_group import RankGroup
from .duplicate_batches import batch_digest, format_ranks
from .loader import MicroBatch, Slots, fully_counted_slots

Read = Callable[[Sequence[Slots]], Sequence[MicroBatch]]


def digest_few_samples(num_samples: int, read: Read) -> str:
    """Return hex digests of the first, a middle and the last sample; "" if a second read differs."""
    indices = sorted({0, num_samples // 2, num_samples - 1})
    slots = [fully_counted_slots(torch.tensor([index])) for index in indices]  # not as one batch: shapes may differ
    digests = [batch_digest(fed.batch).hex() for fed in read([*slots, *slots])]
    once, again = digests[: len(indices)], digests[len(indices) :]
    return "".join(once) if once == again else ""


def mismatch_warning(group: RankGroup, mine: str, before: str | None) -> str:
    """Return a warning if samples differ between ranks or from the previous attempt, or "". All ranks call it.

    mine, before: results of digest_few_samples() now and in the previous attempt.
    """
    number = int.from_bytes(hashlib.blake2b(mine.encode(), digest_size=8).digest(), "big", signed=True)
    digest_row = torch.tensor([number, bool(mine)])
    numbers, are_known = zip(*(row.tolist() for row in group.gather(digest_row)), strict=True)
    others = [rank for rank, other_number in enumerate(numbers) if other_number != numbers[0]]
    hint = "sort file lists from os.listdir() or glob() with sorted(), so that the order is the same everywhere"
    if others and all(are_known):
        rank_names = f"rank{'s' * (len(others) > 1)} {format_ranks(others)}"
        return f"warning: data: {rank_names} and rank 0 read different bytes for the same sample numbers; {hint}"
    if before and mine and before != mine:
        return f"warning: data: sample numbers refer to different bytes than when this run was saved; {hint}"
    return ""
