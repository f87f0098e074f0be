"""How a number of samples becomes steps: batch, epochs, tokens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..spec import EstimateSpec
from .parameters import ModelSize

NUM_IMAGES = 1797  # trainer/data/digits.py


@dataclass(frozen=True)
class Schedule:
    """Counts; None where the number of samples is not known.

    steps_ceil, steps_floor, steps_quotient: of an epoch; steps_of_epoch: the one that loop.drop_last means
    empty_slots: of the last step of an epoch, of weight 0
    steps, samples, tokens: of the whole training
    """

    world_size: int
    micro: int
    accumulation: int
    global_batch: int
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


def schedule(train: Mapping[str, Any], world_size: int, given: EstimateSpec, size: ModelSize | None) -> Schedule:
    """train: train.json"""
    batch, loop = train["batch"], train["loop"]
    of_batch = batch["global"]
    found = given.samples if given.samples is not None else _known_samples(train["data"])
    ceil = floor = quotient = in_epoch = empty = None
    steps, epochs = loop["steps"], loop["epochs"]
    samples = steps * of_batch if steps is not None else None
    if found is not None:
        ceil, floor, quotient = -(-found // of_batch), found // of_batch, found / of_batch
        in_epoch = floor if loop["drop_last"] else ceil
        empty = 0 if loop["drop_last"] else ceil * of_batch - found
        counted = floor * of_batch if loop["drop_last"] else found
        if steps is None:
            steps, samples = epochs * in_epoch, epochs * counted
        elif in_epoch:
            whole, rest = divmod(steps, in_epoch)
            samples = whole * counted + min(rest * of_batch, counted)
            epochs = steps / in_epoch
    per_sample = given.tokens_per_sample or (size.tokens_per_sample if size else 1)
    return Schedule(
        world_size=world_size,
        micro=batch["micro"],
        accumulation=batch["accumulation"],
        global_batch=of_batch,
        epoch_samples=found,
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


def _known_samples(data: Mapping[str, Any]) -> int | None:
    """Training samples of data whose size the file says; that of stdlib_bytes depends on the Python of the nodes."""
    if data.get("kind") == "digits":
        held_out = round(NUM_IMAGES * float(data["val_fraction"]))
        return NUM_IMAGES - min(max(held_out, 1), NUM_IMAGES - 1)
    return data["samples"] if data.get("kind") == "random_tokens" else None
