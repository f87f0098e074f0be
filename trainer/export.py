"""The result of a finished training, for people who do not run this trainer.

    final/weights.pt   a state_dict on the CPU, for torch.load(…, weights_only=True)
    final/model.json   what builds the module that it belongs to

`load` is their way back to a module; the weights alone load into any module with the same names.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import get_type_hints

import torch
from torch import Tensor, nn

from . import strict
from .checkpoint import torch_file
from .config import TrainConfig
from .durable import replace_durably, sha256_of
from .errors import BrokenInput
from .models.build import Sizes, build_model
from .snapshot import on_cpu


@dataclass(frozen=True)
class Trained:
    """The sizes that a model takes from its data; see data.source.Source."""

    num_inputs: int
    num_classes: int


def write(folder: Path, weights: Mapping[str, Tensor], config: TrainConfig, sizes: Sizes, step: int) -> str:
    """Write both files; the sha256 of the weights. Raises OSError."""
    sha256 = replace_durably(folder / "weights.pt", torch_file(on_cpu(weights))).sha256
    sidecar = {
        "format": 1,
        "job": config.job,
        "step": step,
        "model": strict.plain(config.model),
        "num_inputs": sizes.num_inputs,
        "num_classes": sizes.num_classes,
        "torch": torch.__version__,
        "weights_sha256": sha256,
    }
    replace_durably(folder / "model.json", (json.dumps(sidecar, indent=2) + "\n").encode())
    return sha256


def load(folder: str | Path) -> nn.Module:
    """The trained module, on the CPU and in evaluation mode. folder: `final` of a run

    Raises BrokenInput when the two files are not of one training, OSError when one is not there.
    """
    folder = Path(folder)
    sidecar = json.loads((folder / "model.json").read_text(encoding="utf-8"))
    with open(folder / "weights.pt", "rb") as file:
        if sha256_of(file) != sidecar["weights_sha256"]:
            raise BrokenInput(f"{folder}/weights.pt is not the file that model.json was written for")
    model, problems = strict.parse(sidecar["model"], get_type_hints(TrainConfig)["model"])
    if model is None:
        raise BrokenInput(f"{folder}/model.json: this version of the trainer has no such model", problems)
    module = build_model(model, Trained(sidecar["num_inputs"], sidecar["num_classes"]))
    module.load_state_dict(torch.load(folder / "weights.pt", weights_only=True))
    return module.eval()
