"""Estimate how many checkpoints of a run exist at the same time, and suggest how to keep fewer
(trainer/checkpoint/store.py).
"""

import math
from bisect import bisect_right
from dataclasses import replace
from functools import partial

from ...trainer.config.checkpoint import CheckpointConfig
from .training_length import TrainingLength


def max_checkpoints(how: CheckpointConfig, length: TrainingLength) -> int:
    """Return how many checkpoints may exist at once: the newest, the one being written, the best, permanent ones."""
    most, every = how.keep + 1 + 1, how.interval(length.steps_of_epoch)
    if length.steps is None or not every:
        return most
    if how.keep_every_steps:
        most += length.steps // math.lcm(how.keep_every_steps, every)
    return min(most, -(-length.steps // every))


def fewer_checkpoints_hint(how: CheckpointConfig, length: TrainingLength, most: int) -> str:
    """Return a hint on how to keep fewer checkpoints. most: number of checkpoints that fit on the disk"""
    for lasting in dict.fromkeys((how.keep_every_steps, None)):
        changed = replace(how, keep_every_steps=lasting)
        fitting = bisect_right(range(2, how.keep + 1), most, key=partial(_checkpoints_with_keep, changed, length))
        if fitting:
            words = [f"checkpoint.keep={fitting + 1}"] if fitting + 1 != how.keep else []
            words += ["checkpoint.keep_every_steps=null"] if lasting != how.keep_every_steps else []
            return " ".join(words)
    return "a larger disk at storage.root, because the job already keeps as few checkpoints as possible"


def _checkpoints_with_keep(how: CheckpointConfig, length: TrainingLength, keep: int) -> int:
    return max_checkpoints(replace(how, keep=keep), length)
