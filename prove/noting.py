"""A recipe that records, in order, every sample that a rank reads: one line of numbers per batch.

The campaign other_ranks copies it into its project. Otherwise, it is the trainer's own recipe.
"""

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from jobc_trainer.recipe import Recipe  # type: ignore[import-not-found] # as an artifact has it


@dataclass(frozen=True)
class Noted:
    """A split that records what is read from it."""

    split: Any
    path: Path

    def __len__(self) -> int:
        return len(self.split)

    def batch(self, indices_B: torch.Tensor) -> Any:
        with open(self.path, "a") as notes:
            notes.write(" ".join(map(str, indices_B.tolist())) + "\n")
        return self.split.batch(indices_B)


class Noting(Recipe):  # type: ignore[misc]
    def build_data(self) -> Any:
        folder = Path(os.environ["NOTES"])
        folder.mkdir(exist_ok=True)
        source = super().build_data()
        path = folder / f"{os.environ['JOBC_ATTEMPT']}.{os.environ['RANK']}"
        return replace(source, train=Noted(source.train, path))
