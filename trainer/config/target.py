"""`_target_`: a user's class or function by dotted name, with any arguments, in Hydra's notation.

    {"_target_": "my_pkg.Net", "width": 64, "norm": {"_target_": "torch.nn.LayerNorm", "normalized_shape": 64}}

This module imports no user code: the compiler passes the target on as text, and instantiate.py imports it in the job.
Standard library only.
"""

import re
from collections import UserDict
from collections.abc import Iterator, Mapping
from typing import Any

KEY = "_target_"
DOTTED = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)+")  # a module, and a name in that module


class Target(UserDict[str, Any]):
    """A target as written in the config: `_target_` and its arguments."""

    @property
    def name(self) -> str:
        return str(self[KEY])


def is_target(tree: object) -> bool:
    return isinstance(tree, Mapping) and KEY in tree


def find_target_errors(tree: object, path: str) -> Iterator[str]:
    """Yield the errors in a target and its nested targets, as `path: problem`."""
    if isinstance(tree, list | tuple):
        for i, item in enumerate(tree):
            yield from find_target_errors(item, f"{path}[{i}]")
    if not isinstance(tree, Mapping):
        return
    name = tree.get(KEY)
    if KEY in tree and not (isinstance(name, str) and DOTTED.fullmatch(name)):
        shown = "null" if name is None else repr(name)
        yield f"{path}.{KEY}: expected a dotted name such as my_pkg.Net, found {shown[:60]}"
    for key, value in tree.items():
        if KEY in tree and key.startswith("_") and key != KEY:
            yield f"{path}.{key}: keys next to {KEY} must not start with _, because they are keyword arguments"
        yield from find_target_errors(value, f"{path}.{key}")


def target_names(tree: object) -> Iterator[str]:
    if isinstance(tree, Mapping):
        if isinstance(tree.get(KEY), str):
            yield tree[KEY]
        for value in tree.values():
            yield from target_names(value)
    elif isinstance(tree, list | tuple):
        for item in tree:
            yield from target_names(item)
