"""Random streams: equal on all ranks while the model is built, then one per rank, kept in checkpoints."""

import random
from dataclasses import dataclass

import torch
from torch import Tensor

from .data.order import mix

PYTHON_WORDS = 625  # random.getstate(): 624 words and the position


def seed_model(seed: int) -> None:
    """Before the model is built: the same initial weights on every rank."""
    _seed(mix(seed, "model"))


def seed_rank(seed: int, rank: int, step: int) -> None:
    """After that: dropout differs between ranks. `step` is where the run begins."""
    _seed(mix(seed, "rank", rank, step))


def _seed(number: int) -> None:
    random.seed(number)
    torch.manual_seed(number)  # also of CUDA


@dataclass(frozen=True)
class RandomState:
    """One rank's states. python int64 [625], cpu and cuda uint8; cuda is empty on a CPU."""

    python: Tensor
    cpu: Tensor
    cuda: Tensor

    @classmethod
    def now(cls, device: torch.device) -> "RandomState":
        """The current state of this process."""
        cuda = torch.cuda.get_rng_state(device) if device.type == "cuda" else torch.empty(0, dtype=torch.uint8)
        return cls(torch.tensor(random.getstate()[1], dtype=torch.int64), torch.get_rng_state(), cuda)

    def set(self, device: torch.device) -> None:
        """Make this the state of this process."""
        random.setstate((3, tuple(self.python.tolist()), None))
        torch.set_rng_state(self.cpu)
        if device.type == "cuda" and len(self.cuda):
            torch.cuda.set_rng_state(self.cuda, device)

    def packed(self) -> Tensor:
        """All of it as one uint8 tensor, so that it can be gathered."""
        return torch.cat([self.python.view(torch.uint8), self.cpu, self.cuda])

    @classmethod
    def unpack(cls, packed: Tensor) -> "RandomState":
        """The inverse of `packed`."""
        python, rest = packed[: 8 * PYTHON_WORDS], packed[8 * PYTHON_WORDS :]
        size = len(torch.get_rng_state())
        return cls(python.clone().view(torch.int64), rest[:size].clone(), rest[size:].clone())
