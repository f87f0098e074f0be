"""Record in exit/ATTEMPT/first which of an attempt's nodes failed first, and why. The earliest failure is kept.

1
node=2
rank=5
time_ns=1769860800000000000
reason=rank 5: exit status 1
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping

from .. import exit_codes
from .run_folder import RunFolder, count_of, read_small, write_small


def keep_earliest(run: RunFolder, code: str, keys: Mapping[str, object]) -> None:
    """Record a failure unless an earlier one is recorded. Nodes may collide, so failed nodes call this again."""
    recorded = read_small(run.first_failure)
    if recorded and not is_earlier(code, keys, *recorded):
        return
    with contextlib.suppress(OSError):  # a full disk
        write_small(run.first_failure, code, keys)


def is_earlier(code: str, keys: Mapping[str, object], known_code: str, known: Mapping[str, object]) -> bool:
    return _order(code, keys) < _order(known_code, known)


def _order(code: str, keys: Mapping[str, object]) -> tuple[bool, int]:
    """Return a sort key: the earliest failure first, and ranks that only lost a peer after all other failures."""
    return code == str(exit_codes.PEER_LOST) and "rank" in keys, count_of(keys.get("time_ns"))
