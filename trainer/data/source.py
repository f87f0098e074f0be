"""What every data source gives the trainer, and the one place that knows which sources there are.

A source has two splits. A split maps sample indices to (inputs, targets); it keeps no position and draws
nothing at random, so the order of samples is order.py's alone and a resume needs one integer.
"""

from dataclasses import dataclass
from typing import Literal, Protocol

from torch import Tensor

from ..config import DigitsConfig, RandomTokensConfig, StdlibBytesConfig, TrainConfig

Score = Literal["bits_per_byte", "bits_per_token", "accuracy"]
IGNORE = -100  # a target that counts neither in the loss nor in the number of items


class Split(Protocol):
    """Samples 0 .. len - 1."""

    def __len__(self) -> int: ...

    def batch(self, indices_B: Tensor) -> tuple[Tensor, Tensor]:
        """indices_B int64 -> inputs and int64 targets of these samples, first dimension B."""


@dataclass(frozen=True)
class Source:
    """Both splits and what a model must know of them.

    num_inputs         features of one input (digits); for tokens the vocabulary size
    num_classes        targets are 0 .. num_classes - 1
    tokens_per_sample  1 where a sample has one target
    score              the number that people read: bits per byte or token, or accuracy
    summary            e.g. "574 files, 8,000,112 bytes"
    digest             sha256 over everything in both splits, hex
    """

    name: str
    train: Split
    validation: Split
    num_inputs: int
    num_classes: int
    tokens_per_sample: int
    score: Score
    summary: str
    digest: str


def open_source(config: TrainConfig) -> Source:
    """The source that config.data names. Raises BrokenInput when it has too little to train on."""
    from . import digits, random_tokens, stdlib_bytes

    if isinstance(config.data, DigitsConfig):
        return digits.open_source(config.data)
    assert config.model.kind == "gpt", "rules.contradictions let this pass"
    if isinstance(config.data, RandomTokensConfig):
        return random_tokens.open_source(config.data, config.seed, context=config.model.context)
    assert isinstance(config.data, StdlibBytesConfig)
    return stdlib_bytes.open_source(config.data, context=config.model.context)
