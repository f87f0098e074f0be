"""Helpers for tests of wrong input: write files, compile words, and read what jobc reported."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from jobc.compiler.diagnostics.diagnostic import CompileError, Diagnostic
from jobc.compiler.pipeline.compile import compile_job
from jobc.compiler.pipeline.types import CompileRequest

INTERNALS = (
    "Traceback", "object_type", "full_key", "struct", "DictConfig", "ListConfig", "NoneType", "antlr",
    "mismatched input", "extraneous input", "token recognition", "omegaconf", "recursion depth", "AnyNode", "JC9001",
)  # fmt: skip

Jobc = Callable[..., "tuple[int, str]"]


def write(path: str, content: str | bytes) -> None:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_bytes(content if isinstance(content, bytes) else content.encode())


def codes(printed: str) -> list[str]:
    return re.findall(r"^error\[(JC\d+) ", printed, re.MULTILINE)


def found(code: str, *command: str, words: tuple[str, ...] = ()) -> list[Diagnostic]:
    try:
        told = compile_job(CompileRequest(words, command or None)).diagnostics
    except CompileError as error:
        told = error.diagnostics
    return [each for each in told if each.code == code]


def in_shell(text: str) -> tuple[str, ...]:
    return ("bash", "-c", text)


def assert_complete(printed: str) -> None:
    """Assert that every message has a reason and a hint."""
    for block in printed.strip().split("\n\n"):
        assert "= because: " in block and "= hint: " in block, block
