"""Export the trained weights for use without this trainer.

    final/weights.pt   a state_dict on the CPU, for torch.load(…, weights_only=True)
    final/model.json   the configuration of the module

`load` rebuilds the module from both files. weights.pt can be loaded into any module with the same parameter names.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import get_type_hints

import torch
from torch import Tensor, nn

from ..runtime.system.untrusted_files import Unreadable, is_nonnegative_integer, open_regular, read_json
from .checkpoint import safe_pickle
from .checkpoint.snapshot import copy_to_cpu
from .checkpoint.verified_checkpoint import torch_file_writer
from .config import parse as strict
from .config.schema import TrainConfig
from .config.target import Target
from .data.source import DataSource
from .files import replace_durably, sha256_of
from .lifecycle.errors import BrokenInput
from .models.build import build_model

SIZES = ("num_inputs", "num_classes")  # of the data, on which the model depends


def write_export(
    folder: Path, weights: Mapping[str, Tensor], config: TrainConfig, source: DataSource, step: int
) -> str:
    """Write both files, and return the SHA-256 of weights.pt in hex. Raises OSError."""
    sha256 = replace_durably(folder / "weights.pt", torch_file_writer(copy_to_cpu(weights))).sha256
    sidecar = {
        "format": 1,
        "job": config.job,
        "step": step,
        "recipe": config.recipe,
        "model": strict.to_json_types(config.model),
        **{name: getattr(source, name) for name in SIZES},
        "torch": torch.__version__,
        "weights_sha256": sha256,
    }
    replace_durably(folder / "model.json", (json.dumps(sidecar, indent=2) + "\n").encode())
    return sha256


def load(folder: str | Path, trusted: bool = False) -> nn.Module:
    """Return the trained module, on the CPU and in eval mode.

    folder: `final` in a run folder.
    trusted: whether model.json may name a class or function to call, which can be anything importable.

    Raises BrokenInput if the files do not match or the model cannot be rebuilt, and OSError if a file is missing.
    """
    folder = Path(folder)
    try:
        sidecar = read_json(folder / "model.json")
    except Unreadable as error:
        raise (error.error or BrokenInput(str(error))) from error
    if not isinstance(sidecar, dict) or not all(is_nonnegative_integer(sidecar.get(name)) for name in SIZES):
        raise BrokenInput(f"{folder}/model.json was not written by the trainer")
    with open_regular(folder / "weights.pt") as file:
        if sha256_of(file) != sidecar.get("weights_sha256"):
            raise BrokenInput(f"{folder}/weights.pt does not belong to model.json")
        if sidecar.get("recipe") is not None:
            hint = f"load weights.pt into the model returned by build_model() in {sidecar['recipe']}"
            raise BrokenInput(f"{folder}: a recipe built the model, so model.json is not enough to load it", hint=hint)
        model, problems = strict.parse_dataclass(sidecar.get("model"), get_type_hints(TrainConfig)["model"])
        if model is None:
            raise BrokenInput(f"{folder}/model.json: this version of the trainer does not support the model", problems)
        if isinstance(model, Target) and not trusted:
            hint = "use load(folder, trusted=True) if you trust the author of the folder"
            raise BrokenInput(f"{folder}/model.json: loading would run the code {model.name}", hint=hint)
        module = build_model(model, *(sidecar[name] for name in SIZES))
        file.seek(0)
        weights = safe_pickle.load_without_running_code(folder / "weights.pt", file)
    try:
        module.load_state_dict(weights)
    except (RuntimeError, TypeError, AttributeError) as error:
        raise BrokenInput(f"{folder}/weights.pt does not fit the model in model.json") from error
    return module.eval()
