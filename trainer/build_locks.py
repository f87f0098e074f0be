"""Locks of C++ builds that a killed process has left: the next one would wait for them without end.

torch.utils.cpp_extension (torch 2.13, file_baton.py) marks a build by an empty file `lock` beside it, which only the
process that made it removes. A lock of the kernel is held beside it here, and ends with its process.
"""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from torch.utils import cpp_extension


def extensions_folder() -> Path:
    return Path(os.environ.get("TORCH_EXTENSIONS_DIR") or cpp_extension.get_default_build_root())


@contextlib.contextmanager
def may_build(folder: Path) -> Iterator[None]:
    """Around what may build extensions in `folder`. Who is the only one there removes the locks that are left."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".jobc_lock").open("w") as mine:
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(mine, fcntl.LOCK_EX | fcntl.LOCK_NB)
            for left in (*folder.glob("*/lock"), *folder.glob("*/*/lock")):
                left.unlink(missing_ok=True)
        fcntl.flock(mine, fcntl.LOCK_SH)
        yield
