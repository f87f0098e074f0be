"""JC4604: a setting that is not read, or that is set twice.

Examples: a section without its parallelism, keys of FSDP 1, a mesh that does not match the world size, unused GPUs.
"""

from collections.abc import Iterator, Mapping
from math import prod
from typing import Any

from ...diagnostics.diagnostic import Diagnostic, join_with_or
from ...emit.extra_entries import Path, value_paths
from ...launchers.accelerate.config_files import SHARDED
from ...launchers.accelerate.engine_tables import is_valid_gpu_ids
from ...launchers.accelerate.protected_keys import FSDP_1
from ...plan.launch_plan import LaunchPlan

Tree = Mapping[str, Any]


def check(plan: LaunchPlan, extra: Tree, deepspeed_extra: Tree, section: str) -> Iterator[Diagnostic]:
    parent = (section, "extra")
    if extra and plan.launcher != "accelerate":
        because = f"launcher={plan.launcher} does not read accelerate.yaml, which this key is merged into"
        yield _no_effect_diagnostic((*parent, *next(value_paths(extra))), because, "launcher=accelerate")
    yield from _check_sections(plan, extra, parent)
    yield from _check_mesh(plan, extra.get("parallelism_config"), parent)
    yield from _check_gpu_ids(plan, extra.get("gpu_ids"), parent)
    if deepspeed_extra and plan.parallel != "deepspeed":
        because = f"parallel={plan.parallel} does not use deepspeed.json, which this key is merged into"
        path = (section, "deepspeed_extra", *next(value_paths(deepspeed_extra)))
        yield _no_effect_diagnostic(path, because, "parallel=deepspeed")


def _check_sections(plan: LaunchPlan, extra: Tree, path: Path) -> Iterator[Diagnostic]:
    """Yield JC4604 for a section without its parallelism, keys of FSDP 1, and values that deepspeed.json sets."""
    required_parallel = {"fsdp_config": SHARDED, "deepspeed_config": ("deepspeed",), "parallelism_config": SHARDED}
    for section, parallel in required_parallel.items():
        if section not in extra:
            continue
        if plan.parallel not in parallel:
            because = f"parallel={plan.parallel}, but accelerate reads that section only with {' or '.join(parallel)}"
            yield _no_effect_diagnostic((*path, section), because, f"parallel={parallel[0]}")
        elif plan.uses_trainer and parallel == SHARDED:
            because = "jobc's own trainer shards its model itself"
            yield _no_effect_diagnostic((*path, section), because, f"remove {'.'.join((*path, section))}")
    if "megatron_lm_config" in extra:
        because = "accelerate reads it only with distributed_type MEGATRON_LM, which no `parallel` option selects"
        megatron_path = (*path, "megatron_lm_config")
        yield _no_effect_diagnostic(megatron_path, because, f"remove {'.'.join(megatron_path)}")
    fsdp = extra.get("fsdp_config")
    for name in fsdp if isinstance(fsdp, Mapping) else ():
        if name.removeprefix("fsdp_") in FSDP_1:
            key = ".".join((*path, "fsdp_config", name))
            because = "parallel=fsdp is FSDP version 2, which ignores or rejects this key (accelerate#3394)"
            hint = f"remove {key}; parallel.reshard_after_forward replaces sharding_strategy"
            yield Diagnostic("JC4604", f"{key} is a key of FSDP version 1", because, hint, key=key)
    if plan.parallel == "deepspeed" and extra.get("mixed_precision") is not None and not plan.uses_trainer:
        because = "accelerate rejects this key when deepspeed.json sets it too"
        key = ".".join((*path, "mixed_precision"))
        hint = f"loop.precision=bf16; or {path[0]}.deepspeed_extra.fp16.enabled=true"
        yield Diagnostic("JC4604", f"{key} is set twice", because, hint, key=key)


def _check_gpu_ids(plan: LaunchPlan, ids: Any, path: Path) -> Iterator[Diagnostic]:
    """Yield JC4604 for GPUs in gpu_ids that no process uses. A process uses the GPU at the index of its local rank."""
    key, procs, gpus = ".".join((*path, "gpu_ids")), plan.topology.procs, plan.topology.gpus
    if ids in (None, "all") or not is_valid_gpu_ids(ids):
        return
    named = str(ids).split(",")
    if not gpus:
        yield _no_effect_diagnostic((*path, "gpu_ids"), "gpus=0, so the processes run on CPUs", f"remove {key}")
    elif len(named) != procs:
        title = f"{key} names {len(named)} {'GPU' if len(named) == 1 else 'GPUs'} for {procs} processes on each node"
        because = "each process uses the GPU at the index of its local rank, and the file is the same on every node"
        yield Diagnostic("JC4604", title, because, f"{key}=all, or gpus={len(named)}", key=key)


def _check_mesh(plan: LaunchPlan, sizes: Any, path: Path) -> Iterator[Diagnostic]:
    if plan.parallel != "fsdp" or not isinstance(sizes, Mapping):
        return
    numbers = {name: size for name, size in sizes.items() if name.endswith("_size") and type(size) is int}
    mesh_sizes = {name: size for name, size in numbers.items() if size > 0}
    world, product = plan.topology.world_size, prod(mesh_sizes.values())
    if mesh_sizes and product != world:
        key = ".".join((*path, "parallelism_config", next(iter(mesh_sizes))))
        remaining = product // next(iter(mesh_sizes.values()))
        fitting = [f"{key}={world // remaining}"] if world % remaining == 0 else [f"remove {key}"]
        title = f"the product of the sizes in parallelism_config is {product}, but the world size is {world}"
        because = "each rank has one position in the mesh, and sizes default to 1"
        yield Diagnostic("JC4604", title, because, join_with_or(fitting), key=key)


def _no_effect_diagnostic(path: Path, because: str, hint: str) -> Diagnostic:
    key = ".".join(path)
    return Diagnostic("JC4604", f"{key} has no effect", because, hint, key=key)
