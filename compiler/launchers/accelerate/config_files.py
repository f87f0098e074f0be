"""Emit accelerate.yaml and deepspeed.json, the configs of `accelerate launch` and DeepSpeed, for every backend.

accelerate.yaml  with launcher=accelerate: one file for all nodes. launch.sh adds what differs: --machine_rank,
                 --main_process_ip, --main_process_port
deepspeed.json   with parallel=deepspeed: DeepSpeed's own config, with its three batch sizes as numbers
Source: accelerate 1.15.0 (commands/config/config_args.py, commands/launch.py, utils/dataclasses.py), DeepSpeed 0.19.8.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from ....trainer.config.deepspeed_json import DOCUMENT
from ...emit.artifact import Artifact
from ...emit.extra_entries import merge_extra_entries
from ...emit.render import Omit, Render, of
from ...plan.launch_plan import LaunchPlan

YAML, JSON = "accelerate.yaml", "deepspeed.json"
COMMENTS: Mapping[tuple[str | int, ...], str] = {
    (0, "compute_environment"): (
        "Config of `accelerate launch`, the same on every node. launch.sh adds the options that differ:\n"
        "--machine_rank, --main_process_ip, --main_process_port."
    ),
    (0, "num_processes"): "all ranks of the job",
    (0, "deepspeed_config", "deepspeed_config_file"): "launch.sh passes its absolute path",
}
ON_CPUS: Mapping[tuple[str | int, ...], str] = {
    (0, "distributed_type"): "one process for each rank; MULTI_CPU would rely on mpirun to start them"
}
SHARDED = ("fsdp", "hsdp")
# Keys that these files pass to the user's own program.
READ = ("parallel", "batch", "optim.clip_norm", "loop.precision", "loop.activation_checkpointing")


def launcher_keys(plan: LaunchPlan) -> tuple[str, ...]:
    """Return the sections and keys of the spec that reach any program through these files."""
    return READ if plan.launcher == "accelerate" or plan.parallel == "deepspeed" else ()


def config_files(plan: LaunchPlan, render: Render, emitted: Collection[str]) -> Iterator[Artifact]:
    """Yield each of the two files that the job needs, unless the backend has emitted its own version."""
    if plan.launcher == "accelerate" and YAML not in emitted:
        yield render.record_choice(accelerate_yaml(plan, render), of.plan.launcher)
    if plan.parallel == "deepspeed" and JSON not in emitted:
        yield render.record_choice(deepspeed_json(plan, render), of.plan.parallel)


def accelerate_yaml(plan: LaunchPlan, render: Render, extra: Mapping[str, Any] | None = None) -> Artifact:
    """Return accelerate.yaml. extra: `options.extra`, which is merged last, after the entries from the plan"""
    comments = COMMENTS if plan.topology.gpus or plan.topology.world_size == 1 else {**COMMENTS, **ON_CPUS}
    document = merge_extra_entries(_yaml_document(plan), plan.accelerate_extra, ("plan", "accelerate_extra"))
    return render.yaml([merge_extra_entries(document, extra or {})], YAML, comments)


def deepspeed_json(plan: LaunchPlan, render: Render, extra: Mapping[str, Any] | None = None) -> Artifact:
    """Return deepspeed.json. extra: `options.deepspeed_extra`, which is merged last, after the entries from the plan"""
    document = {key: _train_leaf(leaf) for key, leaf in DOCUMENT.items()}
    if not plan.uses_trainer:  # bf16 weights with fp32 master copies, as programs that use DeepSpeed expect
        del document["torch_autocast"]
        for name in ("bf16", "fp16"):
            document[name] = _enabled_if_precision(name)
    document = merge_extra_entries(document, plan.deepspeed_extra, ("plan", "deepspeed_extra"))
    return render.json(merge_extra_entries(document, extra or {}, ("options", "deepspeed_extra")), JSON)


def _enabled_if_precision(name: str) -> Any:
    return lambda v: {"enabled": True} if v.plan.train["loop"]["precision"] == name else Omit


def _train_leaf(leaf: Any) -> Any:
    """Convert a leaf of DOCUMENT, or a mapping of leaves, to leaves for Render."""
    if isinstance(leaf, Mapping):
        return {key: _train_leaf(inner) for key, inner in leaf.items()}

    def read_leaf(views: Any) -> Any:
        value = leaf(views.plan.train)
        return Omit if value is None else value

    return read_leaf


def _yaml_document(plan: LaunchPlan) -> dict[str, Any]:
    document: dict[str, Any] = {
        "compute_environment": "LOCAL_MACHINE",
        "distributed_type": _distributed_type,
        "num_machines": of.plan.topology.nodes,
        "num_processes": of.plan.topology.world_size,
        "rdzv_backend": lambda v: "c10d" if _is_dynamic(v) else "static",
        "same_network": lambda v: not _is_dynamic(v),  # true: accelerate passes a static address, not an endpoint
        "use_cpu": False,
        "debug": False,
    }
    if plan.parallel == "deepspeed":  # accelerate rejects mixed_precision if a file also sets it
        document["deepspeed_config"] = {"deepspeed_config_file": JSON, "deepspeed_multinode_launcher": "standard"}
    else:
        document["mixed_precision"] = _mixed_precision
    if plan.parallel in SHARDED and not plan.uses_trainer:
        document["fsdp_config"] = _fsdp_config(plan)
        if plan.parallel == "hsdp":
            document["parallelism_config"] = {
                "parallelism_config_dp_replicate_size": lambda v: v.plan.topology.world_size // _shard_group_size(v),
                "parallelism_config_dp_shard_size": _shard_group_size,
            }
    return document


def _is_dynamic(views: Any) -> bool:
    """Return whether the agents use a c10d rendezvous. On one machine, accelerate passes them no endpoint for it."""
    return bool(views.plan.rendezvous.backend == "c10d" and views.plan.topology.nodes > 1)


def _mixed_precision(views: Any) -> str:
    precision = str(views.plan.train["loop"]["precision"])
    return "no" if precision == "fp32" else precision


def _shard_group_size(views: Any) -> int:
    return int(views.plan.train["parallel"]["shards"])


def _distributed_type(views: Any) -> str:
    """Return accelerate's distributed_type. For a single process it is NO, and accelerate then does not use torchrun.

    The trainer shards its model itself and uses accelerate only to start processes.
    """
    parallel = views.plan.train["parallel"]["kind"]
    if parallel == "deepspeed":
        return "DEEPSPEED"
    if parallel in SHARDED and not views.plan.uses_trainer:
        return "FSDP"
    return "MULTI_GPU" if views.plan.topology.world_size > 1 else "NO"


def _fsdp_config(plan: LaunchPlan) -> dict[str, Any]:
    """Return the keys of FSDP 2: no sharding_strategy, backward_prefetch, sync_module_states or use_orig_params."""

    def fsdp_value(name: str) -> Any:
        return lambda v: v.plan.train["parallel"][name]

    def classes_to_wrap(views: Any) -> Any:
        return ",".join(views.plan.train["parallel"]["transformer_layer_cls_to_wrap"]) or Omit

    names = [
        name
        for name in plan.train["parallel"]
        if name not in ("kind", "shards", "transformer_layer_cls_to_wrap", "min_num_params")
    ]
    document: dict[str, Any] = {"fsdp_version": 2, **{f"fsdp_{name}": fsdp_value(name) for name in names}}
    document["fsdp_activation_checkpointing"] = lambda v: v.plan.train["loop"]["activation_checkpointing"] > 0
    policy = plan.train["parallel"]["auto_wrap_policy"]
    if policy == "TRANSFORMER_BASED_WRAP":
        document["fsdp_transformer_layer_cls_to_wrap"] = classes_to_wrap
    elif policy == "SIZE_BASED_WRAP":
        document["fsdp_min_num_params"] = fsdp_value("min_num_params")
    return document
