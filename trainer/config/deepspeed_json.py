"""Compute DeepSpeed's config from train.json, and compare it with a given deepspeed.json.

Input:  the tree of train.json.
Output: the tree of deepspeed.json, whose three batch sizes are consistent numbers, never "auto".
Source: DeepSpeed 0.19.8, runtime/config.py and runtime/zero/config.py. Standard library only.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

Tree = Mapping[str, Any]
Leaf = Callable[[Tree], Any]


def _offload_settings(parallel: Tree, key: str) -> dict[str, Any] | None:
    device = parallel[key]
    if device == "none":
        return None
    path = {"nvme_path": parallel["nvme_path"]} if device == "nvme" else {}
    return {"device": device, "pin_memory": True, **path}


# Every leaf is a function of train.json; a leaf that returns None is omitted.
DOCUMENT: Mapping[str, Leaf | Mapping[str, Leaf]] = {
    "train_batch_size": lambda train: train["batch"]["global"],
    "train_micro_batch_size_per_gpu": lambda train: train["batch"]["micro"],
    "gradient_accumulation_steps": lambda train: train["batch"]["accumulation"],
    "gradient_clipping": lambda train: train["optim"]["clip_norm"],
    # bf16 autocast over fp32 weights, as in loop.precision; DeepSpeed disables autocast unless its config enables it
    "torch_autocast": lambda train: (
        {"enabled": True, "dtype": "bfloat16"} if train["loop"]["precision"] == "bf16" else None
    ),
    "zero_force_ds_cpu_optimizer": lambda train: train["parallel"]["zero_force_ds_cpu_optimizer"],
    "zero_optimization": {
        "stage": lambda train: train["parallel"]["zero_stage"],
        "overlap_comm": lambda train: train["parallel"]["overlap_comm"],
        "contiguous_gradients": lambda train: train["parallel"]["contiguous_gradients"],
        "reduce_bucket_size": lambda train: train["parallel"]["reduce_bucket_size"],
        "offload_optimizer": lambda train: _offload_settings(train["parallel"], "offload_optimizer_device"),
        "offload_param": lambda train: _offload_settings(train["parallel"], "offload_param_device"),
    },
}


# DeepSpeed sections for settings that train.json also contains. The trainer accepts only the values in train.json.
SAID_BY: Mapping[str, str] = {
    **dict.fromkeys(("fp16", "bf16", "bfloat16", "amp", "torch_autocast"), "loop.precision"),
    "optimizer": "optim",
    "scheduler": "optim.schedule",
    **dict.fromkeys(("tensor_parallel", "expert_parallel", "pipeline"), "parallel"),
}


def deepspeed_config(train: Tree) -> dict[str, Any]:
    return _without_null(_evaluate_settings(DOCUMENT, train))


def find_contradictions(given: object, train: Tree) -> list[str]:
    """Return contradictions between deepspeed.json and train.json as `path: a, not b`. Extra keys are ignored."""
    return list(_describe_differences({**dict.fromkeys(SAID_BY), **_evaluate_settings(DOCUMENT, train)}, given, ""))


def _evaluate_settings(node: Mapping[str, Any], train: Tree) -> dict[str, Any]:
    return {
        key: _evaluate_settings(leaf, train) if isinstance(leaf, Mapping) else leaf(train) for key, leaf in node.items()
    }


def _without_null(tree: Tree) -> dict[str, Any]:
    return {
        key: _without_null(value) if isinstance(value, Mapping) else value
        for key, value in tree.items()
        if value is not None
    }


def _describe_differences(ours: Tree, theirs: object, prefix: str) -> Iterator[str]:
    for key, value in ours.items():
        found = theirs.get(key) if isinstance(theirs, Mapping) else None
        path = f"{prefix}{key}"
        if isinstance(value, Mapping):
            yield from _describe_differences(value, found, f"{path}.")
        elif value is None and found is not None:
            setting = "optim.clip_norm" if path == "gradient_clipping" else SAID_BY.get(path, "parallel")
            yield f"{path}: set, but {setting} omits it"
        elif found != value:
            yield f"{path}: {'missing' if found is None else found}, not {value}"
