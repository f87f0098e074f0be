"""Cache the bytecode of jobctl's modules in the user's cache. Compiling them takes half the time of a short command.

Python does not cache bytecode for modules in a zip file. Before Python 3.10, zipimport does not call a subclass's
get_code(), so this module has no effect.
Source: Lib/zipimport.py of Python 3.8 to 3.14.
"""

from __future__ import annotations

import atexit
import marshal
import os
import sys
import zlib
from types import CodeType
from typing import TYPE_CHECKING
from zipimport import zipimporter

from . import user_cache

if TYPE_CHECKING:
    from collections.abc import Callable

KIND, MOST_FILES = "bytecode", 64  # folder in the user's cache, with a file for each program and Python
MOST_MODULES = 300  # per file, enough for several backends and versions of jobc

_codes: dict[tuple[str, int, int], CodeType] = {}  # by module name, and the source's length and CRC-32


class _Importer(zipimporter):
    """Imports modules from a zip file, and compiles only those whose bytecode is not cached."""

    def get_filename(self, fullname: str) -> str:
        """Return the path of a module without compiling it, unlike zipimporter's own method."""
        path = os.path.join(self.archive, self.prefix, fullname.rpartition(".")[2])
        return os.path.join(path, "__init__.py") if self.is_package(fullname) else f"{path}.py"

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        source = self.get_data(path)
        module = fullname, len(source), zlib.crc32(source)
        if module not in _codes:
            shown = "jobctl" + path[len(self.archive) :]  # the same bytecode is used for all copies of jobctl
            _codes[module] = compile(source, shown, "exec", dont_inherit=True)
        return _codes[module]


def use_cache(archive: str, program: str) -> Callable[[], None]:
    """Let later imports from a zip file use the cached bytecode.

    archive: path of the zip file.
    program: the program in it that is running, which has its own cache file.
    Returns a function that writes newly compiled bytecode to the cache. It is also called when Python exits.
    """
    key = repr((program, sys.version, sys.flags.optimize)).encode()
    if (known := user_cache.read(KIND, key)) is not None:
        _codes.update(marshal.loads(known))
    num_kept = len(_codes)
    if num_kept > MOST_MODULES:
        _codes.clear()

    def keep_bytecode() -> None:
        nonlocal num_kept
        if len(_codes) != num_kept and not sys.dont_write_bytecode:
            user_cache.write(KIND, key, marshal.dumps(_codes), MOST_FILES)
            num_kept = len(_codes)

    def importer_for(path: str) -> _Importer:
        if path == archive or path.startswith(archive + os.sep):
            return _Importer(path)
        raise ImportError  # as sys.path_hooks requires

    for path in [path for path in sys.path_importer_cache if path.startswith(archive)]:
        del sys.path_importer_cache[path]
    sys.path_hooks.insert(0, importer_for)
    atexit.register(keep_bytecode)
    return keep_bytecode
