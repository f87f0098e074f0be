"""DeepSpeed ZeRO: ranks shard optimizer state (stage 1), gradients (2) and weights (3). Calls deepspeed.initialize.

Checkpoints are unsharded, as with DDP, so a run can resume with a different stage or number of ranks, or without
DeepSpeed. Written for DeepSpeed 0.19.8; tested on CPUs with gloo, ZeRO 0 to 3, with offload to cpu.
"""

import copy
import logging
import math
import os
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Adam, AdamW

from ...runtime.system.untrusted_files import Unreadable, read_json
from ..config import parse as strict
from ..config.deepspeed_json import deepspeed_config, find_contradictions
from ..config.schema import DeepspeedConfig, TrainConfig
from ..dist.env import RankEnvironment
from ..dist.process_group import RankGroup
from ..lifecycle.errors import BrokenInput, list_names
from ..recipe.loss import ModelWithLoss
from ..recipe.optimizer import GroupLearningRates, StepUpdate
from ..recipe.recipe import Recipe
from .blocks import apply_checkpointing_and_compile
from .interface import (
    build_checked_optimizer,
    copy_from_rank_0,
    is_extra_state,
    require_equal_parameter_names,
    require_same_shapes,
    weight_shapes,
)
from .stale_build_locks import extension_build_allowed, torch_extensions_folder
from .stepper import optimizer_own_state

MOMENTS = ("exp_avg", "exp_avg_sq")  # names of AdamW's moments


def deepspeed_settings(config: TrainConfig, env: RankEnvironment) -> dict[str, Any]:
    """Return DeepSpeed's settings: those in train.json, and any others in deepspeed.json. Raises BrokenInput."""
    train: Any = strict.to_json_types(config)
    path = env.accelerate_deepspeed_config_file or env.deepspeed_json
    if path is None:
        return deepspeed_config(train)
    try:
        document: Any = read_json(path)
    except Unreadable as error:
        raise BrokenInput(str(error)) from error
    if wrong := find_contradictions(document, train):
        hint = f"the trainer uses train.json: compile again, or restore {path.name}"
        raise BrokenInput(f"{path} contradicts {env.train_json}", wrong, hint=hint)
    return dict(document)


class Zero:
    """One DeepSpeed engine; see interface.Parallel for the methods."""

    counts_ahead = True  # DeepSpeed's gradients cannot be scaled

    def __init__(
        self,
        model: nn.Module,
        recipe: Recipe,
        config: TrainConfig,
        zero: DeepspeedConfig,
        env: RankEnvironment,
        group: RankGroup,
    ) -> None:
        settings = deepspeed_settings(config, env)
        if group.device.type == "cpu":
            os.environ["DS_ACCELERATOR"] = "cpu"  # DeepSpeed reads this when it is imported
        try:
            import deepspeed
        except ImportError as error:
            raise BrokenInput(f"parallel: deepspeed cannot be imported: {error}") from error
        logging.getLogger("DeepSpeed").setLevel(logging.WARNING)
        self.deepspeed, self.stage, self.group, self.model = deepspeed, zero.zero_stage, group, model
        copy_from_rank_0(model, group)
        model.to(group.device)
        apply_checkpointing_and_compile(model, config.loop)
        weights = model.state_dict()
        if extra := [name for name, value in weights.items() if is_extra_state(name, value)]:
            title = f"model: {list_names(extra)}: ZeRO checkpoints do not support get_extra_state()"
            raise BrokenInput(title, hint="parallel=fsdp or parallel=ddp")
        self.shapes = weight_shapes(weights)
        optimizer = build_checked_optimizer(recipe, model, group)
        if self.stage > 0 and type(optimizer) not in (Adam, AdamW):  # a subclass may keep more state
            title = f"build_optimizer() returned {type(optimizer).__name__}, but ZeRO checkpoints only support Adam"
            raise BrokenInput(f"recipe: {title}", hint="torch.optim.AdamW, or parallel=fsdp")
        if self.stage > 0 and any(group.get("amsgrad") for group in optimizer.param_groups):
            raise BrokenInput("recipe: ZeRO checkpoints do not support amsgrad", hint="amsgrad=False, or parallel=fsdp")
        self.names = require_equal_parameter_names(optimizer, model, group)
        # keep the original order because ZeRO replaces the parameters with flat tensors
        self.order = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        self.groups, self.rates = optimizer.state_dict()["param_groups"], GroupLearningRates(optimizer)
        self.steps = 0
        with extension_build_allowed(torch_extensions_folder()):
            with_loss = ModelWithLoss(model, recipe, config.loop.precision)
            self.engine, self.optimizer, _, _ = deepspeed.initialize(
                model=with_loss, optimizer=optimizer, config=settings, dist_init_required=False
            )
        self.module: nn.Module = self.engine
        self.evaluated: nn.Module = self.engine
        self.equal_passes = self.stage == 3  # every pass gathers weights from all ranks
        self.gathers = self.stage > 0

    def run_warm_up_backward(self, loss: Tensor, counted: bool) -> None:
        """Skip the warm-up pass. Its purpose is to fix DDP's buckets; DeepSpeed's are determined by parameter order."""
        if not counted:
            raise item_count_error()

    def pass_context(self, last: bool) -> AbstractContextManager[None]:
        return nullcontext()

    def backward(self, loss: Tensor, last: bool) -> None:
        self.engine.backward(loss, scale_wrt_gas=False)  # the loss is already divided for the whole step
        if not last:
            self.engine.step()  # only counts the pass; it does not update weights

    def gradient_norm(self) -> None:
        return None

    def update(self, lr: float, clip_norm: float | None, norm: float | None, factor: float, loss: float) -> StepUpdate:
        if not math.isclose(factor, 1.0, rel_tol=1e-9):
            raise item_count_error()
        self.rates.set_rates(self.optimizer.param_groups, lr)
        if self.stage == 0:  # DeepSpeed does not compute the norm at stage 0
            norm = float(nn.utils.clip_grad_norm_(self.model.parameters(), float("inf")))
        self.engine.step()
        self.steps += 1
        if norm is None:
            norm = float(self.engine.get_global_grad_norm())
        return StepUpdate(norm if norm >= 0 else math.nan)  # -1 means not finite

    def weights(self) -> Mapping[str, Any]:
        with self._gather_parameters():
            if not self.group.is_first:
                return {}
            state: Mapping[str, Tensor] = self.model.state_dict()
            if not self.gathers:
                return state
            return {name: value.detach().to("cpu", copy=True) for name, value in state.items()}

    def optimizer_state(self) -> Mapping[str, Any]:
        groups = copy.deepcopy(self.groups)
        for group, now in zip(groups, self.optimizer.param_groups, strict=True):
            group["lr"] = now["lr"]
        if self.stage == 0:
            return {**self.optimizer.state_dict(), "param_groups": groups}
        self._link_states()
        read = self.deepspeed.utils.safe_get_full_optimizer_state
        state: dict[int, Any] = {}
        for number, parameter in enumerate(self.order):
            moments = {name: read(parameter, name).cpu() for name in MOMENTS}
            if self.group.is_first:
                state[number] = {"step": torch.tensor(float(self.steps)), **moments}
        return {"state": state, "param_groups": groups}

    def load_weights(self, weights: Mapping[str, Any]) -> None:
        require_same_shapes(weights, self.shapes)
        with self._gather_parameters(modified=True):
            if self.stage < 3 or self.group.is_first:
                self.model.load_state_dict(weights)
        if self.stage > 0:  # the optimizer overwrites the weights with its fp32 copy
            names = {parameter: name for name, parameter in self.model.named_parameters()}
            for parameter in self.order:
                self._set_unsharded_values(parameter, weights[names[parameter]].to(torch.float32))

    def load_optimizer(self, state: Mapping[str, Any]) -> None:
        self.steps = int(next((float(parameter_state["step"]) for parameter_state in state["state"].values()), 0.0))
        if self.stage == 0:
            groups = self.optimizer.state_dict()["param_groups"]
            self.optimizer.load_state_dict({**optimizer_own_state(state), "param_groups": groups})
            return
        zero = self.optimizer
        flat = zero.fp32_partitioned_groups_flat if self.stage == 3 else zero.single_partition_of_fp32_groups
        for tensor in flat:  # as AdamW itself does in its first step
            moments = {name: torch.zeros_like(tensor) for name in MOMENTS}
            self.optimizer.optimizer.state[tensor] = {"step": torch.tensor(float(self.steps)), **moments}
        self._link_states()
        for number, parameter in enumerate(self.order):
            if number not in state["state"]:
                continue  # the parameter never had a gradient, so its moments stay zero
            for name in MOMENTS:
                self._set_unsharded_values(parameter, state["state"][number][name], name)

    def _set_unsharded_values(self, parameter: Any, full: Tensor, *moment: str) -> None:
        """Copy unsharded values into the optimizer's copy of a parameter, or into one of its moments.

        ZeRO 3 pads the last shard of a parameter that does not divide evenly, but safe_set_full_fp32_param of DeepSpeed
        0.19.8 splits the tensor without padding, so each rank sets its own shard here.
        """
        utils = self.deepspeed.utils
        if self.stage < 3:
            set_param, set_moment = utils.safe_set_full_fp32_param, utils.safe_set_full_optimizer_state
        else:
            set_param, set_moment = utils.safe_set_local_fp32_param, utils.safe_set_local_optimizer_state
            size, flat = parameter.ds_tensor.numel(), full.flatten()
            shard = flat[size * self.group.rank : size * (self.group.rank + 1)]
            full = nn.functional.pad(shard, (0, size - shard.numel()))
        (set_moment if moment else set_param)(parameter, full.to(self.group.device), *moment)

    def _gather_parameters(self, modified: bool = False) -> AbstractContextManager[None]:
        """Return a context in which all ranks have unsharded parameters. modified: at the end, broadcast rank 0's"""
        if self.stage < 3:
            return nullcontext()
        parameters, rank = list(self.model.parameters()), 0 if modified else None
        gathered: AbstractContextManager[None] = self.deepspeed.zero.GatheredParameters(parameters, modifier_rank=rank)
        return gathered

    def _link_states(self) -> None:
        """Link moments to parameters again. ZeRO 1 and 2 in DeepSpeed 0.19.8 do this before all groups have moments."""
        if self.stage in (1, 2):
            self.optimizer._hp_optimizer_states_linked = False
            self.optimizer._lazy_init_hp_params_optimizer_state()


def item_count_error() -> BrokenInput:
    return BrokenInput(
        "loss: deepspeed accumulates gradients itself, so they cannot be scaled by an item count from loss()",
        hint="add count() to the recipe, which counts before the forward pass; or use parallel=ddp",
    )
