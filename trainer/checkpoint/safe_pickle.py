"""Check that a state can be loaded from a checkpoint without running code from it.

The check saves and loads the state in memory, with empty tensors: the values do not matter, and there may be no room
for two more copies of a large model.
"""

import io
import pickle
from pathlib import Path
from typing import Any, BinaryIO

import torch

from ..lifecycle.errors import BrokenInput
from . import empty_tensor_pickler


def require_loadable_state(whose: str, state: Any) -> None:
    """Raise BrokenInput if a resume could not load the state. whose: name of the state in the message"""
    content = io.BytesIO()
    try:
        torch.save(state, content, pickle_module=empty_tensor_pickler)
        content.seek(0)
        torch.load(content, map_location="cpu", weights_only=True)
    except Exception as error:
        raise BrokenInput(
            f"{whose}: a checkpoint may only contain tensors, numbers and text",
            [shorten_load_error(error)],
            hint="save the state_dict of an object, or its numbers, instead of the object",
        ) from error


def load_without_running_code(path: Path, file: BinaryIO) -> Any:
    """Return the tensors and plain values in `file`, opened from `path`, without running code. Raises BrokenInput."""
    try:
        return torch.load(file, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise BrokenInput(
            f"{path} contains more than tensors, so it is not loaded: {shorten_load_error(error)}"
        ) from error
    except (RuntimeError, ValueError, LookupError, EOFError, TypeError, AttributeError, OverflowError) as error:
        raise BrokenInput(f"{path} was not written by torch.save ({type(error).__name__})") from error


def shorten_load_error(error: Exception) -> str:
    """Return torch's message without the advice to load the file anyway (torch 2.13)."""
    message = str(error).rpartition("WeightsUnpickler error: ")[2]
    lines = [line for line in message.splitlines() if line.strip() and not line.startswith("Weights only load failed")]
    return (lines or [type(error).__name__])[0].partition(". Please")[0]
