"""Whether a state can be read back from a checkpoint, which is read without running code that it might contain.

It is written and read in memory, with empty tensors in place of its own: what their values are makes no difference,
and two more copies of a large model would not fit.
"""

import io
import pickle
import sys
from typing import Any

import torch
from torch import Tensor
from torch.serialization import DEFAULT_PROTOCOL

from .errors import BrokenInput


class Pickler(pickle.Pickler):
    """Pickles a tensor as an empty one of its kind. torch.save looks for this name in its `pickle_module`."""

    def reducer_override(self, value: Any) -> Any:
        """A tensor that wraps others, such as a DTensor, is made of them: they come here in their turn."""
        is_wrapper = isinstance(value, Tensor) and type(value).__torch_dispatch__ is not Tensor.__torch_dispatch__
        if not isinstance(value, Tensor) or is_wrapper or value.is_quantized:  # torch cannot save an empty one of these
            return NotImplemented
        empty = torch.empty(0, dtype=value.dtype).as_subclass(type(value))
        return empty.__reduce_ex__(DEFAULT_PROTOCOL)  # type: ignore[no-untyped-call]


def refuse_what_cannot_be_read(state: Any) -> None:
    """Raises BrokenInput now, and not when the run is resumed."""
    content = io.BytesIO()
    torch.save(state, content, pickle_module=sys.modules[__name__])
    content.seek(0)
    try:
        torch.load(content, map_location="cpu", weights_only=True)
    except Exception as error:
        hint = "save the state_dict of an object, or its numbers, instead of the object"
        raise BrokenInput(
            "save(): a checkpoint may hold tensors, numbers and text only", [str(error)[:300]], hint
        ) from error
