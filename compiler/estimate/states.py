"""Memory of one rank that depends on the parallelism, not on the samples."""

from __future__ import annotations

from dataclasses import dataclass

FP32 = 4


@dataclass(frozen=True)
class States:
    """Bytes. host: of one rank in CPU memory, by offload; buffers: casts, and what is in messages.

    optimizer: None when it is one of the user's whose numbers nobody knows
    gathered: what FSDP and ZeRO 3 have whole at a time, None when nobody says how large the largest unit is
    """

    weights: int
    gradients: int
    optimizer: int | None
    buffers: int
    gathered: int | None
    host: int
