"""Compute which samples belong to which step. The order is a pure function of (seed, epoch, index), for every world
size.

Shapes: G global batch, R samples of one rank. Sample k of a global batch goes to rank k mod world size.
Nothing in this module has state, so a resume within an epoch simply continues with the next step.
"""

import functools
import hashlib
import random
import sys

import torch
from torch import Tensor

from ...runtime.system.frozen_dataclass import dataclass


@dataclass(frozen=True)
class SampleOrder:
    """Endless sequence of global batches over `num_samples` samples, reshuffled in each epoch.

    batch:     samples per global batch.
    drop_last: whether to skip an incomplete last batch of an epoch. If false, it is padded with slots of weight 0.
    """

    seed: int
    num_samples: int
    batch: int
    drop_last: bool

    @property
    def steps_per_epoch(self) -> int:
        """Return the number of steps per epoch. It is 0 only with drop_last and fewer samples than one batch."""
        return self.num_samples // self.batch if self.drop_last else -(-self.num_samples // self.batch)

    def epoch_of(self, step: int) -> int:
        """Return the epoch of global step `step`; both count from 0."""
        return step // self.steps_per_epoch

    def num_samples_without_padding(self, first_step: int, num_steps: int) -> int:
        """Return the number of samples, without padding, in `num_steps` steps of one epoch from `first_step`."""
        index = first_step % self.steps_per_epoch
        first, behind = index * self.batch, (index + num_steps) * self.batch
        return min(behind, self.num_samples) - min(first, self.num_samples)

    def global_batch(self, step: int) -> tuple[Tensor, int]:
        """Return indices_G (int64) of global step `step`, all valid, and the number n such that the first n count."""
        epoch, index = divmod(step, self.steps_per_epoch)
        chosen = shuffled_indices(self.seed, epoch, self.num_samples)[index * self.batch : (index + 1) * self.batch]
        if len(chosen) == self.batch:
            return chosen, self.batch
        indices_G = torch.zeros(self.batch, dtype=torch.int64)
        indices_G[: len(chosen)] = chosen
        return indices_G, len(chosen)


def rank_shard(indices_G: Tensor, num_real: int, rank: int, world_size: int) -> tuple[Tensor, int]:
    """Return indices_R, this rank's strided slice of a global batch, and the number n such that the first n count."""
    return indices_G[rank::world_size], len(range(rank, num_real, world_size))


@functools.lru_cache(maxsize=2)
def shuffled_indices(seed: int, epoch: int, num_samples: int) -> Tensor:
    """Return a random permutation of 0 .. num_samples - 1, int64."""
    generator = torch.Generator().manual_seed(derive_seed(seed, "order", epoch))
    return torch.randperm(num_samples, generator=generator)


def derive_seed(*parts: int | str) -> int:
    """Return a seed for torch, 0 <= seed < 2^63, that differs whenever a part differs."""
    text = "/".join(map(str, parts))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def seed_random_draws(number: int) -> None:
    """Seed Python's, torch's CPU and NumPy's generators, but not CUDA's, which torch.manual_seed would reset too."""
    random.seed(number)
    torch.default_generator.manual_seed(number)
    if numpy := sys.modules.get("numpy"):
        numpy.random.seed(number & 0xFFFFFFFF)
