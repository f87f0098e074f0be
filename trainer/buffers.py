"""A model's buffers, such as running means of BatchNorm: a forward pass changes them, whatever becomes of its step."""

from torch import Tensor, nn


class Buffers:
    """Of one module. keep() copies them, put_back() undoes what came after."""

    def __init__(self, module: nn.Module) -> None:
        self._module = module
        self._kept: list[tuple[Tensor, Tensor]] = []

    def keep(self) -> None:
        self._kept = [(buffer, buffer.detach().clone()) for buffer in self._module.buffers()]

    def put_back(self) -> None:
        for buffer, before in self._kept:
            buffer.copy_(before)
        self._kept = []
