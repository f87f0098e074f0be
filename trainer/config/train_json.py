"""Read train.json strictly, and compare it with the one that a run started with.

Input:  train.json, written by the compiler.
Output: TrainConfig, or one BrokenInput that lists every mistake with its path.
Standard library only.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...runtime.system.untrusted_files import Unreadable, read_json
from ..lifecycle.errors import BrokenInput
from . import parse as strict
from . import rules
from .schema import TrainConfig

# A resume is rejected if any of these keys has changed; everything else (steps, nodes, logging) may change.
# drop_last is here because the position in the data is computed from the steps per epoch.
IDENTITY = ("recipe", "model", "data", "loss", "seed", "optim", "batch.global", "loop.drop_last")


def load_train_json(path: str | Path) -> TrainConfig:
    """Read a train.json file. Raises BrokenInput, naming the file and every mistake in it."""
    try:
        tree = read_json(path)
    except Unreadable as error:
        raise BrokenInput(str(error)) from error
    return parse_train_config(tree, str(path))


def parse_train_config(tree: object, where: str = "train.json") -> TrainConfig:
    """Convert `tree`, a result of json.loads, to a TrainConfig. Raises BrokenInput with every mistake."""
    config, problems = strict.parse_dataclass(tree, TrainConfig)
    problems += rules.find_broken_limits(tree)
    if config is not None and not problems:
        problems += rules.find_contradictions(config)
    if problems:
        raise BrokenInput(f"{where}: {len(problems)} problem{'s' * (len(problems) > 1)}", problems)
    assert config is not None
    return config


def identity_keys(config: TrainConfig) -> dict[str, object]:
    """Return the leaves of IDENTITY by dotted path, e.g. {"batch.global": 32, "model.width": 128, ...}, sorted."""
    leaves = _flatten_tree(strict.to_json_types(config), "")
    return {
        path: value
        for path, value in sorted(leaves.items())
        if any(path == key or path.startswith(key + ".") for key in IDENTITY)
    }


def _flatten_tree(tree: Any, path: str) -> dict[str, object]:
    if not isinstance(tree, Mapping) or not tree:
        return {path: tree}
    leaves: dict[str, object] = {}
    for key, value in tree.items():
        leaves |= _flatten_tree(value, f"{path}.{key}" if path else key)
    return leaves
