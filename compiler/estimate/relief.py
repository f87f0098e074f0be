"""What to type so that a rank fits into its GPU: the first change that is enough, tried by the figures themselves.

Where activations are the largest part a smaller micro batch helps, or computing them again; where weights, gradients
and optimizer are, sharing them over the ranks. The samples of a step stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..plan import LaunchPlan
from ..spec import JobSpec
from .memory import memory
from .parameters import size_of

NONE = "more nodes with parallel=fsdp, or a GPU of more memory: nothing that jobc can set is enough"


@dataclass(frozen=True)
class Change:
    """words: of a command line; train: the sections of train.json that they change."""

    words: tuple[str, ...]
    train: Mapping[str, Any]


def relief(spec: JobSpec, plan: LaunchPlan, most: int) -> str:
    """The hint. most: bytes of a GPU"""
    for changes in _tries(spec, plan, most):
        train = dict(plan.train)
        for change in changes:
            for section, values in change.train.items():
                train[section] = {**train[section], **values}
        if _needs(spec, replace(plan, train=train)) <= most:
            return " ".join(word for change in changes for word in change.words)
    return NONE


def _tries(spec: JobSpec, plan: LaunchPlan, most: int) -> Iterator[tuple[Change, ...]]:
    """Alone, then together; first what takes from the largest part."""
    smaller, again, shared = _smaller_batches(spec, plan), _computed_again(plan), _shared(plan)
    size = size_of(spec, plan)
    assert size
    now = memory(plan.train, size, plan.topology.world_size)
    ways = [smaller, again, shared] if (now.activations or 0) > now.states else [shared, smaller, again]
    for way in ways:
        yield from ((change,) for change in way)
    last = [way[-1] for way in ways if way]
    yield from (tuple(last[:count]) for count in range(2, len(last) + 1))


def _needs(spec: JobSpec, plan: LaunchPlan) -> int:
    size = size_of(spec, plan)
    assert size
    return memory(plan.train, size, plan.topology.world_size).total


def _smaller_batches(spec: JobSpec, plan: LaunchPlan) -> list[Change]:
    """Every whole part of the micro batch, the largest first; a program of the user's has its own."""
    batch, given = plan.train["batch"], spec.batch
    changes = []
    for parts in range(2, batch["micro"] + 1 if plan.uses_trainer else 0):
        if batch["micro"] % parts:
            continue
        new = {"micro": batch["micro"] // parts, "accumulation": batch["accumulation"] * parts}
        computed = given.accumulation is None and given.global_ is not None
        words = [f"batch.{key}={value}" for key, value in new.items() if key == "micro" or not computed]
        changes.append(Change(tuple(words), {"batch": new}))
    return changes


def _computed_again(plan: LaunchPlan) -> list[Change]:
    has_blocks = plan.uses_trainer and plan.train["model"].get("kind") == "gpt"
    if not has_blocks or plan.train["loop"]["activation_checkpointing"] == 1:
        return []
    return [Change(("loop.activation_checkpointing=1",), {"loop": {"activation_checkpointing": 1}})]


def _shared(plan: LaunchPlan) -> list[Change]:
    """JC2073 and JC2076 say what of loop.compile goes with each."""
    kind = plan.train["parallel"]["kind"]
    if plan.topology.world_size == 1 or kind == "fsdp":
        return []
    if kind == "deepspeed":
        return [Change(("parallel.zero_stage=3",), {"parallel": {"zero_stage": 3}})]
    compiles = plan.uses_trainer and plan.train["loop"]["compile"] == "model"
    words = ("parallel=fsdp", *(("loop.compile=blocks",) if compiles else ()))
    return [Change(words, {"parallel": {"kind": "fsdp", "offload_params": False}})]
