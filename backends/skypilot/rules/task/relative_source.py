"""JC4709: a relative source, which SkyPilot resolves in its working directory. submit checks that sources exist."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from .....compiler.diagnostics.diagnostic import Diagnostic
from ...finished import FinishedTask


def check(task: FinishedTask) -> Iterator[Diagnostic]:
    for target, mount in task.section("file_mounts").items():
        if not isinstance(mount, (str, Mapping)):
            because, key = (
                "it must be a path, a bucket URL, or a mapping with a source",
                task.key(("file_mounts", target)),
            )
            yield Diagnostic("JC4709", f"{mount!r} is not an absolute path", because, f"remove {key}", key=key)
    for key, source in task.local_files().items():
        if not re.match(r"/|~/", source):
            because = "SkyPilot resolves it in its working directory, which is the run folder"
            title = f"{source!r} is not an absolute path"
            yield Diagnostic("JC4709", title, because, f"~/{source}, or a bucket URL", key=key)
