"""What accelerate and DeepSpeed know inside their sections, and themselves do not check: keys, types, ranges, words.

accelerate.yaml  ACCELERATE: top level and sections. accelerate refuses unknown keys at the top alone
deepspeed.json   DEEPSPEED: DeepSpeed refuses unknown keys of zero_optimization alone
Source accelerate 1.15.0, commands/launch.py and commands/config/config_args.py; DeepSpeed 0.19.8, runtime/config.py,
       runtime/constants.py, runtime/zero/config.py, runtime/zero/offload_config.py, comm/config.py, monitor/config.py,
       runtime/activation_checkpointing/config.py, runtime/swap_tensor/constants.py, and its JSON reference
       (deepspeed.ai/docs/config-json)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Value:
    """What a value must be. words: for people; example: one that is right."""

    words: str
    holds: Callable[[Any], bool]
    example: str


Known = Mapping[str, "Value | Mapping[str, Any]"]


def _number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _whole(least: int) -> Value:
    words = f"a whole number of at least {least}"
    return Value(words, lambda value: type(value) is int and value >= least, str(max(least, 1)))


def _words(*words: str) -> Value:
    return Value(f"one of {', '.join(words)}", lambda value: value in words and isinstance(value, str), words[-1])


SWITCH = Value("true or false", lambda value: isinstance(value, bool), "true")
TEXT = Value("text", lambda value: isinstance(value, str) and value != "", "TEXT")
COUNT, COUNT_OR_0 = _whole(1), _whole(0)
NUMBER = Value("a number of at least 0", lambda value: _number(value) and value >= 0, "1.0")
SHARE = Value("a number from 0 to 1", lambda value: _number(value) and 0 <= value <= 1, "0.5")
SECTION = Value("a mapping", lambda value: isinstance(value, Mapping), "{}")
LIST = Value("a list", lambda value: isinstance(value, tuple), "[]")
DEVICE = _words("none", "cpu", "nvme")
DTYPE = _words("bf16", "fp16", "fp32")

ACCELERATE: Known = {
    "mixed_precision": _words("no", "fp8", "fp16", "bf16"),
    "debug": SWITCH,
    "gpu_ids": TEXT,
    "main_training_function": TEXT,
    "enable_cpu_affinity": SWITCH,
    "downcast_bf16": SWITCH,
    "dynamo_config": {
        "dynamo_backend": _words(
            "NO", "EAGER", "AOT_EAGER", "AOT_TS_NVFUSER", "NVPRIMS_NVFUSER", "CUDAGRAPHS", "OFI", "FX2TRT", "ONNXRT",
            "TENSORRT", "AOT_TORCHXLA_TRACE_ONCE", "TORCHXLA_TRACE_ONCE", "TVM", "HPU_BACKEND", "INDUCTOR",
        ),
        "dynamo_mode": _words("reduce-overhead", "max-autotune", "default"),
        "dynamo_use_dynamic": SWITCH,
        "dynamo_use_fullgraph": SWITCH,
        "dynamo_use_regional_compilation": SWITCH,
    },
    "fp8_config": {
        "backend": _words("AO", "MSAMP", "TE"),
        "use_autocast_during_eval": SWITCH,
        "margin": COUNT_OR_0,
        "interval": COUNT,
        "fp8_format": _words("E4M3", "E5M2", "HYBRID"),
        "amax_history_len": COUNT,
        "amax_compute_algo": _words("max", "most_recent"),
        "override_linear_precision": LIST,
        "opt_level": _words("O1", "O2"),
        "enable_fsdp_float8_all_gather": SWITCH,
        "pad_inner_dim": SWITCH,
    },
    "fsdp_config": {"fsdp_activation_checkpointing_offload": SWITCH},
    "deepspeed_config": {"zero3_init_flag": SWITCH, "deepspeed_moe_layer_cls_names": TEXT},
    "parallelism_config": {
        **{f"parallelism_config_{name}_size": COUNT for name in ("dp_replicate", "dp_shard", "tp", "cp", "sp")},
        "parallelism_config_cp_backend": _words("torch"),
        "parallelism_config_cp_comm_strategy": _words("alltoall", "allgather"),
        "parallelism_config_sp_backend": _words("deepspeed"),
        "parallelism_config_sp_seq_length": COUNT,
        "parallelism_config_sp_seq_length_is_variable": SWITCH,
        "parallelism_config_sp_attn_implementation": TEXT,
    },
    "megatron_lm_config": SECTION,
}  # fmt: skip

_SIZES = ("sub_group_size", "allgather_bucket_size", *(
    f"stage3_{name}" for name in ("prefetch_bucket_size", "param_persistence_threshold", "model_persistence_threshold",
                                  "max_live_parameters", "max_reuse_distance", "module_granularity_threshold")
), "zero_hpz_partition_size")  # fmt: skip
_SWITCHES = (
    "reduce_scatter", "use_multi_rank_bucket_allreduce", "allgather_partitions", "compute_grad_norm",
    "load_from_fp32_weights", "elastic_checkpoint", "stage3_gather_16bit_weights_on_model_save",
    "stage3_use_all_reduce_for_fetch_params", "stage3_allgather_sequential",
    "ignore_unused_parameters", "round_robin_gradients", "parameter_alignment", "zero_quantized_weights",
    "zero_quantized_nontrainable_weights", "zero_quantized_gradients", "memory_efficient_linear",
    "pipeline_loading_checkpoint", "override_module_apply", "log_trace_cache_warnings", "enable_sanity_checks",
    "save_muon_momentum_buffer_in_memory",
)  # fmt: skip
ZERO: Known = {
    **dict.fromkeys(_SIZES, COUNT_OR_0),
    **dict.fromkeys(_SWITCHES, SWITCH),
    "offload_param": {
        "buffer_count": COUNT_OR_0, "buffer_size": COUNT_OR_0, "max_in_cpu": COUNT_OR_0, "pin_memory": SWITCH,
    },
    "offload_optimizer": {
        "buffer_count": COUNT_OR_0, "pin_memory": SWITCH, "pipeline_read": SWITCH, "pipeline_write": SWITCH,
        "fast_init": SWITCH, "ratio": SHARE, "super_offload": SWITCH, "cpuadam_cores_perc": SHARE,
    },
    "zenflow": SECTION,
    "leaf_module": SECTION,
}  # fmt: skip
_SECTIONS = (
    "optimizer", "scheduler", "autotuning", "pipeline", "data_efficiency", "curriculum_learning", "checkpoint",
    "datastates_ckpt", "weight_quantization", "compression_training", "compile", "timers", "tensor_parallel",
    "expert_parallel", "eigenvalue", "progressive_layer_drop", "sparse_attention", "amp", "nebula", "quantize_training",
)  # fmt: skip
DEEPSPEED: Known = {
    **dict.fromkeys(_SECTIONS, SECTION),
    "zero_optimization": ZERO,
    "fp16": {
        "enabled": SWITCH, "auto_cast": SWITCH, "loss_scale": NUMBER, "initial_scale_power": COUNT_OR_0,
        "loss_scale_window": COUNT, "hysteresis": COUNT_OR_0, "consecutive_hysteresis": SWITCH,
        "min_loss_scale": NUMBER, "fp16_master_weights_and_grads": SWITCH,
    },
    "bf16": {
        "enabled": SWITCH, "check_overflow": SWITCH, "immediate_grad_update": SWITCH,
        "bf16_master_weights_and_grads": SWITCH, "bf16_optimizer_states": SWITCH,
    },
    "data_types": {
        "grad_accum_dtype": DTYPE, "param_dtype": DTYPE, "buffer_dtype": DTYPE, "keep_in_fp32_modules": LIST,
    },
    "flops_profiler": {
        "enabled": SWITCH, "recompute_fwd_factor": NUMBER, "profile_step": COUNT_OR_0, "module_depth": Value(
            "a whole number of at least -1", lambda value: type(value) is int and value >= -1, "-1"),
        "top_modules": COUNT, "detailed": SWITCH, "output_file": TEXT,
    },
    "activation_checkpointing": {
        "partition_activations": SWITCH, "number_checkpoints": COUNT, "contiguous_memory_optimization": SWITCH,
        "synchronize_checkpoint_boundary": SWITCH, "profile": SWITCH, "cpu_checkpointing": SWITCH,
    },
    "aio": {
        "block_size": COUNT, "queue_depth": COUNT, "intra_op_parallelism": COUNT, "single_submit": SWITCH,
        "overlap_events": SWITCH, "use_gds": SWITCH,
    },
    "comms_logger": {
        "enabled": SWITCH, "prof_all": SWITCH, "prof_ops": LIST, "verbose": SWITCH, "debug": SWITCH,
    },
    "tensorboard": {"enabled": SWITCH, "output_path": TEXT, "job_name": TEXT},
    "csv_monitor": {"enabled": SWITCH, "output_path": TEXT, "job_name": TEXT},
    "wandb": {"enabled": SWITCH, "group": TEXT, "team": TEXT, "project": TEXT},
    "comet": {  # and no api_key: it is a secret, which Comet reads of COMET_API_KEY
        "enabled": SWITCH, "samples_log_interval": COUNT, "project": TEXT, "workspace": TEXT, "experiment_name": TEXT,
        "experiment_key": TEXT, "online": SWITCH, "mode": _words("get", "create", "get_or_create"),
    },
    "hybrid_engine": {
        "enabled": SWITCH, "max_out_tokens": COUNT, "inference_tp_size": COUNT, "release_inference_cache": SWITCH,
        "pin_parameters": SWITCH, "tp_gather_partition_size": COUNT, "enable_cuda_graph": SWITCH,
    },
    "steps_per_print": COUNT,
    "vocabulary_size": COUNT,
    "communication_data_type": DTYPE,
    "seq_parallel_communication_data_type": DTYPE,
    "gradient_predivide_factor": NUMBER,
    "gradient_allreduce_op": _words("mean"),
    "log_level": _words("debug", "info", "warning", "error", "critical"),
    **dict.fromkeys(
        ("zero_allow_untested_optimizer", "prescale_gradients", "sparse_gradients", "disable_allgather", "dump_state",
         "wall_clock_breakdown", "memory_breakdown", "disable_python_gc", "dataloader_drop_last",
         "use_data_before_expert_parallelism", "graph_harvesting"), SWITCH),
}  # fmt: skip
