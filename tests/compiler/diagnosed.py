"""What the tests of wrong input share: writing files, reading what jobc said."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

INTERNALS = (
    "Traceback", "object_type", "full_key", "struct", "DictConfig", "ListConfig", "NoneType", "antlr",
    "mismatched input", "extraneous input", "token recognition", "omegaconf", "recursion depth", "AnyNode", "JC9001",
)  # fmt: skip

Jobc = Callable[..., "tuple[int, str]"]


def write(path: str, content: str | bytes) -> None:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_bytes(content if isinstance(content, bytes) else content.encode())


def codes(printed: str) -> list[str]:
    return re.findall(r"^error\[(JC\d+)\]", printed, re.MULTILINE)


def assert_complete(printed: str) -> None:
    """Every message has a reason and a remedy."""
    for block in printed.strip().split("\n\n"):
        assert "= because: " in block and "= hint: " in block, block
