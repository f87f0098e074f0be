"""Suggest a change that makes a rank fit on its GPU: estimate the memory after each possible change, and return the
first one that fits.

A smaller micro-batch or recomputation helps if activations are the largest part. Sharding over the ranks helps if
weights, gradients and optimizer state are. No suggestion changes the number of samples per step.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from ..plan.derive import divisors
from ..plan.launch_plan import LaunchPlan
from ..spec.job_spec import JobSpec
from .memory import Memory, estimate_rank_memory
from .parameters import job_model_size

MORE_NODES = "more nodes with {}, or a GPU with more memory: the model does not fit even if sharded over these GPUs"
LARGER_GPU = "a GPU with more memory, or CPU offload: more GPUs do not help, because each holds one part in full"
NOT_ALL = "; set estimate.largest_unit=N, the largest layer's size in parameters, to check that this layer fits too"
MANY_RANKS = 2**20
# The settings in conf/parallel/fsdp.yaml that control how parameters are gathered, for jobs with another parallelism.
FSDP: Mapping[str, Any] = {
    "reshard_after_forward": True, "auto_wrap_policy": "TRANSFORMER_BASED_WRAP", "transformer_layer_cls_to_wrap": [],
}  # fmt: skip


class SuggestedChange(NamedTuple):
    words: tuple[str, ...]  # command-line arguments that make the change
    train: Mapping[str, Any]  # sections of train.json that it changes


def hint_to_fit_on_gpu(spec: JobSpec, plan: LaunchPlan, gpu_bytes: int) -> str:
    """Return the hint. gpu_bytes: a GPU's memory in bytes"""
    for changes in _candidate_changes(spec, plan):
        needs = _estimate_memory(spec, plan, changes)
        if needs.total <= gpu_bytes:
            words = " ".join(word for change in changes for word in change.words)
            return words if needs.gathered is not None else f"{words}{NOT_ALL}"
    widest = _widest_sharding_change(plan)
    if _estimate_memory(spec, plan, [widest], MANY_RANKS).total <= gpu_bytes:
        return MORE_NODES.format(" ".join(widest.words))
    return LARGER_GPU


def _candidate_changes(spec: JobSpec, plan: LaunchPlan) -> Iterator[tuple[SuggestedChange, ...]]:
    """Yield single changes, then combinations. Changes that reduce the largest part come first."""
    smaller, again, shared = (
        _smaller_batch_changes(spec, plan),
        _activation_checkpointing_changes(plan),
        _full_sharding_changes(plan),
    )
    now = _estimate_memory(spec, plan)
    ways = [smaller, again, shared] if (now.activations or 0) > now.states else [shared, smaller, again]
    for way in ways:
        yield from ((change,) for change in way)
    last = [way[-1] for way in ways if way]
    yield from (tuple(last[:count]) for count in range(2, len(last) + 1))


def _estimate_memory(
    spec: JobSpec, plan: LaunchPlan, changes: Sequence[SuggestedChange] = (), ranks: int | None = None
) -> Memory:
    train = dict(plan.train)
    for change in changes:
        for section, values in change.train.items():
            train[section] = {**train[section], **values}
    size = job_model_size(spec, replace(plan, train=train))
    assert size
    return estimate_rank_memory(train, size, ranks or plan.topology.world_size, plan.uses_trainer)


def _smaller_batch_changes(spec: JobSpec, plan: LaunchPlan) -> list[SuggestedChange]:
    """Return a change for each divisor of the micro-batch, largest first. There is none for a user's own program."""
    batch, batch_spec = plan.train["batch"], spec.batch
    changes = []
    for parts in divisors(batch["micro"])[1:] if plan.uses_trainer else ():
        new = {"micro": batch["micro"] // parts, "accumulation": batch["accumulation"] * parts}
        computed = batch_spec.accumulation is None and batch_spec.global_ is not None
        words = [f"batch.{key}={value}" for key, value in new.items() if key == "micro" or not computed]
        changes.append(SuggestedChange(tuple(words), {"batch": new}))
    return changes


def _activation_checkpointing_changes(plan: LaunchPlan) -> list[SuggestedChange]:
    has_blocks = plan.uses_trainer and plan.train["model"].get("kind") == "gpt"
    if not has_blocks or plan.train["loop"]["activation_checkpointing"] == 1:
        return []
    return [SuggestedChange(("loop.activation_checkpointing=1",), {"loop": {"activation_checkpointing": 1}})]


def _full_sharding_changes(plan: LaunchPlan) -> list[SuggestedChange]:
    """Return the change that shards over all ranks. JC2073 and JC2076 check whether loop.compile works with it."""
    if plan.topology.world_size == 1 or plan.train["parallel"]["kind"] == "fsdp":
        return []
    return [_widest_sharding_change(plan)]


def _widest_sharding_change(plan: LaunchPlan) -> SuggestedChange:
    if plan.train["parallel"]["kind"] == "deepspeed":
        return SuggestedChange(("parallel.zero_stage=3",), {"parallel": {"zero_stage": 3}})
    compiles = plan.uses_trainer and plan.train["loop"]["compile"] == "model"
    words = ("parallel=fsdp", *(("loop.compile=blocks",) if compiles else ()))
    fsdp_options = {key: value for key, value in plan.train["parallel"].items() if key in FSDP}
    return SuggestedChange(words, {"parallel": {**FSDP, **fsdp_options, "kind": "fsdp", "offload_params": False}})
