"""The keys of deepspeed.json that the plan does not say, top level and sections: types, ranges, words.

DeepSpeed takes an unknown key at the top, and in some sections, without a word; other mistakes it finds on every rank.
What is not checked: `params` of torch's own schedulers, and what data_efficiency holds below curriculum_metrics,
dynamic_batching and random_ltd. `optimizer` is in deepspeed_optimizers.py.
Source DeepSpeed 0.19.8, below runtime/: config.py, constants.py, lr_schedules.py, zero/*config.py, zenflow,
       tensor_parallel, model_checkpointing, activation_checkpointing, swap_tensor, data_pipeline; elsewhere
       config.py of comm, compile, monitor, autotuning, inference; inference/quantization/utils.py;
       module_inject/auto_ep_config.py; deepspeed.ai/docs/config-json. Of datastates_ckpt: datastates-llm, utils.py
"""

from __future__ import annotations

from collections.abc import Mapping

from .deepspeed_optimizers import optimizer
from .known_values import (
    AUTO,
    COUNT,
    COUNT_OR_0,
    LIST,
    NUMBER,
    SECTION,
    SHARE,
    SWITCH,
    TEXT,
    Known,
    Tree,
    Value,
    any_case,
    either,
    whole,
    words,
)

DTYPE = words("bf16", "fp16", "fp32")
AUTO_OR_COUNT = either(COUNT, AUTO)
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
    "zenflow": {
        "topk_ratio": SHARE, "select_strategy": words("auto", "step", "epoch"), "select_interval": AUTO_OR_COUNT,
        "update_interval": AUTO_OR_COUNT, "overlap_step": SWITCH, "offload": SWITCH, "auto_ratio": SHARE,
        "full_warm_up_rounds": COUNT_OR_0, "pt_reserved_cores_perc": SHARE,
    },
    "leaf_module": dict.fromkeys(("classes", "names", "name_suffixes"), either(LIST, TEXT)),
}  # fmt: skip

_RATE = either(NUMBER, LIST)  # one, or one for each group of parameters
_AUTO_RATE = either(_RATE, AUTO)  # which accelerate and transformers fill in, where a program uses them
_WARMUP: Known = {
    "warmup_num_steps": AUTO_OR_COUNT, "warmup_type": words("log", "linear"), "last_batch_iteration": whole(-1),
}  # fmt: skip
_WARMUP_RATES: Known = {**_WARMUP, "warmup_min_lr": _AUTO_RATE, "warmup_max_lr": _AUTO_RATE}
SCHEDULERS: Mapping[str, Known] = {
    "LRRangeTest": {
        "lr_range_test_min_lr": _RATE, "lr_range_test_step_size": COUNT, "lr_range_test_step_rate": NUMBER,
        "lr_range_test_staircase": SWITCH, "last_batch_iteration": whole(-1),
    },
    "OneCycle": {
        "cycle_min_lr": _RATE, "cycle_max_lr": _RATE, "decay_lr_rate": NUMBER, "cycle_first_step_size": COUNT,
        "cycle_second_step_size": COUNT, "cycle_first_stair_count": COUNT_OR_0, "cycle_second_stair_count": COUNT_OR_0,
        "decay_step_size": COUNT_OR_0, "cycle_momentum": SWITCH, "cycle_min_mom": SHARE, "cycle_max_mom": SHARE,
        "decay_mom_rate": NUMBER, "last_batch_iteration": whole(-1),
    },
    "WarmupLR": _WARMUP_RATES,
    "WarmupDecayLR": {**_WARMUP_RATES, "total_num_steps": AUTO_OR_COUNT},
    "WarmupCosineLR": {**_WARMUP, "total_num_steps": AUTO_OR_COUNT, "warmup_min_ratio": SHARE, "cos_min_ratio": SHARE},
}  # fmt: skip
OF_TORCH = (
    "ChainedScheduler", "ConstantLR", "CosineAnnealingLR", "CosineAnnealingWarmRestarts", "CyclicLR", "ExponentialLR",
    "LambdaLR", "LinearLR", "MultiStepLR", "MultiplicativeLR", "OneCycleLR", "PolynomialLR", "ReduceLROnPlateau",
    "SequentialLR", "StepLR",
)  # fmt: skip


def _scheduler(tree: Tree) -> Known:
    """`params` are those of the type; torch's own are not known here."""
    return {"type": words(*OF_TORCH, *SCHEDULERS), "params": SCHEDULERS.get(str(tree.get("type")), SECTION)}


CHECKPOINT: Known = {
    "tag_validation": any_case("Ignore", "Warn", "Fail"),
    "load_universal": SWITCH,
    "use_node_local_storage": SWITCH,
    "parallel_write": {"pipeline_stage": SWITCH},
    "checkpoint_serialization": SWITCH,
    "writer": {
        "type": any_case("mock", "python", "fast"), "io_buffer_size": COUNT, "io_buffer_double": SWITCH,
        "io_multiplier": COUNT, "show_statistics": SWITCH, "decoupled": SWITCH,
        "data_parallel": any_case("replica", "socket", "machine"),
    },
}  # fmt: skip
_TP: Known = {"tp_size": COUNT, "tp_grain_size": COUNT}
TENSOR_PARALLEL: Known = {
    "autotp_size": COUNT_OR_0, "tp_overlap_comm": SWITCH, "vocab_parallel_lm_head": SWITCH,
    "vocab_parallel_ce_backend": words("liger", "torch"), "tensor_parallel": _TP, "tp": _TP,
    "injection_policy_tuple": LIST,
    "preset_model": any_case("llama", "bloom", "chatglm", "mixtral", "deepseek_v2", "qwen2", "phi3"),
    "keep_module_on_host": SWITCH, "kernel_inject": SWITCH, "replace_with_kernel_inject": SWITCH,
    "partition_config": {
        "tp_size": COUNT, "layer_specs": LIST, "embedding_partition_dim": COUNT_OR_0, "lm_head_patterns": LIST,
        "use_default_specs": SWITCH, "strict_mode": SWITCH,
    },
}  # fmt: skip
EXPERT_PARALLEL: Known = {
    "enabled": SWITCH, "autoep_size": COUNT, "expert_tensor_parallel_size": COUNT, "validate_folding_routing": SWITCH,
    "async_split_plan": SWITCH, "use_grouped_mm": SWITCH, "disable_triton_grouped_mm": SWITCH, "route_norm": SWITCH,
    "preset_model": words("qwen3_moe", "qwen3_5_moe", "deepseek_v2", "deepseek_v3", "minimax_m3", "mixtral"),
    "route_scale": NUMBER, "routed_scaling_factor": either(NUMBER, AUTO), "top_k": AUTO_OR_COUNT,
    "score_apply": words("pre", "post", "auto"), "score_func": words("softmax", "sigmoid", "auto"),
    "combine_impl": words("weighted_sum", "fused_weighted_sum", "legacy_bmm", "auto"),
    "row_weighting_impl": words("eager", "fused", "auto"), "gate_up_impl": words("fused", "separate"),
    "comm_backend": words("deepep", "comm"), "comm_num_sm": COUNT, "comm_qp_margin": COUNT_OR_0,
    "comm_max_tokens_per_rank": COUNT_OR_0, "num_expert_groups": COUNT, "num_limited_groups": COUNT,
    "has_shared_experts": SWITCH, "load_balance_coeff": Value("null", lambda _: False, "null"),
    "expert_activation": words("geglu_tanh", "swiglu_clamped", "swiglu_oai", "swiglu"),
    **dict.fromkeys(
        ("moe_layer_pattern", "expert_pattern", "router_pattern", "expert_w1", "expert_w2", "expert_w3",
         "num_experts_attr", "top_k_attr", "shared_experts_pattern", "shared_experts_gate_pattern"), TEXT),
}  # fmt: skip
COMPILE: Known = {
    "free_activation_threshold": COUNT_OR_0, "passes": LIST,
    **dict.fromkeys(
        ("deepcompile", "autoep_non_moe", "free_activation", "offload_activation", "offload_activation_pin_memory",
         "offload_opt_states", "double_buffer", "symmetric_memory", "debug_log", "offload_parameters",
         "sync_before_reduce", "sync_after_reduce", "sync_before_allgather", "sync_after_allgather",
         "keep_int_input_tensors", "keep_all_input_tensors"), SWITCH),
}  # fmt: skip
DATA_EFFICIENCY: Known = {
    "enabled": SWITCH,
    "seed": COUNT_OR_0,
    "data_sampling": {
        "enabled": SWITCH, "num_epochs": COUNT, "num_workers": COUNT_OR_0, "pin_memory": SWITCH,
        "curriculum_learning": {"enabled": SWITCH, "data_cluster_path": TEXT, "curriculum_metrics": SECTION},
        "dynamic_batching": SECTION,
    },
    "data_routing": {"enabled": SWITCH, "random_ltd": SECTION},
}  # fmt: skip
AUTOTUNING: Known = {
    **dict.fromkeys(("enabled", "fast", "overwrite"), SWITCH),
    **dict.fromkeys(("results_dir", "exps_dir", "metric_path", "model_info_path"), TEXT),
    **dict.fromkeys(
        ("start_profile_step", "end_profile_step", "tuner_early_stopping", "tuner_num_trials", "mp_size",
         "max_train_batch_size", "min_train_batch_size", "max_train_micro_batch_size_per_gpu",
         "min_train_micro_batch_size_per_gpu", "num_tuning_micro_batch_sizes"), COUNT),
    "metric": words("latency", "flops", "throughput"),
    "tuner_type": words("random", "model_based", "gridsearch"),
    "arg_mappings": SECTION,
    "model_info": {"profile": SWITCH, **dict.fromkeys(("num_params", "hidden_size", "num_layers"), COUNT)},
}  # fmt: skip
QUANTIZED: Known = {  # how one weight is; DeepSpeed refuses other numbers when it builds the model
    "num_bits": Value("4 or 8", lambda value: type(value) is int and value in (4, 8), "8"),
    "symmetric": Value("false: DeepSpeed quantizes asymmetrically alone", lambda value: value is False, "false"),
    "group_dim": COUNT_OR_0,
    "group_size": COUNT,
}


def _by_module(tree: Tree) -> Known:
    """A part of a module's name -> how its weights are."""
    return dict.fromkeys(tree, QUANTIZED)


DEEPSPEED: Known = {
    "optimizer": optimizer,
    "scheduler": _scheduler,
    "checkpoint": CHECKPOINT,
    "tensor_parallel": TENSOR_PARALLEL,
    "expert_parallel": EXPERT_PARALLEL,
    "compile": COMPILE,
    "data_efficiency": DATA_EFFICIENCY,
    "autotuning": AUTOTUNING,
    "timers": {"throughput": {"enabled": SWITCH, "synchronized": SWITCH}},
    "pipeline": {
        "stages": AUTO_OR_COUNT, "partition": TEXT, "seed_layers": SWITCH, "activation_checkpoint_interval": COUNT_OR_0,
        "pipe_partitioned": SWITCH, "grad_partitioned": SWITCH, "use_reentrant": SWITCH,
    },
    "weight_quantization": {
        "enabled": SWITCH, "num_bits": COUNT, "q_type": words("asymmetric", "symmetric"), "q_groups": COUNT,
        "quantized_initialization": QUANTIZED, "post_init_quant": _by_module,
    },
    "datastates_ckpt": {"host_cache_size": COUNT_OR_0, "parser_threads": COUNT},  # GiB; it reads no other
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
        "grad_accum_dtype": DTYPE, "param_dtype": DTYPE, "buffer_dtype": DTYPE,
        "keep_in_fp32_modules": either(LIST, AUTO),
    },
    "flops_profiler": {
        "enabled": SWITCH, "recompute_fwd_factor": NUMBER, "profile_step": COUNT_OR_0, "module_depth": whole(-1),
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
        "experiment_key": TEXT, "online": SWITCH, "mode": words("get", "create", "get_or_create"),
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
    "gradient_allreduce_op": words("mean"),
    "log_level": words("debug", "info", "warning", "error", "critical"),
    **dict.fromkeys(
        ("zero_allow_untested_optimizer", "prescale_gradients", "disable_allgather", "dump_state",
         "wall_clock_breakdown", "memory_breakdown", "disable_python_gc", "dataloader_drop_last",
         "use_data_before_expert_parallelism"), SWITCH),
}  # fmt: skip

# What DeepSpeed had once, and refuses now on every rank: key -> what there is instead.
REMOVED: Mapping[str, str] = {
    "nebula": "saves go where storage.run and checkpoint say",
    "compression_training": "quantize in your own program",
    "amp": "say fp16, bf16 or torch_autocast",
    "quantize_training": "nothing has taken its place",
    "sparse_gradients": "gradients of torch.nn.Embedding(sparse=True) are reduced sparse without it",
    "eigenvalue": "nothing has taken its place",
    "sparse_attention": "nothing has taken its place",
    "graph_harvesting": "nothing has taken its place",
    "curriculum_learning": "say it below data_efficiency.data_sampling",
    "progressive_layer_drop": "nothing has taken its place",
}
