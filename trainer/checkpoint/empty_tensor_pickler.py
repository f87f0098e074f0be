"""Module that torch.save accepts as `pickle_module`: it pickles each tensor without its values."""

import pickle
from typing import Any

import torch
from torch import Tensor
from torch.serialization import DEFAULT_PROTOCOL


class Pickler(pickle.Pickler):
    """Pickles a tensor as an empty tensor of its type. torch.save looks for this class name in its `pickle_module`."""

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self._reduced: dict[tuple[type, torch.dtype], Any] = {}  # cached because one call per tensor would be slow

    def reducer_override(self, value: Any) -> Any:
        """Reduce a tensor to an empty one. Only the tensors inside a wrapper such as DTensor are reduced."""
        is_wrapper = isinstance(value, Tensor) and type(value).__torch_dispatch__ is not Tensor.__torch_dispatch__
        if not isinstance(value, Tensor) or is_wrapper or value.is_quantized:  # torch cannot save empty ones
            return NotImplemented
        kind = type(value), value.dtype
        if kind not in self._reduced:
            empty = torch.empty(0, dtype=value.dtype).as_subclass(type(value))
            self._reduced[kind] = empty.__reduce_ex__(DEFAULT_PROTOCOL)  # type: ignore[no-untyped-call]
        return self._reduced[kind]
