"""The identity keys: if one of them has changed, a run cannot be resumed."""

from collections.abc import Mapping
from typing import Any

from . import parse as strict
from .schema import TrainConfig

# A resume is rejected if any of these keys has changed; everything else (steps, nodes, logging) may change.
# drop_last is here because the position in the data is computed from the steps per epoch.
IDENTITY = ("recipe", "model", "data", "loss", "seed", "optim", "batch.global", "loop.drop_last")


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
