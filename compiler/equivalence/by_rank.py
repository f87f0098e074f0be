"""Differences that are true of several ranks, each told once with all of them.

In   sentences, some with `rank N has …`, `rank N does not get …`
Out  the same without repetitions: `ranks 0-3, 7 have …`
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from ..spans import spans

_OF_ONE = re.compile(r"\brank (\d+) (has|does)\b")
SEVERAL = {"has": "have", "does": "do"}


def by_rank(differences: Iterable[str]) -> list[str]:
    """In the order in which each comes first."""
    ranks: dict[tuple[str, ...], set[int]] = {}
    for text in differences:
        found = _OF_ONE.search(text)
        if found is None:
            ranks.setdefault((text,), set())
        else:
            same = text[: found.start()], found[2], text[found.end() :]
            ranks.setdefault(same, set()).add(int(found[1]))
    return [_told(same, sorted(numbers)) for same, numbers in ranks.items()]


def _told(same: tuple[str, ...], numbers: list[int]) -> str:
    if not numbers:
        return same[0]
    before, verb, after = same
    several = len(numbers) > 1
    return f"{before}rank{'s' * several} {spans(numbers)} {SEVERAL[verb] if several else verb}{after}"
