"""Compile jobs of backend accelerate for its tests."""

from __future__ import annotations

from jobc.compiler.diagnostics.diagnostic import CompileError
from jobc.compiler.pipeline.compile import compile_job
from jobc.compiler.pipeline.types import CompiledJob, CompileRequest

HOSTS = ("hosts=node[1-8]", "nodes=1")


def compiled(*words: str, command: tuple[str, ...] | None = None, backend: str = "accelerate") -> CompiledJob:
    return compile_job(CompileRequest((f"backend={backend}", *(HOSTS if backend != "slurm" else ()), *words), command))


def codes(*words: str, command: tuple[str, ...] | None = ("train.py",)) -> dict[str, str]:
    """key -> code of what is refused."""
    return refused("backend=accelerate", *HOSTS, *words, command=command)


def refused(*words: str, command: tuple[str, ...] | None = ("train.py",)) -> dict[str, str]:
    try:
        compile_job(CompileRequest(words, command))
    except CompileError as error:
        return {diagnostic.key: diagnostic.code for diagnostic in error.diagnostics}
    return {}
