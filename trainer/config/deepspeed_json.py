"""Compute DeepSpeed's config from train.json, and compare it with a given deepspeed.json.

Input:  the tree of train.json.
Output: the tree of deepspeed.json, whose three batch sizes are consistent numbers, never "auto".
Source: DeepSpeed 0.19.8, runtime/config.py and runtime/zero/config.py. Standard library only.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

Tree = Mapping[str, Any]
Leaf = Callable[[Tree], Any]


def _offload(device: str) -> Leaf:
    """Return the leaf for `offload_optimizer` or `offload_param`. Its value is None if nothing is offloaded."""

    def read_offload(train: Tree) -> Any:
        target = train["parallel"][device]
        if target == "none":
            return None
        return {"device": target, "pin_memory": True} | (
            {"nvme_path": train["parallel"]["nvme_path"]} if target == "nvme" else {}
        )

    return read_offload


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
        "offload_optimizer": _offload("offload_optimizer_device"),
        "offload_param": _offload("offload_param_device"),
    },
}


def deepspeed_config(train: Tree) -> dict[str, Any]:
    """Return the config for `deepspeed.initialize`."""

    def omit_null(node: Mapping[str, Any]) -> dict[str, Any]:
        values = {key: omit_null(leaf) if isinstance(leaf, Mapping) else leaf(train) for key, leaf in node.items()}
        return {key: value for key, value in values.items() if value is not None}

    return omit_null(DOCUMENT)


# DeepSpeed sections for settings that train.json also contains. The trainer accepts only the values in train.json.
SAID_BY: Mapping[str, str] = {
    **dict.fromkeys(("fp16", "bf16", "bfloat16", "amp", "torch_autocast"), "loop.precision"),
    "optimizer": "optim",
    "scheduler": "optim.schedule",
    **dict.fromkeys(("tensor_parallel", "expert_parallel", "pipeline"), "parallel"),
}


def find_contradictions(given: object, train: Tree) -> list[str]:
    """Return contradictions between deepspeed.json and train.json as `path: a, not b`. Extra keys are ignored."""
    tree = given if isinstance(given, Mapping) else {}
    ours, theirs = dict(_leaves(deepspeed_config(train), "")), dict(_leaves(tree, ""))
    wrong = [
        f"{path}: {theirs.get(path, 'missing')}, not {value}"
        for path, value in ours.items()
        if theirs.get(path) != value
    ]
    extra = [path for path in _omitted_keys(train) if _at(tree, path) is not None]
    return [*wrong, *(f"{'.'.join(path)}: set, but {_key(path)} omits it" for path in extra)]


def _omitted_keys(train: Tree) -> Iterator[tuple[str, ...]]:
    """Yield the keys that train.json determines and deepspeed.json must omit."""
    config = deepspeed_config(train)
    yield from ((name,) for name in SAID_BY if name not in config)
    for name, node in DOCUMENT.items():
        if isinstance(node, Mapping):
            yield from ((name, inner) for inner in node if inner not in config[name])
        elif name not in config and name not in SAID_BY:
            yield (name,)


def _key(path: tuple[str, ...]) -> str:
    return "optim.clip_norm" if path == ("gradient_clipping",) else SAID_BY.get(path[0], "parallel")


def _at(tree: Tree, path: tuple[str, ...]) -> Any:
    node: Any = tree
    for part in path:
        node = node.get(part) if isinstance(node, Mapping) else None
    return node


def _leaves(tree: Mapping[str, Any], path: str) -> Iterator[tuple[str, Any]]:
    for key, value in tree.items():
        leaf_path = f"{path}.{key}" if path else key
        if isinstance(value, Mapping):
            yield from _leaves(value, leaf_path)
        else:
            yield leaf_path, value
