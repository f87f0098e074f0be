"""A map-style data set: __len__ and __getitem__ are all that the trainer asks for.

Shapes: P points of one wave.
"""

import math

import torch
from torch import Tensor
from torch.utils.data import Dataset


class Waves(Dataset[tuple[Tensor, int]]):
    """Noisy sine waves of one of `kinds` frequencies, which is the target.

    size   waves; first: number of the first one, so that held-out waves are others
    noise  standard deviation; drawn anew in each epoch, and the same in every resume: the trainer seeds it
    """

    def __init__(self, size: int, first: int = 0, kinds: int = 4, points: int = 32, noise: float = 0.3) -> None:
        self.size, self.first, self.kinds, self.points, self.noise = size, first, kinds, points, noise

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        number = self.first + index
        kind = number % self.kinds
        times_P = torch.linspace(0, 2 * math.pi, self.points)
        wave_P = torch.sin((kind + 1) * times_P + 0.37 * number)
        return wave_P + self.noise * torch.randn(self.points), kind
