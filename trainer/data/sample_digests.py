"""Check that sample N is the same on every rank and in every attempt. It may differ, for example, if a folder is
listed in a different order.

A few samples are read twice. If both reads return the same bytes, the sample depends only on its index, and every other
rank and attempt should read the same bytes. A mismatch causes only a warning because another CPU or library may round
differently.
"""

import hashlib
from collections.abc import Callable, Sequence

import torch

from ..dist.process_group import RankGroup, format_ranks
from .duplicate_batches import batch_digest
from .loader import MicroBatch, Slots, fully_counted_slots

Read = Callable[[Sequence[Slots]], Sequence[MicroBatch]]


def digest_few_samples(num_samples: int, read: Read) -> str:
    """Return hex digests of the first, a middle and the last sample, or "" if a second read differs."""
    indices = sorted({0, num_samples // 2, num_samples - 1})
    slots = [fully_counted_slots(torch.tensor([index])) for index in indices]  # not as one batch: shapes may differ
    digests = [batch_digest(fed.batch).hex() for fed in read([*slots, *slots])]
    once, again = digests[: len(indices)], digests[len(indices) :]
    return "".join(once) if once == again else ""


def mismatch_warning(group: RankGroup, mine: str, before: str | None) -> str:
    """Return a warning if the samples' digests differ between ranks or from `before`, or "". All ranks call it."""
    unknown = bytes(8)
    digests = group.gather_bytes(hashlib.blake2b(mine.encode(), digest_size=8).digest() if mine else unknown)
    others = [rank for rank, digest in enumerate(digests) if digest != digests[0]]
    hint = "sort file lists from os.listdir() or glob() with sorted(), so that the order is the same everywhere"
    if others and unknown not in digests:
        names = format_ranks(others)
        return f"warning: data: {names} and rank 0 read different bytes for the same sample numbers; {hint}"
    if before and mine and before != mine:
        return f"warning: data: sample numbers refer to different bytes than when this run was saved; {hint}"
    return ""
