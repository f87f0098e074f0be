"""JC2074: a number of shards that does not fit the nodes: one copy of the model must fill whole nodes, or several
copies must fill one node exactly.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...diagnostics.diagnostic import Diagnostic
from ...plan.derive import divisors, procs, shards, world_size
from ...spec.job_spec import HsdpSpec, JobSpec


def check(spec: JobSpec) -> Iterator[Diagnostic]:
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
