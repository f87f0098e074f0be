"""Artifacts whose jobctl contains bytecode beside its modules, so that a test that starts it does not compile them.

A run starts jobctl about ten times, and each start otherwise compiles what it imports: two thirds of the CPU time of a
run whose ranks do nothing. Python uses the bytecode only while it has the hash of the module beside it, and only the
version that wrote it, so a test may change a module, or run another Python. `jobc` commands in a process of their own
write jobctl as users get it, without bytecode.
"""

from __future__ import annotations

import importlib.util
import marshal
from collections.abc import Callable, Mapping
from functools import cache

from jobc.compiler.pipeline import jobctl_program

Pack = Callable[[Mapping[str, bytes], int], bytes]
CHECKED_HASH = (0b11).to_bytes(4, "little")  # PEP 552


def pytest_configure() -> None:
    """For a session that a test starts with `-p jobc.tests.bytecode`."""
    add_bytecode()


def add_bytecode() -> None:
    """In this process, from now on."""
    jobctl_program._pack = _with_bytecode(jobctl_program._pack)


def _with_bytecode(pack: Pack) -> Pack:
    def packed(files: Mapping[str, bytes], method: int) -> bytes:
        if method == jobctl_program.zipfile.ZIP_STORED:  # for an engine's file
            return pack(files, method)
        compiled = {f"{path}c": _bytecode(path, text) for path, text in files.items() if path.endswith(".py")}
        return pack({**files, **compiled}, method)

    return packed


@cache
def _bytecode(path: str, text: bytes) -> bytes:
    code = compile(text, path, "exec", dont_inherit=True)
    return importlib.util.MAGIC_NUMBER + CHECKED_HASH + importlib.util.source_hash(text) + marshal.dumps(code)
