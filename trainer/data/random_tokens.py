"""Random tokens for measuring speed: each token is a pure function of (seed, split, sample, position).

Shapes: B batch, T context. Nothing is stored: a data set of any size costs no memory.
"""

import hashlib

import torch
from torch import Tensor

from ...runtime.system.frozen_dataclass import dataclass
from ..config.schema import RandomTokensConfig
from .order import derive_seed
from .source import DataSource


@dataclass(frozen=True)
class RandomTokens:
    """Split with `samples` samples of `context` tokens each. key: this split's seed"""

    key: int
    samples: int
    context: int
    vocabulary: int

    def __len__(self) -> int:
        return self.samples

    def batch(self, indices_B: Tensor) -> tuple[Tensor, Tensor]:
        """Return tokens_BT and targets_BT, int64: each target is the next token."""
        places_BT = indices_B[:, None] * (self.context + 1) + torch.arange(self.context + 1)
        tokens_BT = splitmix64(places_BT + self.key) % self.vocabulary
        return tokens_BT[:, :-1], tokens_BT[:, 1:]


def splitmix64(numbers: Tensor) -> Tensor:
    """Hash int64 -> int64, 0 <= n < 2^63: SplitMix64 (Steele, Lea, Flood 2014); products are modulo 2^64."""
    numbers = numbers * _to_signed_int64(0x9E3779B97F4A7C15)
    numbers = (numbers ^ _shift_right_unsigned(numbers, 30)) * _to_signed_int64(0xBF58476D1CE4E5B9)
    numbers = (numbers ^ _shift_right_unsigned(numbers, 27)) * _to_signed_int64(0x94D049BB133111EB)
    mixed: Tensor = (numbers ^ _shift_right_unsigned(numbers, 31)) & (2**63 - 1)
    return mixed


def _shift_right_unsigned(numbers: Tensor, bits: int) -> Tensor:
    """Shift right as if unsigned."""
    shifted: Tensor = (numbers >> bits) & (2 ** (64 - bits) - 1)
    return shifted


def _to_signed_int64(number: int) -> int:
    return number - 2**64


def open_source(config: RandomTokensConfig, seed: int, context: int) -> DataSource:
    parameters = f"{seed} {config.vocabulary} {config.samples} {config.val_samples} {context}"
    return DataSource(
        name="random_tokens",
        train=RandomTokens(derive_seed(seed, "train"), config.samples, context, config.vocabulary),
        validation=RandomTokens(derive_seed(seed, "validation"), config.val_samples, context, config.vocabulary),
        num_inputs=config.vocabulary,
        num_classes=config.vocabulary,
        tokens_per_sample=context,
        score="bits_per_token",
        summary=f"{config.samples:,} + {config.val_samples:,} held-out samples, vocabulary {config.vocabulary:,}",
        digest=hashlib.sha256(parameters.encode()).hexdigest(),
    )
