"""Parameters of the optimizers and schedulers that DeepSpeed accepts, with their types, for engine_tables.json.

They come from the constructors; the bounds that torch checks are found by trying values.
"""

from __future__ import annotations

import collections.abc
import inspect
import typing
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from deepspeed.ops.adagrad import DeepSpeedCPUAdagrad
from deepspeed.ops.adam import DeepSpeedCPUAdam, FusedAdam
from deepspeed.ops.lamb import FusedLamb
from deepspeed.ops.lion import DeepSpeedCPULion, FusedLion
from deepspeed.runtime import config, lr_schedules
from deepspeed.runtime.engine import DeepSpeedEngine
from engine_types import Table, kind_of

POINTS = (-1.0, -1e-9, 0.0, 1e-9, 0.5, 1 - 1e-9, 1.0, 1 + 1e-9, 2.0)  # candidates for bounds, and values beside them


def parameters(of: Any, *leave_out: str) -> Table:
    """Return keyword -> type for a constructor."""
    declared = inspect.signature(of).parameters.values()
    hints = typing.get_type_hints(vars(of)["__init__"], localns=vars(collections.abc))
    skipped = {"self", "params", "model_params", "optimizer", "defaults", *leave_out}
    return {
        parameter.name: parameter_kind(hints.get(parameter.name, parameter.annotation), parameter.default)
        for parameter in declared
        if parameter.name not in skipped and parameter.kind is not parameter.VAR_KEYWORD
    }


def parameter_kind(annotation: Any, default: Any) -> str:
    if annotation is inspect.Parameter.empty and default not in (None, inspect.Parameter.empty):
        annotation = type(default)
    kind = str(kind_of(annotation) or "any")
    kind = "number" if kind in ("int", "int or number", "number or int") else kind
    return f"{kind} or list" if kind == "number" and isinstance(default, tuple) else kind


def torch_optimizers() -> dict[str, Table]:
    members = {name: member for name, member in vars(torch.optim).items() if isinstance(member, type)}
    deepspeed_names = config.DEEPSPEED_OPTIMIZERS
    return {
        name: bounded(member)
        for name, member in sorted(members.items())
        if issubclass(member, torch.optim.Optimizer)
        and member is not torch.optim.Optimizer
        and name.lower() not in deepspeed_names
    }


def bounded(optimizer: Any) -> Table:
    """Return the parameters() of a torch optimizer, with the bounds that its constructor checks."""

    def works(name: str, value: float) -> bool:
        try:
            optimizer([torch.nn.Parameter(torch.zeros(1))], **{name: value})
        except (ValueError, TypeError):
            return False
        return True

    return {
        name: kind + (bounds_of(partial(works, name)) if kind == "number" else "")
        for name, kind in parameters(optimizer).items()
    }


def bounds_of(works: Callable[[float], bool]) -> str:
    results = [works(point) for point in POINTS]
    if True not in results:
        return ""
    first, last = results.index(True), len(results) - 1 - results[::-1].index(True)
    signs = [(">=", ">", first, -1)] if first else []
    signs += [("<=", "<", last, 1)] if last < len(results) - 1 else []
    return "".join(
        f"{closed}{POINTS[index]:g}" if POINTS[index] in (-1, 0, 0.5, 1, 2) else f"{open_}{POINTS[index + step]:g}"
        for closed, open_, index, step in signs
    )


def either(*tables: Table) -> Table:
    """Return the keys of all tables. If two tables disagree about a type, it is `any`."""
    names = dict.fromkeys(name for table in tables for name in table)
    kinds = {name: {table[name] for table in tables if name in table} for name in names}
    return {name: type_names.pop() if len(type_names) == 1 else "any" for name, type_names in kinds.items()}


def optimizers() -> dict[str, Table]:
    """Return name -> params. DeepSpeed's own are in lower case; `adam torch_adam` is Adam and AdamW with torch_adam."""
    chosen = {"torch_adam": "bool", "adam_w_mode": "bool", "fp32_optimizer_states": "bool"}  # read by the engine
    rejected = ("max_grad_norm", "adamw_mode")  # by DeepSpeedEngine._configure_basic_optimizer
    fused = {**either(parameters(DeepSpeedCPUAdam, *rejected), parameters(FusedAdam, *rejected)), **chosen}
    plain = {**bounded(torch.optim.AdamW), **chosen}
    muon = dict.fromkeys((*DeepSpeedEngine._MUON_HALF_KEYS, "muon_lr", "adam_lr"), "number") | {"ns_method": "text"}
    mup = {"decoupled_wd": "bool"}  # mup/optim.py 1.0.0; the rest is passed to torch's optimizer
    deepspeed = {
        "adam": fused,
        "adamw": fused,
        "adam torch_adam": plain,
        "adagrad": either(parameters(DeepSpeedCPUAdagrad), parameters(torch.optim.Adagrad)),
        "lamb": parameters(FusedLamb, *rejected),
        "lion": either(parameters(DeepSpeedCPULion), parameters(FusedLion)),
        "muon": {**either(fused, plain), **muon},  # it drops unknown keys
        "muadam": {**bounded(torch.optim.Adam), **mup},
        "muadamw": {**bounded(torch.optim.AdamW), **mup},
        "musgd": {**bounded(torch.optim.SGD), **mup},
    }
    assert {name.split()[0] for name in deepspeed} == set(config.DEEPSPEED_OPTIMIZERS)
    return deepspeed | torch_optimizers()


NEEDED = {
    "cycle_min_lr": 0.1, "cycle_max_lr": 0.2, "total_num_steps": 9, "T_max": 9, "T_0": 9, "step_size": 3, "gamma": 0.5,
    "milestones": [2, 4], "base_lr": 0.1, "max_lr": 0.2, "total_steps": 9,
}  # fmt: skip


def schedulers() -> dict[str, Table]:
    members = vars(torch.optim.lr_scheduler)
    base = torch.optim.lr_scheduler.LRScheduler
    names = [name for name, member in members.items() if isinstance(member, type) and issubclass(member, base)]
    torch_names = sorted(name for name in {*names, "ReduceLROnPlateau"} if name[0] != "_" and members[name] is not base)
    deepspeed = {name: getattr(lr_schedules, name) for name in lr_schedules.VALID_LR_SCHEDULES}
    return {
        name: scheduler(member) for name, member in ({name: members[name] for name in torch_names} | deepspeed).items()
    }


def scheduler(of: Any) -> Table:
    """Return the parameters() of a scheduler.

    A rate may be a list with one value per group, and some words may be other scalars.
    """
    accepted = inspect.signature(of).parameters
    needed = {name: value for name, value in NEEDED.items() if name in accepted}

    def takes(name: str, value: Any) -> bool:
        optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], momentum=0.9)
        try:
            of(optimizer, **{**needed, name: value})
        except (ValueError, TypeError, AttributeError, KeyError):
            return False
        return True

    others = {"number": ("list", [0.1]), "text": ("scalar", 0)}
    return {
        name: f"{kind} or {others[kind][0]}" if kind in others and takes(name, others[kind][1]) else kind
        for name, kind in parameters(of).items()
    }
