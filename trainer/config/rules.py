"""Validate the values in train.json: limits on single values, and contradictions between values.

Standard library only. Both functions return problems as `path: what is wrong`; an empty list means valid.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from . import parse as strict
from . import target
from .schema import SCHEDULE_KEYS, ScheduleConfig, TrainConfig
from .target import Target


class NumberLimit(NamedTuple):
    words: str
    holds: Callable[[float], bool]


_PATHS: Mapping[NumberLimit, str] = {
    NumberLimit("at least 0", lambda number: number >= 0): """
        loader.workers optim.weight_decay optim.warmup_steps loop.activation_checkpointing metrics.flush_s
    """,
    NumberLimit("at least 1", lambda number: number >= 1): """
        world_size threads_per_rank model.layers model.heads model.width model.context model.hidden
        data.max_bytes data.vocabulary data.samples data.val_samples loader.prefetch
        batch.micro batch.accumulation batch.global loop.steps loop.epochs loop.max_skips loop.max_fruitless
        validation.every_steps validation.max_samples
        checkpoint.every_steps checkpoint.every_epochs checkpoint.keep_every_steps checkpoint.max_failures
        metrics.every_steps metrics.max_mib profile.steps[0] profile.steps[1]
        parallel.bucket_cap_mb parallel.shards parallel.min_num_params parallel.reduce_bucket_size
        process_group.init_timeout_s process_group.step_timeout_s
    """,
    NumberLimit("at least 2, because the newest checkpoint may be damaged", lambda number: number >= 2): """
        checkpoint.keep
    """,
    NumberLimit("above 0", lambda number: number > 0): "optim.lr optim.eps optim.clip_norm",
    NumberLimit("at least 0 and below 1", lambda number: 0 <= number < 1): """
        model.dropout optim.betas[0] optim.betas[1]
    """,
    NumberLimit("above 0 and below 1", lambda number: 0 < number < 1): "data.val_fraction",
    NumberLimit("from 0 to 1", lambda number: 0 <= number <= 1): "optim.min_lr_ratio",
    NumberLimit("from 0 to 2^63 - 1", lambda number: 0 <= number < 2**63): "seed",
    NumberLimit("1, the only version this trainer reads", lambda number: number == 1): "schema",
}
LIMITS = {path: limit for limit, paths in _PATHS.items() for path in paths.split()}

TRACKERS = ("tensorboard", "mlflow", "wandb")
# data kind -> the model kind that reads it
READS = {"stdlib_bytes": "gpt", "random_tokens": "gpt", "digits": "mlp"}


def find_broken_limits(tree: object) -> list[str]:
    """Return the numbers in the JSON tree that are outside their limits. parse.py checks other values."""
    problems = []
    for path, limit in LIMITS.items():
        if path.startswith(("model.", "data.")) and target.is_target(_value_at_path(tree, path.partition(".")[0])):
            continue  # an argument of the user's function, which may have any name
        value = _value_at_path(tree, path)
        if strict.is_number(value) and not limit.holds(value):
            problems.append(f"{path}: must be {limit.words}, found {value}")
    return problems


def find_contradictions(config: TrainConfig) -> list[str]:
    """Return values that are valid individually but contradict each other."""
    problems = []
    batch, model, loop = config.batch, config.model, config.loop
    product = batch.micro * batch.accumulation * config.world_size
    if batch.global_ != product:
        problems.append(
            f"batch.global: {batch.global_} is not micro {batch.micro} x accumulation {batch.accumulation}"
            f" x world_size {config.world_size} = {product}"
        )
    if (loop.steps is None) == (loop.epochs is None):
        problems.append("loop: set exactly one of steps and epochs, and leave the other null")
    saves = config.checkpoint
    if (saves.every_steps is None) == (saves.every_epochs is None):
        problems.append("checkpoint: set exactly one of every_steps and every_epochs, and leave the other null")
    if saves.keep_every_steps is not None and saves.every_epochs is not None:
        problems.append("checkpoint.keep_every_steps: needs checkpoint.every_steps, not every_epochs")
    elif saves.keep_every_steps is not None and saves.every_steps and saves.keep_every_steps % saves.every_steps:
        problems.append(
            f"checkpoint.keep_every_steps: {saves.keep_every_steps} is not a multiple of"
            f" checkpoint.every_steps {saves.every_steps}"
        )
    problems += list(_find_mismatches(config)) + list(_check_targets(config))
    if not isinstance(model, Target) and model.kind == "gpt" and model.width % model.heads:
        problems.append(f"model.width: {model.width} is not a multiple of model.heads {model.heads}")
    return problems + _check_parallel(config) + _check_observing(config)


def _check_observing(config: TrainConfig) -> list[str]:
    problems = [
        f"metrics.trackers: {name} must be one of {', '.join(TRACKERS)}, or MODULE:CLASS"
        for name in config.metrics.trackers
        if name not in TRACKERS and not re.fullmatch(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*", name)
    ]
    steps, world_size = config.profile.steps, config.world_size
    if steps and steps[0] > steps[1]:
        problems.append(f"profile.steps: the first step, {steps[0]}, is after the last, {steps[1]}")
    if steps and (strange := [rank for rank in config.profile.ranks if not 0 <= rank < world_size]):
        problems.append(f"profile.ranks: rank {strange[0]} does not exist; world size is {world_size}")
    return problems


def _check_parallel(config: TrainConfig) -> list[str]:
    problems = []
    parallel, loop = config.parallel, config.loop
    if parallel.kind == "hsdp" and config.world_size % parallel.shards:
        problems.append(f"parallel.shards: {parallel.shards} does not divide world_size {config.world_size}")
    if parallel.kind in ("fsdp", "hsdp") and loop.compile == "model":
        problems.append(f"loop.compile: {parallel.kind} gathers weights before each block; use loop.compile=blocks")
    if parallel.kind == "deepspeed":
        if loop.compile != "none":
            problems.append("loop.compile: must be none with deepspeed")
        if loop.precision == "fp16":
            problems.append("loop.precision: must be fp32 or bf16 with deepspeed")
        if loop.on_nan == "skip":
            problems.append("loop.on_nan: skip is not possible with deepspeed, which has already updated the weights")
    return problems


def _find_mismatches(config: TrainConfig) -> Iterator[str]:
    """Yield mismatches between model and data. Skipped with a recipe, which may combine them differently."""
    model, data = config.model, config.data
    if config.recipe is not None or (isinstance(model, Target) and isinstance(data, Target)):
        return
    if isinstance(data, Target):
        kind = getattr(model, "kind", "")
        yield f"model: {kind} only works with the built-in data; with your own data, set model._target_"
    elif isinstance(model, Target):
        context = model.get("context")
        if READS[data.kind] == "gpt" and not (type(context) is int and context >= 1):
            yield f"model.context: missing; it sets the sample length of data.kind {data.kind}"
    elif model.kind != READS[data.kind]:
        yield f"model.kind: {model.kind} cannot read data.kind {data.kind}, which needs {READS[data.kind]}"


def _check_targets(config: TrainConfig) -> Iterator[str]:
    """Check the trainer's own keys next to a `_target_`."""
    if config.recipe is not None and not target.DOTTED.fullmatch(config.recipe):
        yield f"recipe: expected a dotted name such as my_pkg.MyRecipe, found {config.recipe!r}"
    if isinstance(config.data, Target):
        val, collate = config.data.get("val"), config.data.get("collate")
        is_share = strict.is_number(val) and 0 < val < 1
        if val is not None and not is_share and not target.is_target(val):
            yield f"data.val: expected {{_target_: ...}}, a share above 0 and below 1, or null, found {val!r:.60}"
        if collate is not None and not (isinstance(collate, str) and target.DOTTED.fullmatch(collate)):
            yield f"data.collate: expected the dotted name of a function, found {collate!r:.60}"
    if isinstance(config.optim, Target):
        schedule = {key: config.optim[key] for key in SCHEDULE_KEYS if key in config.optim}
        yield from (f"optim.{problem}" for problem in strict.parse_dataclass(schedule, ScheduleConfig)[1])
        if config.parallel.kind == "deepspeed":
            yield "optim: deepspeed can only save AdamW's state; use optim=adamw or parallel=ddp"


def _value_at_path(tree: object, path: str) -> object:
    """Return the value at a dotted path such as optim.betas[0], or None."""
    for key in path.replace("[", ".").replace("]", "").split("."):
        if isinstance(tree, Mapping):
            tree = tree.get(key)
        elif isinstance(tree, list) and key.isdigit() and int(key) < len(tree):
            tree = tree[int(key)]
        else:
            return None
    return tree
