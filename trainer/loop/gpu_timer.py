"""Measure the GPU time of part of a step. Uses CUDA events because kernels run asynchronously."""

import torch


class GpuTimer:
    """Context manager that adds up the GPU time of the blocks that it wraps. It does nothing on a CPU."""

    def __init__(self, device: torch.device) -> None:
        self._is_gpu = device.type == "cuda"
        self._events: list[torch.cuda.Event] = []  # begin, end, begin, end, ...

    def __enter__(self) -> None:
        self._record_event()

    def __exit__(self, *_: object) -> None:
        self._record_event()

    def _record_event(self) -> None:
        if self._is_gpu:
            self._events.append(torch.cuda.Event(enable_timing=True))  # type: ignore[no-untyped-call]
            self._events[-1].record()

    def total_seconds(self) -> float | None:
        """Return the total time. Call this after reading the loss: by then, the GPU has completed these events."""
        if not self._is_gpu:
            return None
        pairs = zip(self._events[::2], self._events[1::2], strict=True)
        return float(sum(begin.elapsed_time(end) for begin, end in pairs)) / 1000
