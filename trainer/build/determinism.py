"""Make training deterministic: the same inputs produce the same bits."""

import torch

from ..config.schema import TrainConfig
from .garbage_collection import pause_garbage_collection


def set_determinism(config: TrainConfig, device: torch.device) -> None:
    """Fix the number of threads, and use deterministic kernels if they cost nothing (CPU) or the job requests them."""
    torch.set_num_threads(config.threads_per_rank)
    if device.type == "cpu" or config.loop.deterministic:
        with pause_garbage_collection():
            torch.use_deterministic_algorithms(True)  # torch 2.13 imports its compiler here, half of its modules
        # a debugging aid that costs time
        torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    if device.type != "cpu":  # TF32 with half precision; not on a CPU, where it would be slow bfloat16 emulation
        is_half = config.loop.precision != "fp32"
        torch.set_float32_matmul_precision("high" if is_half else torch.get_float32_matmul_precision())
        torch.backends.cudnn.allow_tf32 = is_half  # on by default in torch 2.13
