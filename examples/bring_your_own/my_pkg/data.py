"""A map-style data set: the trainer needs only __len__ and __getitem__.

Shapes: P points of one wave.
"""

import math

import torch
from torch import Tensor
from torch.utils.data import Dataset


class Waves(Dataset[tuple[Tensor, int]]):
    """Noisy sine waves with one of `kinds` frequencies, which is the target.

    size   number of waves; first: number of the first wave, so that held-out waves are different ones
    noise  standard deviation; the trainer seeds the noise, which is new in each epoch and the same after a resume
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
