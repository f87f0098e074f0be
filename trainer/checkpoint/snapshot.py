"""Snapshot of tensors in CPU memory, so that training can continue while the snapshot is written.

The next snapshot reuses the memory because new memory costs page faults and, with a GPU, must be pinned.
"""

import copy
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

Keep = Callable[[Any], Any]  # converts tensors to what will be written: copies, if training continues meanwhile


class Snapshot:
    """Owns the memory for one copy; copy_tree() overwrites the previous copy."""

    def __init__(self) -> None:
        self._memory: dict[str, Tensor] = {}

    def copy_tree(self, tree: Any) -> Any:
        """Return a copy of a tree of mappings, lists, tuples and tensors; tied tensors remain tied."""
        copies: dict[object, Tensor] = {}
        copied = _map_tensors(tree, lambda tensor, path: self._copy_tensor(tensor.detach(), path, copies))
        if torch.cuda.is_available() and any(memory.is_pinned() for memory in copies.values()):
            torch.cuda.current_stream().synchronize()  # copies from a GPU are asynchronous
        return copied

    def _copy_tensor(self, tensor: Tensor, path: str, copies: dict[object, Tensor]) -> Tensor:
        identity = (tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype) if tensor.numel() else path
        if identity not in copies:
            memory = self._memory.get(path)
            if memory is None or (memory.shape, memory.dtype) != (tensor.shape, tensor.dtype):
                memory = torch.empty_like(tensor, device="cpu", pin_memory=tensor.is_cuda)
                self._memory[path] = memory
            copies[identity] = memory.copy_(tensor, non_blocking=True)
        return copies[identity]


def copy_to_cpu(tree: Any) -> Any:
    """Return `tree` with GPU tensors copied to the CPU, so that a machine without a GPU can read the file."""
    return _map_tensors(tree, lambda tensor, _: tensor.detach().cpu())


def _map_tensors(tree: Any, change: Callable[[Tensor, str], Tensor], path: str = "") -> Any:
    """Return `tree` with `change` applied to each tensor and its path."""
    if isinstance(tree, Tensor):
        return change(tree, path)
    if isinstance(tree, Mapping):
        shallow: Any = copy.copy(tree)  # keeps a state_dict's metadata
        for key, item in tree.items():
            shallow[key] = _map_tensors(item, change, f"{path}/{key}")
        return shallow
    if isinstance(tree, (list, tuple)):
        return type(tree)(_map_tensors(item, change, f"{path}/{number}") for number, item in enumerate(tree))
    return tree
