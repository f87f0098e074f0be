"""What does not depend on the samples: the parts of one rank's memory that a way of sharing decides."""

from __future__ import annotations

from dataclasses import dataclass

FP32 = 4
MOMENTS = 2 * FP32  # of AdamW, for one parameter


@dataclass(frozen=True)
class States:
    """Bytes. host: of one rank in CPU memory, by offload; buffers: casts, and what is in messages.

    gathered: what FSDP and ZeRO 3 have whole at a time, None when nobody says how large the largest unit is
    """

    weights: int
    gradients: int
    optimizer: int
    buffers: int
    gathered: int | None
    host: int
