"""How the ranks share the work of one model: what a step, a checkpoint and a validation ask of any way to do it.

Ddp is here; DeepSpeed is in zero.py, which alone imports it. Another way is another class with these methods.
"""

import math
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol, cast

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from .config import DdpConfig, TrainConfig
from .distributed import Group
from .env import Env
from .optimizer import build_optimizer


class Parallel(Protocol):
    """One model and its optimizer, shared by all ranks. Every method but passes() is called by all of them together.

    module         the model as training steps call it
    evaluated      the model as validation calls it
    num_parameters of the whole model
    equal_passes   all ranks must call `evaluated` equally often
    """

    module: nn.Module
    evaluated: nn.Module
    num_parameters: int
    equal_passes: bool

    def warm_up(self, loss: Tensor) -> None:
        """A backward pass without effect, before the first step."""

    def passes(self, last: bool) -> AbstractContextManager[None]:
        """Around one forward and backward pass. last: of the step, so that gradients are exchanged."""

    def backward(self, loss: Tensor, last: bool) -> None:
        """The exchange of gradients gives their mean over the ranks."""

    def update(self, lr: float, clip_norm: float | None) -> float:
        """One optimizer step; gives the norm of all gradients before clipping. Not finite: the weights stay."""

    def weights(self) -> Mapping[str, Tensor]:
        """The whole state_dict of the model, complete on rank 0."""

    def optimizer_state(self) -> Mapping[str, Any]:
        """As AdamW.state_dict() has it for the whole model, complete on rank 0."""

    def load_weights(self, weights: Mapping[str, Tensor]) -> None:
        """Raises RuntimeError for those of another model."""

    def load_optimizer(self, state: Mapping[str, Any]) -> None: ...


def share(model: nn.Module, config: TrainConfig, env: Env, group: Group) -> Parallel:
    """`model` and its optimizer as config.parallel says."""
    if isinstance(config.parallel, DdpConfig):
        return Ddp(model, config, config.parallel, group)
    from .zero import Zero  # imports DeepSpeed, which takes seconds and need not be there

    return Zero(model, config, config.parallel, env, group)


class Ddp:
    """DistributedDataParallel: every rank holds the whole model. One rank alone is the model as it is."""

    equal_passes = False

    def __init__(self, model: nn.Module, config: TrainConfig, ddp: DdpConfig, group: Group) -> None:
        self.evaluated = model
        self.num_parameters = sum(parameter.numel() for parameter in model.parameters())
        self.module = cast(nn.Module, torch.compile(model)) if config.loop.compile else model
        if group.world_size > 1:
            self.module = DistributedDataParallel(
                self.module,
                device_ids=[group.device.index] if group.device.type == "cuda" else None,
                bucket_cap_mb=ddp.bucket_cap_mb,
                find_unused_parameters=ddp.find_unused_parameters,
                static_graph=ddp.static_graph,
                gradient_as_bucket_view=True,
            )
        self.optimizer = build_optimizer(model, config.optim)

    def warm_up(self, loss: Tensor) -> None:
        torch.autograd.backward(loss)
        self.optimizer.zero_grad(set_to_none=True)

    def passes(self, last: bool) -> AbstractContextManager[None]:
        if last or not isinstance(self.module, DistributedDataParallel):
            return nullcontext()
        return cast(AbstractContextManager[None], self.module.no_sync())

    def backward(self, loss: Tensor, last: bool) -> None:
        torch.autograd.backward(loss)

    def update(self, lr: float, clip_norm: float | None) -> float:
        for parameters in self.optimizer.param_groups:
            parameters["lr"] = lr
        norm = float(nn.utils.clip_grad_norm_(self.evaluated.parameters(), clip_norm or float("inf")))
        if math.isfinite(norm):  # before it reaches the weights; equal on all ranks
            self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return norm

    def weights(self) -> Mapping[str, Tensor]:
        return self.evaluated.state_dict()

    def optimizer_state(self) -> Mapping[str, Any]:
        return self.optimizer.state_dict()

    def load_weights(self, weights: Mapping[str, Tensor]) -> None:
        self.evaluated.load_state_dict(weights)

    def load_optimizer(self, state: Mapping[str, Any]) -> None:
        self.optimizer.load_state_dict(dict(state))
