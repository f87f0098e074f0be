"""Interface of a data source.

A source has two splits. A split maps sample indices to (inputs, targets); it keeps no position and draws
nothing at random, so the order of samples is order.py's alone and a resume needs one integer.
"""

from dataclasses import dataclass
from typing import Any, Protocol

from torch import Tensor

IGNORE = -100  # a target that counts neither in the loss nor in the number of items


class Split(Protocol):
    """Samples 0 .. len - 1."""

    def __len__(self) -> int: ...

    def batch(self, indices_B: Tensor) -> Any:
        """indices_B int64 -> inputs and int64 targets of these samples, first dimension B. Of a user's data: any."""


@dataclass(frozen=True)
class DataSource:
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
