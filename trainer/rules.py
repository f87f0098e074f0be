"""Which values of train.json make sense: limits of single values, and contradictions between values.

Standard library only. Both functions return sentences, `path: what is wrong`; an empty list means fine.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .config import TrainConfig


@dataclass(frozen=True)
class Limit:
    """What a number must be, in words and as a test."""

    words: str
    holds: Callable[[float], bool]


AT_LEAST_0 = Limit("at least 0", lambda number: number >= 0)
AT_LEAST_1 = Limit("at least 1", lambda number: number >= 1)
AT_LEAST_2 = Limit("at least 2, because the newest checkpoint may be damaged", lambda number: number >= 2)
ABOVE_0 = Limit("above 0", lambda number: number > 0)
PROBABILITY = Limit("at least 0 and below 1", lambda number: 0 <= number < 1)
SHARE = Limit("above 0 and below 1", lambda number: 0 < number < 1)
RATIO = Limit("from 0 to 1", lambda number: 0 <= number <= 1)
SEED = Limit("from 0 to 2^63 - 1", lambda number: 0 <= number < 2**63)
SCHEMA_1 = Limit("1, the only version this trainer reads", lambda number: number == 1)

LIMITS: Mapping[str, Limit] = {
    "schema": SCHEMA_1,
    "world_size": AT_LEAST_1,
    "threads_per_rank": AT_LEAST_1,
    "seed": SEED,
    "model.layers": AT_LEAST_1,
    "model.heads": AT_LEAST_1,
    "model.width": AT_LEAST_1,
    "model.context": AT_LEAST_1,
    "model.dropout": PROBABILITY,
    "model.hidden": AT_LEAST_1,
    "data.max_bytes": AT_LEAST_1,
    "data.val_fraction": SHARE,
    "batch.micro": AT_LEAST_1,
    "batch.accumulation": AT_LEAST_1,
    "batch.global": AT_LEAST_1,
    "optim.lr": ABOVE_0,
    "optim.betas[0]": PROBABILITY,
    "optim.betas[1]": PROBABILITY,
    "optim.eps": ABOVE_0,
    "optim.weight_decay": AT_LEAST_0,
    "optim.warmup_steps": AT_LEAST_0,
    "optim.min_lr_ratio": RATIO,
    "optim.clip_norm": ABOVE_0,
    "loop.steps": AT_LEAST_1,
    "loop.epochs": AT_LEAST_1,
    "loop.max_skips": AT_LEAST_1,
    "loop.max_fruitless": AT_LEAST_1,
    "validation.every_steps": AT_LEAST_1,
    "validation.max_samples": AT_LEAST_1,
    "checkpoint.every_steps": AT_LEAST_1,
    "checkpoint.keep": AT_LEAST_2,
    "metrics.every_steps": AT_LEAST_1,
    "metrics.flush_s": AT_LEAST_0,
    "metrics.max_mib": AT_LEAST_1,
    "profile.steps[0]": AT_LEAST_1,
    "profile.steps[1]": AT_LEAST_1,
    "parallel.bucket_cap_mb": AT_LEAST_1,
    "parallel.reduce_bucket_size": AT_LEAST_1,
    "process_group.init_timeout_s": AT_LEAST_1,
    "process_group.step_timeout_s": AT_LEAST_1,
}

TRACKERS = ("tensorboard", "mlflow", "wandb")
# data kind -> the model kind that reads it
READS = {"stdlib_bytes": "gpt", "digits": "mlp"}


def broken_limits(tree: object) -> list[str]:
    """Numbers of the JSON tree outside their limit. Values that are no numbers are left to strict.parse."""
    problems = []
    for path, limit in LIMITS.items():
        value = _at(tree, path)
        if isinstance(value, (int, float)) and not isinstance(value, bool) and not limit.holds(value):
            problems.append(f"{path}: must be {limit.words}, found {value}")
    return problems


def contradictions(config: TrainConfig) -> list[str]:
    """Values that are fine alone and wrong together."""
    problems = []
    batch, model, data, loop = config.batch, config.model, config.data, config.loop
    product = batch.micro * batch.accumulation * config.world_size
    if batch.global_ != product:
        problems.append(
            f"batch.global: {batch.global_} is not micro {batch.micro} x accumulation {batch.accumulation}"
            f" x world_size {config.world_size} = {product}"
        )
    if (loop.steps is None) == (loop.epochs is None):
        problems.append("loop: set exactly one of steps and epochs, the other null")
    if model.kind != READS[data.kind]:
        problems.append(f"model.kind: {model.kind} cannot read data.kind {data.kind}, which needs {READS[data.kind]}")
    if model.kind == "gpt" and model.width % model.heads:
        problems.append(f"model.width: {model.width} is not a multiple of model.heads {model.heads}")
    if loop.on_nan == "skip" and config.parallel.kind == "deepspeed":
        problems.append("loop.on_nan: skip is not possible with deepspeed, which has updated the weights by then")
    return problems + _of_observing(config)


def _of_observing(config: TrainConfig) -> list[str]:
    problems = [
        f"metrics.trackers: {name} is none of {', '.join(TRACKERS)}, nor MODULE:CLASS"
        for name in config.metrics.trackers
        if name not in TRACKERS and not re.fullmatch(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*", name)
    ]
    steps, world_size = config.profile.steps, config.world_size
    if steps and steps[0] > steps[1]:
        problems.append(f"profile.steps: the first, {steps[0]}, is after the last, {steps[1]}")
    if steps and (strange := [rank for rank in config.profile.ranks if not 0 <= rank < world_size]):
        problems.append(f"profile.ranks: there is no rank {strange[0]} of {world_size}")
    return problems


def _at(tree: object, path: str) -> object:
    """The value at a dotted path such as optim.betas[0]; None when there is none."""
    for key in path.replace("[", ".").replace("]", "").split("."):
        if isinstance(tree, Mapping):
            tree = tree.get(key)
        elif isinstance(tree, list) and key.isdigit() and int(key) < len(tree):
            tree = tree[int(key)]
        else:
            return None
    return tree
