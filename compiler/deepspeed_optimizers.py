"""`optimizer` of deepspeed.json: what `params` may hold, by the optimizer's type.

DeepSpeed hands `params` to the optimizer's constructor on every rank; Muon drops the keys that it does not know.
`auto` is for programs that use accelerate or transformers, which put numbers in its place.
Source DeepSpeed 0.19.8: DEEPSPEED_OPTIMIZERS in runtime/config.py, _configure_basic_optimizer in runtime/engine.py,
       ops/adam, ops/lamb, ops/lion, ops/adagrad, runtime/zero/muon; PyTorch 2.13 torch/optim; mup 1.0.0 mup/optim.py
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from .known_values import AUTO, COUNT, NUMBER, SECTION, SWITCH, Known, Tree, Value, any_case, either, number, words

POSITIVE = Value("a number above 0", lambda value: number(value) and value > 0, "1e-3")
NOT_POSITIVE = Value("a number of at most 0", lambda value: number(value) and value <= 0, "-0.8")
AT_LEAST_1 = Value("a number of at least 1", lambda value: number(value) and value >= 1, "1.0")
DECAY = Value("a number from 0 to less than 1", lambda value: number(value) and 0 <= value < 1, "0.9")
NO_AMSGRAD = Value("false: DeepSpeed has no AMSGrad", lambda value: value is False, "false")


def _pair(inner: Value, of: str, example: str) -> Value:
    def holds(value: Any) -> bool:
        return isinstance(value, tuple) and len(value) == 2 and all(map(inner.holds, value))

    return Value(f"two numbers {of}", holds, example)


BETAS = _pair(DECAY, "from 0 to less than 1", "[0.9, 0.999]")
LR: Known = {"lr": either(POSITIVE, AUTO)}
DECAYED: Known = {**LR, "weight_decay": either(NUMBER, AUTO)}
EPS: Known = {"eps": either(POSITIVE, AUTO)}
ADAM: Known = {**DECAYED, **EPS, "betas": either(BETAS, AUTO)}
_SWITCHES: Known = dict.fromkeys(("foreach", "maximize", "differentiable"), SWITCH)
_CAPTURABLE: Known = {**_SWITCHES, "capturable": SWITCH}
_TORCH_ADAMW: Known = {**ADAM, **_CAPTURABLE, "amsgrad": SWITCH, "fused": SWITCH}
_ETAS = Value(
    "two numbers, one from 0 to 1 and one above 1",
    lambda v: isinstance(v, tuple) and len(v) == 2 and all(map(number, v)) and 0 < v[0] < 1 < v[1],
    "[0.5, 1.2]",
)
# Those of torch.optim, by their names there.
OF_TORCH: Mapping[str, Known] = {
    "ASGD": {**DECAYED, **_CAPTURABLE, "lambd": NUMBER, "alpha": NUMBER, "t0": NUMBER},
    "Adadelta": {**DECAYED, **EPS, **_CAPTURABLE, "rho": DECAY},
    "Adafactor": {
        **DECAYED, "foreach": SWITCH, "maximize": SWITCH, "beta2_decay": NOT_POSITIVE, "d": AT_LEAST_1,
        "eps": _pair(NUMBER, "of at least 0", "[1e-30, 1e-3]"),
    },
    "Adamax": {**ADAM, **_CAPTURABLE},
    "LBFGS": {
        **LR, "max_iter": COUNT, "max_eval": COUNT, "tolerance_grad": NUMBER, "tolerance_change": NUMBER,
        "history_size": COUNT, "line_search_fn": words("strong_wolfe"),
    },
    "NAdam": {**ADAM, **_CAPTURABLE, "momentum_decay": NUMBER, "decoupled_weight_decay": SWITCH},
    "RAdam": {**ADAM, **_CAPTURABLE, "decoupled_weight_decay": SWITCH},
    "RMSprop": {**DECAYED, **EPS, **_CAPTURABLE, "alpha": NUMBER, "momentum": NUMBER, "centered": SWITCH},
    "Rprop": {
        **LR, **_CAPTURABLE, "etas": _ETAS, "step_sizes": _pair(POSITIVE, "above 0", "[1e-6, 50]"),
    },
    "SGD": {**DECAYED, **_SWITCHES, "momentum": NUMBER, "dampening": NUMBER, "nesterov": SWITCH, "fused": SWITCH},
}  # fmt: skip
# Which of them: torch's, DeepSpeed's own on the GPU, or its own on the CPU, and what that one keeps.
_CHOICE: Known = {"torch_adam": SWITCH, "adam_w_mode": SWITCH, "fp32_optimizer_states": SWITCH}
_MUON: Known = {
    **ADAM, **_CHOICE, "foreach": SWITCH, "momentum": DECAY, "ns_method": words("standard", "gram"),
    "muon_lr": POSITIVE, "adam_lr": POSITIVE,
}  # fmt: skip
_ADAM: Known = {**ADAM, **_CHOICE, "bias_correction": SWITCH, "amsgrad": NO_AMSGRAD, "set_grad_none": SWITCH}


def _adam(params: Tree) -> Known:
    return {**_TORCH_ADAMW, **_CHOICE} if params.get("torch_adam") is True else _ADAM


# DeepSpeed's own, by their names in small letters.
OF_DEEPSPEED: Mapping[str, Any] = {
    "adam": _adam,
    "adamw": _adam,
    "adagrad": {
        **DECAYED, **EPS, **_SWITCHES, "lr_decay": NUMBER, "initial_accumulator_value": NUMBER, "fused": SWITCH,
        "amsgrad": NO_AMSGRAD, "fp32_optimizer_states": SWITCH,
    },
    "lamb": {
        **ADAM, "bias_correction": SWITCH, "eps_inside_sqrt": SWITCH, "max_coeff": POSITIVE, "min_coeff": POSITIVE,
        "amsgrad": NO_AMSGRAD,
    },
    "lion": {**DECAYED, "betas": either(BETAS, AUTO), "set_grad_none": SWITCH, "fp32_optimizer_states": SWITCH},
    "muadam": {**_TORCH_ADAMW, "decoupled_wd": SWITCH},
    "muadamw": {**_TORCH_ADAMW, "decoupled_wd": SWITCH},
    "musgd": {**OF_TORCH["SGD"], "decoupled_wd": SWITCH},
    "muon": _MUON,
}  # fmt: skip
TYPE = either(
    any_case("Adam", "AdamW", "Adagrad", "Lamb", "Lion", "MuAdam", "MuAdamW", "MuSGD", "Muon"), words(*OF_TORCH)
)


def optimizer(tree: Tree) -> Known:
    """Of the section `optimizer` as it is there; `params` of a type that is none, or not said, is not looked into."""
    kind = str(tree.get("type"))
    params = OF_TORCH.get(kind) or OF_DEEPSPEED.get(kind.lower(), SECTION)
    return {"type": replace(TYPE, example="AdamW"), "params": params, "legacy_fusion": SWITCH}
