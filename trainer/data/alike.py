"""Is sample N the same on every rank and in every attempt? A data set that lists a folder may find another order.

A few samples are read twice. Where both readings gave a rank the same bytes, its data set goes by the index, and every
other rank and attempt should get them too. It is a warning: another processor or library may round differently.
"""

import hashlib
from collections.abc import Callable, Sequence

import torch

from ..dist.process_group import Group
from .content import digest, listed
from .loader import Fed, Slots, all_of

Read = Callable[[Sequence[Slots]], Sequence[Fed]]


def digest_of_samples(num_samples: int, read: Read) -> str:
    """Of the first sample, the last, and one between them, in hex; "" when a second reading gives others."""
    places = sorted({0, num_samples // 2, num_samples - 1})
    slots = [all_of(torch.tensor([place])) for place in places]  # one by one: they may differ in shape
    digests = [digest(fed.batch).hex() for fed in read([*slots, *slots])]
    once, again = digests[: len(places)], digests[len(places) :]
    return "".join(once) if once == again else ""


def warning(group: Group, mine: str, before: str | None) -> str:
    """The line to tell when samples differ between ranks, or from the attempt before; or "". All ranks call it.

    mine, before: of digest_of_samples()
    """
    number = int.from_bytes(hashlib.blake2b(mine.encode(), digest_size=8).digest(), "big", signed=True)
    known = torch.tensor([number, bool(mine)])
    numbers, are_known = zip(*(row.tolist() for row in group.gather(known)), strict=True)
    others = [rank for rank, each in enumerate(numbers) if each != numbers[0]]
    hint = "is an order of files one that os.listdir() or glob() gave? sorted() makes it the same everywhere"
    if others and all(are_known):
        who = f"rank{'s' * (len(others) > 1)} {listed(others)}"
        return f"warning: data: {who} and rank 0 get other bytes for the same sample numbers; {hint}"
    if before and mine and before != mine:
        return f"warning: data: sample numbers stand for other bytes than when this run was saved; {hint}"
    return ""
