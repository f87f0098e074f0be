"""Keys in accelerate.yaml and deepspeed.json that `extra` must not set: those that the plan sets, and those of FSDP 1.

Each table maps a path in the file to a description of the spec keys that set it.
"""

from collections.abc import Mapping

from ....trainer.config.deepspeed_json import SAID_BY
from ...emit.extra_entries import Path
from ...plan.launch_plan import LaunchPlan

Protected = Mapping[Path, str]

_WITH_OR_WITHOUT = ("fsdp_", "")  # accelerate adds the prefix to keys of fsdp_config
OF_THE_PLAN: Protected = {
    ("compute_environment",): "backend",
    ("distributed_type",): "parallel, nodes and procs",
    ("num_processes",): "nodes and procs",
    ("num_machines",): "nodes",
    ("machine_rank",): "hosts",
    ("main_process_ip",): "hosts",
    ("main_process_port",): "rendezvous.port",
    ("rdzv_backend",): "rendezvous.backend",
    ("same_network",): "rendezvous.backend",
    ("use_cpu",): "gpus",
    ("mpirun_config",): "launcher",
    **{("fsdp_config", f"{prefix}version"): "parallel" for prefix in _WITH_OR_WITHOUT},
    **{
        ("fsdp_config", f"{prefix}{name}"): f"parallel.{name}"
        for prefix in _WITH_OR_WITHOUT
        for name in (
            "reshard_after_forward", "auto_wrap_policy", "transformer_layer_cls_to_wrap", "min_num_params",
            "offload_params", "state_dict_type", "cpu_ram_efficient_loading",
        )
    },
    **{
        ("fsdp_config", f"{prefix}activation_checkpointing"): "loop.activation_checkpointing"
        for prefix in _WITH_OR_WITHOUT
    },
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
    ("zero_optimization", "cpu_offload"): "parallel.offload_optimizer_device",  # deprecated
    ("zero_optimization", "cpu_offload_param"): "parallel.offload_param_device",  # deprecated
    ("zero_optimization", "offload_param", "device"): "parallel.offload_param_device",
    ("zero_optimization", "offload_param", "nvme_path"): "parallel.nvme_path",
}
# Values that the bundled trainer reads from train.json. It rejects files in which they are different.
OF_THE_TRAINER: Protected = {
    **{(name,): "loop.precision" for name in ("mixed_precision", "fp16")},
    **{(name,): "loop.compile" for name in ("dynamo_config", "dynamo_backend")},
}
OF_ITS_DEEPSPEED: Protected = {(name,): key for name, key in SAID_BY.items()}
OF_HSDP: Protected = {
    ("parallelism_config", "parallelism_config_dp_replicate_size"): "nodes, procs and parallel.shards",
    ("parallelism_config", "parallelism_config_dp_shard_size"): "parallel.shards",
}
FSDP_1 = ("sharding_strategy", "backward_prefetch", "forward_prefetch", "sync_module_states", "use_orig_params")


def accelerate_protected_keys(plan: LaunchPlan) -> Protected:
    return {
        **OF_THE_PLAN,
        **(OF_THE_TRAINER if plan.uses_trainer else {}),
        **(OF_HSDP if plan.parallel == "hsdp" else {}),
    }


def deepspeed_protected_keys(plan: LaunchPlan) -> Protected:
    return {**OF_DEEPSPEED, **(OF_ITS_DEEPSPEED if plan.uses_trainer else {})}
