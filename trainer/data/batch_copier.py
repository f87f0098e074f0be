"""Copy a batch's tensors to a GPU while the GPU computes."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor


class BatchCopier:
    """Copies batches to the device on a separate CUDA stream, so that copies overlap with computation."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.stream = torch.cuda.Stream(device) if device.type == "cuda" else None  # type: ignore[no-untyped-call]
        self._started: tuple[Any, Any] | None = None  # (batch in host memory, its copy on the device)

    def start_copy(self, batch: Any) -> None:
        if self.stream is not None:
            with torch.cuda.stream(self.stream):
                self._started = (
                    batch,
                    map_tensors(batch, lambda tensor: _pin_if_possible(tensor).to(self.device, non_blocking=True)),
                )

    def finish_copy(self, batch: Any) -> Any:
        """Return the copy of `batch`: the one started earlier, or a new one."""
        if self.stream is None:
            return batch
        if self._started is None or self._started[0] is not batch:
            self.start_copy(batch)
        assert self._started is not None
        copy, self._started = self._started[1], None
        stream = torch.cuda.current_stream(self.device)
        stream.wait_stream(self.stream)

        def use_on_current_stream(tensor: Tensor) -> Tensor:
            tensor.record_stream(stream)  # do not reuse the copy's memory before this stream is done with it
            return tensor

        return map_tensors(copy, use_on_current_stream)


def _pin_if_possible(tensor: Tensor) -> Tensor:
    """Return the tensor in pinned memory if it can be pinned. Only dense tensors in host memory can."""
    can_be = tensor.device.type == "cpu" and tensor.layout == torch.strided
    return tensor.pin_memory() if can_be and not tensor.is_pinned() else tensor


def map_tensors(batch: Any, change: Callable[[Tensor], Any]) -> Any:
    """Return `batch` with `change` applied to every tensor in its mappings, lists, tuples and named tuples."""
    if isinstance(batch, Tensor):
        return change(batch)
    if isinstance(batch, Mapping):
        return {key: map_tensors(value, change) for key, value in batch.items()}
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*(map_tensors(value, change) for value in batch))
    if isinstance(batch, list | tuple):
        return type(batch)(map_tensors(value, change) for value in batch)
    return batch


def iter_tensors(batch: Any) -> Iterator[Tensor]:
    leaves: list[Tensor] = []
    map_tensors(batch, leaves.append)
    yield from leaves
