"""The installed Python standard library's source code as a stream of bytes: real text that every node has.

Shapes: B batch, T context. A sample is T bytes of the stream; its targets are the next byte at each position.
The corpus is selected and hashed on the node because nodes with different Python versions have different corpora.
"""

import hashlib
import os
import sysconfig
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import torch
from torch import Tensor

from ...runtime.system.frozen_dataclass import dataclass
from ..config.schema import StdlibBytesConfig
from ..lifecycle.errors import BrokenInput
from .source import DataSource

# Slim images have no tests; the other folders are not part of the standard library.
SKIPPED_FOLDERS = {"test", "tests", "idle_test", "site-packages", "dist-packages", "__pycache__"}
SKIPPED_PREFIXES = ("_sysconfigdata", "sitecustomize", "usercustomize")  # files that depend on the build or the site
LARGEST_FILE_BYTES = 1_000_000
SEPARATOR = b"\0"  # separates files; never part of Python source


@dataclass(frozen=True)
class ByteWindows:
    """Split that consists of non-overlapping windows over stream_N, uint8."""

    stream_N: Tensor
    context: int

    def __len__(self) -> int:
        return max(len(self.stream_N) - 1, 0) // self.context

    def batch(self, indices_B: Tensor) -> tuple[Tensor, Tensor]:
        """Return tokens_BT and targets_BT, int64."""
        places_BT = indices_B[:, None] * self.context + torch.arange(self.context + 1)
        window_BT = self.stream_N[places_BT].long()
        return window_BT[:, :-1], window_BT[:, 1:]


def open_source(config: StdlibBytesConfig, context: int, root: Path | None = None) -> DataSource:
    """Return both splits of the files under `root` (None = the running Python's standard library).

    The hash of a file's content determines whether it is held out, so identical files are in the same split. The cap
    selects files in the order of these hashes, so that a small corpus is a mixture and not just the files at the
    beginning of the alphabet. Raises BrokenInput if a split has no complete window.
    """
    root = root or Path(sysconfig.get_paths()["stdlib"])
    hashed = sorted((hashlib.sha256(text).digest(), path, text) for path, text in corpus_python_files(root))
    chosen: dict[bool, list[tuple[PurePosixPath, bytes]]] = {False: [], True: []}
    total = 0
    for digest, path, text in hashed:
        if config.max_bytes is not None and total >= config.max_bytes:
            break
        total += len(text) + len(SEPARATOR)
        # the last 8 bytes are independent of the first ones, which define the order
        held_out = int.from_bytes(digest[-8:], "big") < config.val_fraction * 2**64
        chosen[held_out].append((path, text))

    streams = {held_out: SEPARATOR.join(text for _, text in sorted(pairs)) for held_out, pairs in chosen.items()}
    if config.max_bytes is not None and total > config.max_bytes:
        # the last file exceeds the cap, so cut both splits in proportion
        streams = {held_out: text[: len(text) * config.max_bytes // total] for held_out, text in streams.items()}
    train, validation = (
        ByteWindows(torch.frombuffer(bytearray(streams[held_out] or SEPARATOR), dtype=torch.uint8), context)
        for held_out in (False, True)
    )
    if not len(train) or not len(validation):
        raise BrokenInput(
            f"data: {root} has {len(train)} training and {len(validation)} held-out samples of {context} bytes",
            [f"found {len(hashed)} Python files, and used {total:,} bytes of them"],
            hint="raise data.max_bytes or data.val_fraction, or use a Python that includes its sources",
        )
    num_files = sum(map(len, chosen.values()))
    return DataSource(
        name="stdlib_bytes",
        train=train,
        validation=validation,
        num_inputs=256,
        num_classes=256,
        tokens_per_sample=context,
        score="bits_per_byte",
        summary=f"{num_files:,} files, {len(streams[False]):,} + {len(streams[True]):,} held-out bytes",
        digest=hashlib.sha256(b"%d " % len(streams[False]) + streams[False] + streams[True]).hexdigest(),
    )


def corpus_python_files(root: Path) -> Iterator[tuple[PurePosixPath, bytes]]:
    """Yield (relative path, content) of every Python file of the corpus under `root`, in no fixed order."""
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if name not in SKIPPED_FOLDERS]
        for name in names:
            if not name.endswith(".py") or name.startswith(SKIPPED_PREFIXES):
                continue
            path = Path(folder, name)
            text = path.read_bytes()
            try:
                text.decode("utf-8")
            except UnicodeDecodeError:
                continue
            if len(text) <= LARGEST_FILE_BYTES:
                yield PurePosixPath(path.relative_to(root).as_posix()), text
