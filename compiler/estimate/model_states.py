"""The part of a rank's memory that depends on the parallelism, not on the number of samples."""

from ...runtime.system.frozen_dataclass import dataclass

FP32 = 4


@dataclass(frozen=True)
class ModelStates:
    """Bytes on one rank. host: CPU memory, if offloaded; buffers: casts and communication buckets.

    optimizer: None for a user's optimizer of unknown size.
    gathered: parameters that FSDP and ZeRO 3 gather at once, None if the largest unit's size is unknown.
    """

    weights: int
    gradients: int
    optimizer: int | None
    buffers: int
    gathered: int | None
    host: int
