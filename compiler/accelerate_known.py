"""The keys of accelerate.yaml that the plan does not say, top level and sections: types, ranges, words.

accelerate refuses unknown keys at the top alone.
Source accelerate 1.15.0, commands/launch.py and commands/config/config_args.py
"""

from __future__ import annotations

import re
from typing import Any

from .known_values import COUNT, COUNT_OR_0, LIST, SECTION, SWITCH, TEXT, Known, Value, words


def are_gpus(value: Any) -> bool:
    """`all`, or as CUDA_VISIBLE_DEVICES takes them (CUDA C++ Programming Guide): different numbers, or UUIDs."""
    if value == "all":
        return True
    names = str(value).split(",") if isinstance(value, str) or type(value) is int else []
    distinct = len({name.lstrip("0") if name.strip("0") else "0" for name in names}) == len(names) > 0
    return distinct and all(re.fullmatch(r"\d+|(GPU|MIG)-[\w/-]+", name) for name in names)


ACCELERATE: Known = {
    "mixed_precision": words("no", "fp8", "fp16", "bf16"),
    "debug": SWITCH,
    "megatron_lm_config": SECTION,  # said to be without effect (JC4604)
    "gpu_ids": Value('all, or different GPUs of a node, such as "0,1"', are_gpus, "all"),
    "main_training_function": TEXT,
    "enable_cpu_affinity": SWITCH,
    "downcast_bf16": SWITCH,
    "dynamo_config": {
        "dynamo_backend": words(
            "NO", "EAGER", "AOT_EAGER", "AOT_TS_NVFUSER", "NVPRIMS_NVFUSER", "CUDAGRAPHS", "OFI", "FX2TRT", "ONNXRT",
            "TENSORRT", "AOT_TORCHXLA_TRACE_ONCE", "TORCHXLA_TRACE_ONCE", "TVM", "HPU_BACKEND", "INDUCTOR",
        ),
        "dynamo_mode": words("reduce-overhead", "max-autotune", "default"),
        "dynamo_use_dynamic": SWITCH,
        "dynamo_use_fullgraph": SWITCH,
        "dynamo_use_regional_compilation": SWITCH,
    },
    "fp8_config": {
        "backend": words("AO", "MSAMP", "TE"),
        "use_autocast_during_eval": SWITCH,
        "margin": COUNT_OR_0,
        "interval": COUNT,
        "fp8_format": words("E4M3", "E5M2", "HYBRID"),
        "amax_history_len": COUNT,
        "amax_compute_algo": words("max", "most_recent"),
        "override_linear_precision": LIST,
        "opt_level": words("O1", "O2"),
        "enable_fsdp_float8_all_gather": SWITCH,
        "pad_inner_dim": SWITCH,
    },
    "fsdp_config": {"fsdp_activation_checkpointing_offload": SWITCH},
    "deepspeed_config": {"zero3_init_flag": SWITCH, "deepspeed_moe_layer_cls_names": TEXT},
    "parallelism_config": {
        **{f"parallelism_config_{name}_size": COUNT for name in ("dp_replicate", "dp_shard", "tp", "cp", "sp")},
        "parallelism_config_cp_backend": words("torch"),
        "parallelism_config_cp_comm_strategy": words("alltoall", "allgather"),
        "parallelism_config_sp_backend": words("deepspeed"),
        "parallelism_config_sp_seq_length": COUNT,
        "parallelism_config_sp_seq_length_is_variable": SWITCH,
        "parallelism_config_sp_attn_implementation": TEXT,
    },
}  # fmt: skip
