"""Interface of a data source.

A source has two splits. A split maps sample indices to (inputs, targets). It has no position and no randomness, so the
order of samples is determined only by order.py, and a resume needs only one integer.
"""

from typing import Any, Protocol

from torch import Tensor

from ...runtime.system.frozen_dataclass import dataclass

IGNORE = -100  # target that is excluded from the loss and from the number of items


class Split(Protocol):
    """Samples 0 .. len - 1."""

    def __len__(self) -> int: ...

    def batch(self, indices_B: Tensor) -> Any:
        """Return the inputs and int64 targets of samples indices_B (int64); their first dimension is B. A split of user
        data may return anything.
        """


@dataclass(frozen=True)
class DataSource:
    """Both splits, and the properties of the data that a model needs.

    validation:        may be empty, which disables validation.
    num_inputs:        number of features of one input (digits), or the vocabulary size (tokens), or 0 for user data.
    num_classes:       targets are 0 .. num_classes - 1, or 0 for user data.
    tokens_per_sample: 1 if a sample has one target.
    score:             name of the score: bits_per_byte, bits_per_token, accuracy, loss, or a name from a recipe.
    summary:           e.g. "574 files, 8,000,112 bytes".
    digest:            SHA-256 of all content in both splits, hex.
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
