"""Estimate a node's CPU memory while the trainer saves or resumes a sharded model.

A checkpoint is not sharded: rank 0 gathers it to save, and each rank reads all of it (trainer/parallel/fsdp.py).
"""

from collections.abc import Mapping
from typing import Any

from .memory import Memory


def host_memory(train: Mapping[str, Any], needs: Memory, procs: int, uses_trainer: bool) -> int | None:
    """Return the bytes needed while a node's `procs` ranks resume; None if each rank holds only its share."""
    if not uses_trainer or train["parallel"]["kind"] not in ("fsdp", "hsdp") or needs.checkpoint is None:
        return None
    file_share = 2 / 3  # the larger of the two files, which contains the moments, is in memory while it is read
    return procs * round(needs.checkpoint * (1 + file_share) + needs.host)
