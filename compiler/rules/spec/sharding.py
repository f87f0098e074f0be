"""FSDP and hybrid sharding: JC2074 to JC2076, JC2078."""

from collections.abc import Iterator

from ....trainer.config.schema import FsdpConfig
from ...diagnostics.diagnostic import Diagnostic
from ...plan.derive import divisors, procs, shards, world_size
from ...spec.job_spec import HsdpSpec, JobSpec


def check_uneven_shards(spec: JobSpec) -> Iterator[Diagnostic]:
    """JC2074: a number of shards that does not fit the nodes: a copy of the model must fill whole nodes, or several
    copies must exactly fill a node.
    """
    if not isinstance(spec.parallel, HsdpSpec):
        return
    shard_count, of_a_node, world = shards(spec), procs(spec), world_size(spec)
    if world % shard_count == 0 and (of_a_node % shard_count == 0 or shard_count % of_a_node == 0):
        return
    sizes = [size for size in divisors(world) if not (of_a_node % size and size % of_a_node)]
    title = f"parallel.shards={shard_count} with {spec.nodes} nodes of {of_a_node} ranks"
    because = "the mesh is (ranks / shards) x shards, and each copy of the model must fill whole nodes"
    hint = f"parallel.shards={of_a_node}, the number of ranks per node; or {', '.join(map(str, sizes))}"
    yield Diagnostic("JC2074", title, because, hint, key="parallel.shards")


def check_sharded_checkpoints_of_trainer(spec: JobSpec) -> Iterator[Diagnostic]:
    """JC2075: sharded checkpoints, which the trainer does not write."""
    sharded = isinstance(spec.parallel, (FsdpConfig, HsdpSpec)) and spec.parallel.state_dict_type != "FULL_STATE_DICT"
    if sharded and spec.command is None:
        because = "the trainer saves full checkpoints, so that a run can resume with another world size or parallelism"
        hint = "parallel.state_dict_type=FULL_STATE_DICT"
        title = "jobc's own trainer does not write sharded checkpoints"
        yield Diagnostic("JC2075", title, because, hint, key="parallel.state_dict_type")


def check_compile_of_sharded_model(spec: JobSpec) -> Iterator[Diagnostic]:
    """JC2076: torch.compile of a whole sharded model."""
    if spec.parallel.kind in ("fsdp", "hsdp") and spec.loop.compile == "model" and spec.command is None:
        because = (
            f"{spec.parallel.kind} gathers weights before each block, which causes a graph break in a compiled model"
        )
        title, hint = f"loop.compile=model with parallel={spec.parallel.kind}", "loop.compile=blocks"
        yield Diagnostic("JC2076", title, because, hint, key="loop.compile")


def check_partial_checkpointing(spec: JobSpec) -> Iterator[Diagnostic]:
    """JC2078: activation checkpointing of every k-th block through accelerate, which only supports all blocks or none.

    Source: accelerate 1.14, utils/dataclasses.py: `activation_checkpointing` is yes or no.
    """
    k = spec.loop.activation_checkpointing
    if k > 1 and spec.command is not None and spec.parallel.kind in ("fsdp", "hsdp") and spec.launcher == "accelerate":
        title = f"loop.activation_checkpointing={k} for a program that uses accelerate"
        because = "accelerate's fsdp_activation_checkpointing applies to all blocks or to none"
        hint = "loop.activation_checkpointing=1, or 0"
        yield Diagnostic("JC2078", title, because, hint, key="loop.activation_checkpointing")
