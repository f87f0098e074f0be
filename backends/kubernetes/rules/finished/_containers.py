"""The finished pod's containers, each with the key through which a user can change it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ...extra import KEY, POD

Tree = Mapping[str, Any]
SPEC = f"{KEY}.{POD}.spec"


def containers(pod: Tree) -> Iterator[tuple[Tree, str]]:
    for kind in ("initContainers", "containers"):
        for container in pod.get(kind) or ():
            yield container, f"{SPEC}.{kind}.{container['name']}"
