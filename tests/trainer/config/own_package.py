"""Configs that train with the package in examples/bring_your_own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "examples" / "bring_your_own"
WAVES = {"_target_": "my_pkg.data.Waves", "size": 500}
OWN: dict[str, Any] = {
    "model": {"_target_": "my_pkg.nets.Net", "width": 32},
    "data": {**WAVES, "val": {"_target_": "my_pkg.data.Waves", "size": 101, "first": 500}, "collate": None},
    "loss": {"_target_": "my_pkg.losses.smoothed", "smoothing": 0.1},
    "optim": {
        "_target_": "torch.optim.SGD", "lr": 0.1, "momentum": 0.9,
        "warmup_steps": 2, "schedule": "constant", "min_lr_ratio": 0.1, "clip_norm": 1.0,
    },
    "batch.micro": 24,
    "batch.accumulation": 2,
    "loop.steps": 25,
    "checkpoint.every_steps": 7,
}  # fmt: skip
# How many items count is known only after the forward pass. Without BatchNorm, whose means are of a micro batch.
LATE: dict[str, Any] = {
    **OWN,
    "model": {"_target_": "torch.nn.Linear", "in_features": 32, "out_features": 4},
    "loss": {"_target_": "my_pkg.losses.of_hard_ones", "least": 0.5},
    "batch.micro": 48,
    "batch.accumulation": 1,
}
NO_VAL = {"val": None, "collate": None}
CROSS = {"loss": {"kind": "cross_entropy"}}
DENOISE = {"recipe": "my_pkg.recipes.Denoise", "loop.steps": 12, "batch.micro": 48}
