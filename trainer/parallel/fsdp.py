"""FSDP2: each rank holds a shard of every weight, gradient and moment, and gathers a block's weights to run the block.

fsdp  all ranks share one copy of the model
hsdp  a 2-D mesh: `shards` consecutive ranks share a copy, and the copies exchange gradients as in DDP. With one shard
      per rank on a node, weights are gathered within the node, and only gradients are sent between nodes.

Checkpoints are unsharded, as with DDP, so a run can resume with a different number of ranks or another kind of
parallelism. The cost is CPU memory for all weights and moments (12 bytes per parameter). Rank 0 needs it during a
save, and every rank during a resume, in addition to the file's bytes. The device gathers one tensor at a time.
Source: torch 2.13, torch.distributed.fsdp.fully_shard; tested on CPUs with gloo.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import CPUOffloadPolicy, FSDPModule, MixedPrecisionPolicy, OffloadPolicy, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

from ..config.schema import FsdpConfig, HsdpConfig, TrainConfig
from ..dist.process_group import RankGroup
from ..lifecycle.errors import BrokenInput, list_names
from ..lifecycle.exit_rank import known_cause
from ..recipe.loss import DTYPES, ModelWithLoss
from ..recipe.recipe import Recipe
from .blocks import apply_checkpointing_and_compile, find_blocks
from .interface import (
    build_checked_optimizer,
    copy_from_rank_0,
    is_extra_state,
    require_equal_parameter_names,
    require_same_shapes,
    weight_shapes,
)
from .stepper import Stepper

OTHER_OPTIMIZER = "parallel=ddp, or an optimizer such as torch.optim.AdamW"


class Fsdp(Stepper):
    """See interface.Parallel for the methods."""

    equal_passes = True  # every pass gathers weights from other ranks
    gathers = True
    has_stepped = False

    def __init__(
        self, model: nn.Module, recipe: Recipe, config: TrainConfig, sharding: FsdpConfig, group: RankGroup
    ) -> None:
        self.group = group
        require_no_scalar_parameters(model)
        copy_from_rank_0(model, group)
        apply_checkpointing_and_compile(model, config.loop, sharding.transformer_layer_cls_to_wrap)
        mesh = make_device_mesh(sharding, group)
        group.use_timeout(config.process_group.init_timeout_s)  # also for the mesh's process groups
        dtype = DTYPES[config.loop.precision]
        pinned = group.device.type == "cuda"
        offload = CPUOffloadPolicy(pin_memory=pinned) if sharding.offload_params else OffloadPolicy()

        def shard(module: nn.Module, reshard: bool, output_dtype: torch.dtype | None) -> None:
            reduce_dtype = torch.float32 if dtype else None
            precision = MixedPrecisionPolicy(dtype, reduce_dtype, output_dtype if dtype else None)
            fully_shard(module, mesh=mesh, reshard_after_forward=reshard, mp_policy=precision, offload_policy=offload)

        for part in modules_to_shard(model, sharding):
            shard(part, sharding.reshard_after_forward, None)
        # the rest, such as embeddings, is used last in forward and first in backward: do not reshard it in between
        shard(model, False, torch.float32)  # the loss needs float32 outputs
        self.sharded = cast(FSDPModule, model)
        # FSDP casts weights and inputs itself, so autocast is off
        self.module: nn.Module = ModelWithLoss(model, recipe, "fp32")
        self.evaluated: nn.Module = self.module
        optimizer = build_checked_optimizer(recipe, model, group)
        super().__init__(model, optimizer, config.loop.precision)
        self.names = require_equal_parameter_names(optimizer, model, group)

    def pass_context(self, last: bool) -> AbstractContextManager[None]:
        """Exchange gradients only in the last pass of a step. Until then, each rank keeps unsharded gradients."""
        self.sharded.set_requires_gradient_sync(last)
        self.sharded.set_is_last_backward(last)
        return nullcontext()

    def gradient_norm(self) -> Tensor:
        norm: Tensor = unsharded_tensor(super().gradient_norm())
        return norm

    def step(self) -> None:
        """Raises BrokenInput in the first step if the optimizer does not support DTensors (Adafactor in torch 2.13)."""
        try:
            super().step()
        except torch.OutOfMemoryError:
            raise
        except RuntimeError as error:
            if self.has_stepped or known_cause(error) is not None:
                raise
            name, message = type(self.optimizer).__name__, next(iter(str(error).strip().splitlines()), "")
            raise BrokenInput(
                f"optim: step() of {name} fails on FSDP tensors: {message[:300]}", hint=OTHER_OPTIMIZER
            ) from error
        self.has_stepped = True

    def weights(self) -> Mapping[str, Any]:
        return dict(self._gather_on_first(self.model.state_dict()))

    def optimizer_state(self) -> Mapping[str, Any]:
        saved = super().optimizer_state()
        require_sharded_state(saved["state"], self._ordered_parameters())
        state = {number: dict(self._gather_on_first(moments)) for number, moments in saved["state"].items()}
        return {**saved, "state": state}

    def load_weights(self, weights: Mapping[str, Any]) -> None:
        current = self.model.state_dict()
        require_same_shapes(weights, weight_shapes(current))
        extra = {name: weights[name] for name, value in current.items() if is_extra_state(name, value)}
        for name, value in current.items():
            if isinstance(value, DTensor):
                value.to_local().copy_(_shard_of_tensor(weights[name], value).to_local())
            elif name not in extra:
                value.copy_(weights[name])
        self.model.load_state_dict(extra, strict=False)  # calls each module's set_extra_state()

    def load_optimizer(self, state: Mapping[str, Any]) -> None:
        parameters = self._ordered_parameters()

        def shard(value: Any, parameter: Any) -> Any:
            is_like = isinstance(value, Tensor) and value.shape == parameter.shape
            return _shard_of_tensor(value, parameter) if is_like else value

        sharded = {
            number: {name: shard(value, parameters[number]) for name, value in moments.items()}
            for number, moments in state["state"].items()
        }
        super().load_optimizer({**state, "state": sharded})

    def _ordered_parameters(self) -> Sequence[Tensor]:
        """Return the parameters in the order in which the optimizer's state_dict numbers them."""
        return [parameter for group in self.optimizer.param_groups for parameter in group["params"]]

    def _gather_on_first(self, values: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
        """Yield unsharded copies, on the CPU of rank 0, and numbers unchanged. Other ranks only send their shards."""
        for name, value in values.items():
            full = unsharded_tensor(value)
            if self.group.is_first:
                yield name, full.detach().to("cpu", copy=True) if isinstance(full, Tensor) else full


def require_no_scalar_parameters(model: nn.Module) -> None:
    """Raise BrokenInput for scalar parameters: fully_shard in torch 2.13 shards along the first dimension."""
    if scalars := [name for name, parameter in model.named_parameters() if parameter.ndim == 0]:
        hint = "a tensor of one element, torch.nn.Parameter(torch.ones(1)), or parallel=ddp"
        raise BrokenInput(f"model: FSDP cannot shard a scalar parameter: {list_names(scalars)}", hint=hint)


def require_sharded_state(state: Mapping[int, Mapping[str, Any]], parameters: Sequence[Tensor]) -> None:
    """Raise BrokenInput for a tensor, other than a single number, that is not sharded like its parameter."""
    for number, moments in state.items():
        for name, value in moments.items():
            if isinstance(value, DTensor):
                is_known = value.shape == parameters[number].shape
            else:
                is_known = not isinstance(value, Tensor) or value.numel() == 1
            if not is_known:
                title = f"optim: {name!r} in the optimizer state is not sharded like its parameter and cannot be saved"
                raise BrokenInput(title, hint=OTHER_OPTIMIZER)


def make_device_mesh(sharding: FsdpConfig, group: RankGroup) -> DeviceMesh:
    """Return the device mesh. The ranks along its last dimension share a copy of the model."""
    if not isinstance(sharding, HsdpConfig):
        return init_device_mesh(group.device.type, (group.world_size,))
    shape = (group.world_size // sharding.shards, sharding.shards)
    return init_device_mesh(group.device.type, shape, mesh_dim_names=("replicate", "shard"))


def modules_to_shard(model: nn.Module, sharding: FsdpConfig) -> list[nn.Module]:
    """Return the modules to shard as units, inner before outer, without the model itself. Raises like find_blocks()."""
    if sharding.auto_wrap_policy == "NO_WRAP":
        return []
    if sharding.auto_wrap_policy == "SIZE_BASED_WRAP":
        return list(_large_enough_modules(model, sharding.min_num_params))
    return find_blocks(model, sharding.transformer_layer_cls_to_wrap)[::-1]


def unsharded_tensor(value: Any) -> Any:
    """Return the unsharded tensor. Values that are not sharded are returned unchanged. All ranks must call this."""
    return value.full_tensor() if isinstance(value, DTensor) else value


def _large_enough_modules(module: nn.Module, min_num_params: int) -> Iterator[nn.Module]:
    """Yield the descendants that have at least min_num_params parameters, inner ones first. The parameters of a yielded
    module are not counted again for the modules that contain it.
    """
    for child in module.children():
        inner = list(_large_enough_modules(child, min_num_params))
        yield from inner
        wrapped = {parameter for descendant in inner for parameter in descendant.parameters()}
        if sum(p.numel() for p in child.parameters() if p not in wrapped) >= min_num_params:
            yield child


def _shard_of_tensor(full: Tensor, like: DTensor) -> DTensor:
    """Return this rank's shard of a tensor that every rank has in full. Sends no messages."""
    on_device = full.to(like.to_local().device)
    return distribute_tensor(on_device, like.device_mesh, like.placements, src_data_rank=None)
