"""CPU memory of one node while the trainer saves or resumes a sharded model.

A checkpoint is whole: rank 0 gathers it to save, and each rank reads it to resume (trainer/parallel/fsdp.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .memory import Memory


def host_memory(train: Mapping[str, Any], needs: Memory, procs: int, uses_trainer: bool) -> int | None:
    """Return bytes, while all ranks of the node resume; None where no rank holds more than its share.

    procs: ranks of the node
    """
    if not uses_trainer or train["parallel"]["kind"] not in ("fsdp", "hsdp") or needs.checkpoint is None:
        return None
    file_share = 2 / 3  # the file with the moments, the larger of two, is in memory as well while it is read
    return procs * round(needs.checkpoint * (1 + file_share) + needs.host)
