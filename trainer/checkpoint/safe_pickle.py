"""Check that a state can be loaded from a checkpoint without running code from it.

It is written and read in memory, with empty tensors in place of its own: what their values are makes no difference,
and two more copies of a large model would not fit.
"""

import io
import pickle
import sys
from pathlib import Path
from typing import Any, BinaryIO

import torch
from torch import Tensor
from torch.serialization import DEFAULT_PROTOCOL

from ..lifecycle.errors import BrokenInput


class Pickler(pickle.Pickler):
    """Pickles a tensor as an empty one of its kind. torch.save looks for this name in its `pickle_module`."""

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self._reduced: dict[tuple[type, torch.dtype], Any] = {}  # each of its own would be slow for a large model

    def reducer_override(self, value: Any) -> Any:
        """A tensor that wraps others, such as a DTensor, is made of them: they come here in their turn."""
        is_wrapper = isinstance(value, Tensor) and type(value).__torch_dispatch__ is not Tensor.__torch_dispatch__
        if not isinstance(value, Tensor) or is_wrapper or value.is_quantized:  # torch cannot save an empty one of these
            return NotImplemented
        kind = type(value), value.dtype
        if kind not in self._reduced:
            empty = torch.empty(0, dtype=value.dtype).as_subclass(type(value))
            self._reduced[kind] = empty.__reduce_ex__(DEFAULT_PROTOCOL)  # type: ignore[no-untyped-call]
        return self._reduced[kind]


def refuse_what_cannot_be_read(whose: str, state: Any) -> None:
    """Raises BrokenInput now, and not when the run is resumed. whose: state it is, for the first line"""
    content = io.BytesIO()
    try:
        torch.save(state, content, pickle_module=sys.modules[__name__])
        content.seek(0)
        torch.load(content, map_location="cpu", weights_only=True)
    except Exception as error:
        raise BrokenInput(
            f"{whose}: a checkpoint may only contain tensors, numbers and text",
            [why_unread(error)],
            hint="save the state_dict of an object, or its numbers, instead of the object",
        ) from error


def load(path: Path, file: BinaryIO) -> Any:
    """Load tensors and plain values of `file`, opened from `path`, without running code. Raises BrokenInput."""
    try:
        return torch.load(file, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise BrokenInput(f"{path} contains more than tensors, so it is not loaded: {why_unread(error)}") from error
    except (RuntimeError, ValueError, LookupError, EOFError, TypeError, AttributeError, OverflowError) as error:
        raise BrokenInput(f"{path} is not a torch.save file ({type(error).__name__})") from error


def why_unread(error: Exception) -> str:
    """Return torch's message without its advice to load the file anyway (torch 2.13)."""
    message = str(error).rpartition("WeightsUnpickler error: ")[2]
    lines = [line for line in message.splitlines() if line.strip() and not line.startswith("Weights only load failed")]
    return (lines or [type(error).__name__])[0].partition(". Please")[0]
