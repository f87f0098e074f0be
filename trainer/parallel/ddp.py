"""DistributedDataParallel: every rank holds the whole model. With world_size 1, the model is not wrapped."""

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from ..config.schema import DdpConfig, TrainConfig
from ..dist.process_group import RankGroup
from ..lifecycle.errors import BrokenInput, list_names
from ..recipe.loss import ModelWithLoss
from ..recipe.optimizer import parameter_names_by_index
from ..recipe.recipe import Recipe
from .blocks import apply_checkpointing_and_compile
from .interface import build_checked_optimizer
from .stepper import Stepper

NOT_SENT = (torch.int16, torch.uint16, torch.uint32, torch.uint64)  # gloo and NCCL in torch 2.13 do not support these


class Ddp(Stepper):
    """See interface.Parallel. The model is compiled before it is wrapped, so that DDP's all-reduce is not traced."""

    equal_passes = False
    gathers = False

    def __init__(self, model: nn.Module, recipe: Recipe, config: TrainConfig, ddp: DdpConfig, group: RankGroup) -> None:
        self.group = group
        model.to(group.device)
        apply_checkpointing_and_compile(model, config.loop)
        self.evaluated: nn.Module = ModelWithLoss(model, recipe, config.loop.precision)
        self.module: nn.Module = self.evaluated
        if config.loop.compile == "model":
            self.module = cast(nn.Module, torch.compile(self.module))
        self.waits_for_all = group.world_size > 1 and not ddp.find_unused_parameters and not ddp.static_graph
        if group.world_size > 1:
            require_broadcastable_buffers(model)
            self.module = DistributedDataParallel(
                self.module,
                device_ids=[group.device.index] if group.device.type == "cuda" else None,
                bucket_cap_mb=ddp.bucket_cap_mb,
                find_unused_parameters=ddp.find_unused_parameters,
                static_graph=ddp.static_graph,
                gradient_as_bucket_view=True,
            )
        super().__init__(model, build_checked_optimizer(recipe, model, group), config.loop.precision)
        self.names = parameter_names_by_index(self.optimizer, model)

    def run_warm_up_backward(self, loss: Tensor, counted: bool) -> None:
        """Raise BrokenInput if a parameter receives no gradient: DDP would raise an error in the next step."""
        torch.autograd.backward(loss)
        unused = [name for name, p in self.model.named_parameters() if p.requires_grad and p.grad is None]
        if unused and self.waits_for_all:
            raise BrokenInput(
                f"model: {len(unused)} parameters are not used in the loss of the first batch",
                [list_names(unused)],
                hint="parallel.find_unused_parameters=true; or remove them, or set requires_grad_(False)",
            )
        self.optimizer.zero_grad(set_to_none=True)

    def pass_context(self, last: bool) -> AbstractContextManager[None]:
        if last or not isinstance(self.module, DistributedDataParallel):
            return nullcontext()
        return cast(AbstractContextManager[None], self.module.no_sync())

    def weights(self) -> Mapping[str, Any]:
        return self.model.state_dict()

    def load_weights(self, weights: Mapping[str, Any]) -> None:
        self.model.load_state_dict(weights)


def require_broadcastable_buffers(model: nn.Module) -> None:
    """Raise BrokenInput for buffers that rank 0 cannot broadcast."""
    if names := [name for name, buffer in model.named_buffers() if buffer.dtype in NOT_SENT]:
        types = ", ".join(map(str, NOT_SENT))
        title = f"model: {list_names(names)}: DDP cannot broadcast buffers of type {types}"
        raise BrokenInput(title, hint="a buffer of torch.int32 or torch.int64")
