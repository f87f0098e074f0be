"""What every data source gives the trainer, and the one place that knows which sources there are.

A source has two splits. A split maps sample indices to (inputs, targets); it keeps no position and draws
nothing at random, so the order of samples is order.py's alone and a resume needs one integer.
"""

from dataclasses import dataclass
from typing import Any, Protocol

from torch import Tensor

from ..config import DigitsConfig, RandomTokensConfig, StdlibBytesConfig, TrainConfig
from ..errors import BrokenInput
from ..target import Target

IGNORE = -100  # a target that counts neither in the loss nor in the number of items


class Split(Protocol):
    """Samples 0 .. len - 1."""

    def __len__(self) -> int: ...

    def batch(self, indices_B: Tensor) -> Any:
        """indices_B int64 -> inputs and int64 targets of these samples, first dimension B. Of a user's data: any."""


@dataclass(frozen=True)
class Source:
    """Both splits and what a model must know of them.

    validation         may be empty: then nothing is measured
    num_inputs         features of one input (digits); for tokens the vocabulary size; 0 where a user knows it
    num_classes        targets are 0 .. num_classes - 1; 0 where a user knows it
    tokens_per_sample  1 where a sample has one target
    score              the number that people read: bits_per_byte, bits_per_token, accuracy, loss, or a word of a recipe
    summary            e.g. "574 files, 8,000,112 bytes"
    digest             sha256 over everything in both splits, hex
    """

    name: str
    train: Split
    validation: Split
    num_inputs: int
    num_classes: int
    tokens_per_sample: int
    score: str
    summary: str
    digest: str


def open_source(config: TrainConfig) -> Source:
    """The source that config.data names. Raises BrokenInput when it has too little to train on."""
    from . import digits, mapped, random_tokens, stdlib_bytes

    if isinstance(config.data, Target):
        return mapped.open_source(config)
    if isinstance(config.data, DigitsConfig):
        return digits.open_source(config.data)
    if isinstance(config.data, RandomTokensConfig):
        return random_tokens.open_source(config.data, config.seed, context=_context(config))
    assert isinstance(config.data, StdlibBytesConfig)
    return stdlib_bytes.open_source(config.data, context=_context(config))


def _context(config: TrainConfig) -> int:
    """Tokens of one sample: as the model takes them. rules.contradictions saw to it that it says so."""
    model = config.model
    context = model.get("context") if isinstance(model, Target) else getattr(model, "context", None)
    if not isinstance(context, int):
        raise BrokenInput("model.context: missing; the data take from it the tokens of one sample")
    return context
