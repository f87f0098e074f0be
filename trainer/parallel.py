"""How the ranks share the work of one model. Only ddp so far; another way is another function here."""

from contextlib import AbstractContextManager, nullcontext
from typing import cast

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from .config import TrainConfig
from .distributed import Group


def wrap(model: nn.Module, config: TrainConfig, group: Group) -> nn.Module:
    """`model` as the steps call it. A backward pass through it leaves the mean gradient over all ranks."""
    if config.loop.compile:
        model = cast(nn.Module, torch.compile(model))
    if group.world_size == 1:
        return model
    return DistributedDataParallel(
        model,
        device_ids=[group.device.index] if group.device.type == "cuda" else None,
        bucket_cap_mb=config.parallel.bucket_cap_mb,
        find_unused_parameters=config.parallel.find_unused_parameters,
        static_graph=config.parallel.static_graph,
        gradient_as_bucket_view=True,
    )


def without_exchange(parallel: nn.Module) -> AbstractContextManager[None]:
    """Inside, forward and backward passes only add to this rank's gradients."""
    if isinstance(parallel, DistributedDataParallel):
        return cast(AbstractContextManager[None], parallel.no_sync())
    return nullcontext()
