"""Convert a number of samples into steps, epochs and tokens, and compute how many checkpoints a run keeps
(trainer/checkpoint/store.py).
"""

import math
from bisect import bisect_right
from collections.abc import Mapping, Set
from dataclasses import replace
from functools import partial
from typing import Any

from ...runtime.system.frozen_dataclass import dataclass
from ...trainer.config.checkpoint import CheckpointConfig
from ..spec.job_spec import EstimateSpec
from .parameters import ModelSize

NUM_IMAGES = 1797  # in trainer/data/digits.py
BATCH = frozenset(("batch.micro", "batch.accumulation", "batch.global"))
LENGTH = frozenset(("loop.steps", "loop.epochs"))
SAVES = frozenset(("checkpoint.every_steps", "checkpoint.every_epochs"))


@dataclass(frozen=True)
class TrainingLength:
    """Counts. None means unknown, because the number of samples is missing or the program is the user's own.

    steps_ceil, steps_floor, steps_quotient: steps per epoch, rounded up, rounded down and exact.
    steps_of_epoch: steps_ceil or steps_floor, depending on loop.drop_last.
    empty_slots: samples with weight 0 in the last step of an epoch.
    steps, samples, tokens: for the whole training run.
    """

    world_size: int
    micro: int | None
    accumulation: int | None
    global_batch: int | None
    epoch_samples: int | None
    steps_ceil: int | None
    steps_floor: int | None
    steps_quotient: float | None
    steps_of_epoch: int | None
    empty_slots: int | None
    epochs: float | None
    steps: int | None
    samples: int | None
    tokens: int | None


def training_length(
    train: Mapping[str, Any],
    world_size: int,
    given: EstimateSpec,
    size: ModelSize | None,
    unsaid: Set[str] = frozenset(),
) -> TrainingLength:
    """Return the counts.

    train: train.json.
    unsaid: spec keys whose values in train.json do not apply.
    """
    loop = train["loop"]
    batch = {} if unsaid >= BATCH else train["batch"]
    of_batch = batch.get("global")
    epoch_samples = given.samples
    if epoch_samples is None and "data.kind" not in unsaid:
        epoch_samples = _known_sample_count(train["data"])
    ceil = floor = quotient = in_epoch = empty = samples = None
    steps, epochs = (None, None) if unsaid >= LENGTH else (loop["steps"], loop["epochs"])
    if steps is not None and of_batch is not None:
        samples = steps * of_batch
    if epoch_samples is not None and of_batch is not None:
        ceil, floor, quotient = -(-epoch_samples // of_batch), epoch_samples // of_batch, epoch_samples / of_batch
        in_epoch = floor if loop["drop_last"] else ceil
        empty = 0 if loop["drop_last"] else ceil * of_batch - epoch_samples
        counted = floor * of_batch if loop["drop_last"] else epoch_samples
        if epochs is not None:
            steps, samples = epochs * in_epoch, epochs * counted
        elif steps is not None and in_epoch:
            full_epochs, remaining_steps = divmod(steps, in_epoch)
            samples = full_epochs * counted + min(remaining_steps * of_batch, counted)
            epochs = steps / in_epoch
    per_sample = given.tokens_per_sample or (size.tokens_per_sample if size else 1)
    return TrainingLength(
        world_size=world_size,
        micro=batch.get("micro"),
        accumulation=batch.get("accumulation"),
        global_batch=of_batch,
        epoch_samples=epoch_samples,
        steps_ceil=ceil,
        steps_floor=floor,
        steps_quotient=quotient,
        steps_of_epoch=in_epoch,
        empty_slots=empty,
        epochs=epochs,
        steps=steps,
        samples=samples,
        tokens=samples * per_sample if samples is not None and per_sample > 1 else None,
    )


def _known_sample_count(data: Mapping[str, Any]) -> int | None:
    """Return the number of training samples, or None if the config does not determine it, as for stdlib_bytes."""
    if data.get("kind") == "digits":
        held_out = round(NUM_IMAGES * float(data["val_fraction"]))
        return NUM_IMAGES - min(max(held_out, 1), NUM_IMAGES - 1)
    return data["samples"] if data.get("kind") == "random_tokens" else None


def max_checkpoint_count(how: CheckpointConfig, length: TrainingLength) -> int:
    """Return how many checkpoints may exist at once: the newest, the one being written, the best, permanent ones."""
    most, every = how.keep + 1 + 1, how.steps_between_saves(length.steps_of_epoch)
    if length.steps is None or not every:
        return most
    if how.keep_every_steps:
        most += length.steps // math.lcm(how.keep_every_steps, every)
    return min(most, -(-length.steps // every))


def fewer_checkpoints_hint(how: CheckpointConfig, length: TrainingLength, max_count: int) -> str:
    """Return a hint on how to keep fewer checkpoints. max_count: number of checkpoints that fit on the disk"""
    for lasting in dict.fromkeys((how.keep_every_steps, None)):
        changed = replace(how, keep_every_steps=lasting)
        fitting = bisect_right(
            range(2, how.keep + 1), max_count, key=partial(_checkpoint_count_with_keep, changed, length)
        )
        if fitting:
            words = [f"checkpoint.keep={fitting + 1}"] if fitting + 1 != how.keep else []
            words += ["checkpoint.keep_every_steps=null"] if lasting != how.keep_every_steps else []
            return " ".join(words)
    return "a larger disk at storage.root, because the job already keeps as few checkpoints as possible"


def _checkpoint_count_with_keep(how: CheckpointConfig, length: TrainingLength, keep: int) -> int:
    return max_checkpoint_count(replace(how, keep=keep), length)
