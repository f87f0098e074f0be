"""What accelerate and DeepSpeed take without a word though it is wrong: JC4600, JC4602 to JC4604, JC2060 of gpu_ids.

In   the plan, and the trees that the user merges into accelerate.yaml (extra) and deepspeed.json (deepspeed_extra):
     `accelerate.extra` of any job, and `backend.extra` of backend accelerate
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from math import prod
from typing import Any

from ..trainer.deepspeed_json import SAID_BY
from .accelerate import SHARDED
from .accelerate_known import ACCELERATE, are_gpus
from .deepspeed_known import DEEPSPEED, REMOVED
from .diagnostics import Diagnostic, alternatives, nearest
from .extra import Path, leaves, refuse_extra
from .known_values import Known, Value
from .plan import LaunchPlan
from .site import most, place
from .spec import JobSpec

Tree = Mapping[str, Any]
Protected = Mapping[Path, str]

OF_THE_PLAN: Protected = {
    ("compute_environment",): "backend",
    ("distributed_type",): "parallel, nodes and procs",
    ("num_processes",): "nodes and procs",
    ("num_machines",): "nodes",
    ("machine_rank",): "hosts",
    ("main_process_ip",): "hosts",
    ("main_process_port",): "rendezvous.port",
    ("rdzv_backend",): "nodes",
    ("same_network",): "hosts",
    ("use_cpu",): "gpus",
    ("mpirun_config",): "launcher",
    ("fsdp_config", "fsdp_version"): "parallel",
    **{
        ("fsdp_config", f"fsdp_{name}"): f"parallel.{name}"
        for name in (
            "reshard_after_forward", "auto_wrap_policy", "transformer_layer_cls_to_wrap", "min_num_params",
            "offload_params", "state_dict_type", "cpu_ram_efficient_loading",
        )
    },
    ("fsdp_config", "fsdp_activation_checkpointing"): "loop.activation_checkpointing",
    ("deepspeed_config", "deepspeed_config_file"): "parallel",
    ("deepspeed_config", "deepspeed_multinode_launcher"): "launcher",
    ("deepspeed_config", "deepspeed_hostfile"): "hosts",
    ("deepspeed_config", "deepspeed_inclusion_filter"): "hosts",
    ("deepspeed_config", "deepspeed_exclusion_filter"): "queue.exclude",
    ("deepspeed_config", "gradient_accumulation_steps"): "batch.accumulation",
    ("deepspeed_config", "gradient_clipping"): "optim.clip_norm",
    **{
        ("deepspeed_config", name): f"parallel.{name}"
        for name in ("zero_stage", "offload_optimizer_device", "offload_param_device")
    },
    ("deepspeed_config", "offload_optimizer_nvme_path"): "parallel.nvme_path",
    ("deepspeed_config", "offload_param_nvme_path"): "parallel.nvme_path",
    ("deepspeed_config", "zero3_save_16bit_model"): (
        "backend.deepspeed_extra.zero_optimization.stage3_gather_16bit_weights_on_model_save"
    ),
}  # fmt: skip
OF_DEEPSPEED: Protected = {
    ("train_batch_size",): "batch.global",
    ("train_micro_batch_size_per_gpu",): "batch.micro",
    ("gradient_accumulation_steps",): "batch.accumulation",
    ("managed_gradient_accumulation",): "batch.accumulation",
    ("elasticity",): "batch",
    ("gradient_clipping",): "optim.clip_norm",
    ("zero_force_ds_cpu_optimizer",): "parallel.zero_force_ds_cpu_optimizer",
    ("zero_optimization", "stage"): "parallel.zero_stage",
    ("zero_optimization", "overlap_comm"): "parallel.overlap_comm",
    ("zero_optimization", "contiguous_gradients"): "parallel.contiguous_gradients",
    ("zero_optimization", "reduce_bucket_size"): "parallel.reduce_bucket_size",
    ("zero_optimization", "offload_optimizer", "device"): "parallel.offload_optimizer_device",
    ("zero_optimization", "offload_optimizer", "nvme_path"): "parallel.nvme_path",
    ("zero_optimization", "offload_param", "device"): "parallel.offload_param_device",
    ("zero_optimization", "offload_param", "nvme_path"): "parallel.nvme_path",
}
# What the bundled trainer takes from train.json, and would refuse to see said otherwise.
OF_THE_TRAINER: Protected = {("mixed_precision",): "loop.precision", ("dynamo_config",): "loop.compile"}
OF_ITS_DEEPSPEED: Protected = {(name,): key for name, key in SAID_BY.items()}
OF_HSDP: Protected = {
    ("parallelism_config", "parallelism_config_dp_replicate_size"): "nodes, procs and parallel.shards",
    ("parallelism_config", "parallelism_config_dp_shard_size"): "parallel.shards",
}
FSDP_1 = ("sharding_strategy", "backward_prefetch", "forward_prefetch", "sync_module_states", "use_orig_params")


def check(plan: LaunchPlan, extra: Tree, deepspeed_extra: Tree, section: str) -> Iterator[Diagnostic]:
    """Every finding in both trees. section: of the keys, `accelerate` or `backend`"""
    at = (section, "extra")
    if extra and plan.launcher != "accelerate":
        because = f"launcher={plan.launcher} reads no accelerate.yaml to merge it into"
        yield _without_effect((*at, *next(leaves(extra))), because, "launcher=accelerate")
    ours = {
        **OF_THE_PLAN,
        **(OF_THE_TRAINER if plan.uses_trainer else {}),
        **(OF_HSDP if plan.parallel == "hsdp" else {}),
    }
    yield from refuse_extra(extra, ours, at)
    yield from _wrong(extra, ACCELERATE, ours, at)
    yield from _misplaced(plan, extra, at)
    at = (section, "deepspeed_extra")
    ours = {**OF_DEEPSPEED, **(OF_ITS_DEEPSPEED if plan.uses_trainer else {})}
    yield from refuse_extra(deepspeed_extra, ours, at)
    yield from _wrong(deepspeed_extra, DEEPSPEED, ours, at)
    if deepspeed_extra and plan.parallel != "deepspeed":
        because = f"parallel={plan.parallel} makes no deepspeed.json to merge it into"
        yield _without_effect((*at, *next(leaves(deepspeed_extra))), because, "parallel=deepspeed")


def gpu_ids_there(spec: JobSpec, extra: Tree, section: str) -> Iterator[Diagnostic]:
    """JC2060: numbers in gpu_ids, which count from 0, beyond what the site has. extra, section: as of check()"""
    limit, ids = most(spec, "gpus"), extra.get("gpu_ids")
    beyond = [name for name in str(ids).split(",") if re.fullmatch(r"\d+", name) and limit and int(name) >= limit]
    if beyond:
        key = f"{section}.extra.gpu_ids"
        because = f"{place(spec)} has {limit} GPUs on each node, and they are counted from 0"
        yield Diagnostic("JC2060", f"{key} names GPU {', '.join(beyond)}", because, f"{key}=all", key=key)


def _without_effect(path: Path, because: str, hint: str) -> Diagnostic:
    key = ".".join(path)
    return Diagnostic("JC4604", f"{key} has no effect", because, hint, key=key)


def _wrong(tree: Tree, known: Known, ours: Protected, at: Path) -> Iterator[Diagnostic]:
    """JC4602 an unknown key, JC4603 a value of the wrong type or out of range; what the plan says is passed over."""
    for name, value in tree.items():
        path = (*at, name)
        key, inside = ".".join(path), path[2:]
        rule = known.get(name)
        if any(inside == own for own in ours):
            continue
        if rule is None:
            below = any(own[: len(inside)] == inside for own in ours)
            if below and isinstance(value, Mapping):
                yield from _wrong(value, {}, ours, path)
            elif not (name.startswith("fsdp_") and name.removeprefix("fsdp_") in FSDP_1):
                yield _unknown(name, known, ours, path)
        elif value is None:
            continue  # takes away what is there
        elif isinstance(rule, Value):
            if not rule.holds(value):
                hint = f"{key}={rule.example}"
                yield Diagnostic("JC4603", f"{key}: {_shown(value)} is not {rule.words}", _SILENT, hint, key=key)
        elif isinstance(value, Mapping):
            yield from _wrong(value, rule(value) if callable(rule) else rule, ours, path)
        else:
            first = next(iter(rule({}) if callable(rule) else rule), "NAME")
            title, hint = f"{key} is a mapping, and {_shown(value)} is none", f"leave out {key}, or {key}.{first}=…"
            yield Diagnostic("JC4603", title, _SILENT, hint, key=key)


_SILENT = "accelerate and DeepSpeed do not check it when they read the file; the ranks would fail, or do something else"


def _shown(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else repr(value) if isinstance(value, str) else str(value)


def _unknown(name: str, known: Known, ours: Protected, path: Path) -> Diagnostic:
    key, above = ".".join(path), path[2:-1]
    if path[1] == "deepspeed_extra" and not above and name in REMOVED:
        because = "DeepSpeed 0.19 has it no more, and every rank would end with that"
        return Diagnostic("JC4602", f"{key} is gone", because, f"leave it out; {REMOVED[name]}", key=key)
    there = [*known, *(own[len(above)] for own in ours if own[: len(above)] == above and len(own) > len(above))]
    close = nearest(name, there)
    hint = f"did you mean {close[0]}?" if close else f"leave it out; known here: {', '.join(sorted(set(there)))}"
    whose = "DeepSpeed 0.19" if path[1] == "deepspeed_extra" else "accelerate 1.15"
    return Diagnostic("JC4602", f"unknown key {key}", f"{whose} has no such key", hint, key=key)


def _misplaced(plan: LaunchPlan, extra: Tree, at: Path) -> Iterator[Diagnostic]:
    """JC4604: a section without the parallelism it belongs to, keys of FSDP 1, meshes that are not the world."""
    wanted = {"fsdp_config": SHARDED, "deepspeed_config": ("deepspeed",), "parallelism_config": SHARDED}
    for section, parallel in wanted.items():
        if section not in extra:
            continue
        if plan.parallel not in parallel:
            because = f"parallel={plan.parallel}, and accelerate reads that section with {' or '.join(parallel)} alone"
            yield _without_effect((*at, section), because, f"parallel={parallel[0]}")
        elif plan.uses_trainer and parallel == SHARDED:
            because = "the trainer that comes with jobc shards its model itself"
            yield _without_effect((*at, section), because, f"leave out {'.'.join((*at, section))}")
    if "megatron_lm_config" in extra:
        because = "accelerate reads it with distributed_type MEGATRON_LM alone, and no `parallel` is that"
        yield _without_effect(
            (*at, "megatron_lm_config"), because, f"leave out {'.'.join((*at, 'megatron_lm_config'))}"
        )
    fsdp = extra.get("fsdp_config")
    for name in fsdp if isinstance(fsdp, Mapping) else ():
        if name.removeprefix("fsdp_") in FSDP_1:
            key = ".".join((*at, "fsdp_config", name))
            because = "parallel=fsdp is version 2 of FSDP, which ignores or refuses it (accelerate#3394)"
            hint = f"leave out {key}; parallel.reshard_after_forward says what sharding_strategy said"
            yield Diagnostic("JC4604", f"{key} is a key of FSDP version 1", because, hint, key=key)
    if plan.parallel == "deepspeed" and extra.get("mixed_precision") is not None and not plan.uses_trainer:
        because = "accelerate refuses it beside a deepspeed.json, which says it"
        key = ".".join((*at, "mixed_precision"))
        hint = f"loop.precision=bf16; or {at[0]}.deepspeed_extra.fp16.enabled=true"
        yield Diagnostic("JC4604", f"{key} is said twice", because, hint, key=key)
    yield from _mesh(plan, extra.get("parallelism_config"), at)
    yield from _gpus(plan, extra.get("gpu_ids"), at)


def _gpus(plan: LaunchPlan, ids: Any, at: Path) -> Iterator[Diagnostic]:
    """JC4604: accelerate makes CUDA_VISIBLE_DEVICES of gpu_ids, and each process takes the one of its own number."""
    key, procs, gpus = ".".join((*at, "gpu_ids")), plan.topology.procs, plan.topology.gpus
    if ids in (None, "all") or not are_gpus(ids):
        return
    named = str(ids).split(",")
    if not gpus:
        yield _without_effect((*at, "gpu_ids"), "gpus=0, so the processes compute on CPUs", f"leave out {key}")
    elif len(named) != procs:
        title = f"{key} names {len(named)} {'GPU' if len(named) == 1 else 'GPUs'} for {procs} processes on each node"
        because = "each process takes the one of its own number, and the file is the same on every node"
        yield Diagnostic("JC4604", title, because, f"{key}=all, or gpus={len(named)}", key=key)


def _mesh(plan: LaunchPlan, sizes: Any, at: Path) -> Iterator[Diagnostic]:
    if plan.parallel != "fsdp" or not isinstance(sizes, Mapping):
        return
    found = {name: size for name, size in sizes.items() if name.endswith("_size") and type(size) is int and size > 0}
    world, product = plan.topology.world_size, prod(found.values())
    if found and product != world:
        key = ".".join((*at, "parallelism_config", next(iter(found))))
        rest = product // next(iter(found.values()))
        fitting = [f"{key}={world // rest}"] if world % rest == 0 else [f"leave out {key}"]
        title = f"the sizes of parallelism_config multiply to {product}, and there are {world} ranks"
        because = "each rank has one place in the mesh, and a size that is not said is 1"
        yield Diagnostic("JC4604", title, because, alternatives(fitting), key=key)
