"""Estimate how many checkpoints of a run exist at once, and suggest fewer (trainer/checkpoint/store.py)."""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import replace
from functools import partial

from ...trainer.config.checkpoint import CheckpointConfig


def max_checkpoints(how: CheckpointConfig, steps: int | None) -> int:
    """Return the number of the newest, current, best and permanent checkpoints. steps: training length, if known."""
    most = how.keep + 1 + 1
    if steps is None:
        return most
    if how.keep_every_steps:
        most += steps // math.lcm(how.keep_every_steps, how.every_steps)
    return min(most, -(-steps // how.every_steps))


def fewer_checkpoints_hint(how: CheckpointConfig, steps: int | None, most: int) -> str:
    """Return a hint to keep fewer checkpoints. most: number of checkpoints that fit on the disk"""
    for lasting in dict.fromkeys((how.keep_every_steps, None)):
        changed = replace(how, keep_every_steps=lasting)
        fitting = bisect_right(range(2, how.keep + 1), most, key=partial(_with_keep, changed, steps))
        if fitting:
            words = [f"checkpoint.keep={fitting + 1}"] if fitting + 1 != how.keep else []
            words += ["checkpoint.keep_every_steps=null"] if lasting != how.keep_every_steps else []
            return " ".join(words)
    return "a larger disk at storage.root: the number of checkpoints is already the minimum"


def _with_keep(how: CheckpointConfig, steps: int | None, keep: int) -> int:
    return max_checkpoints(replace(how, keep=keep), steps)
