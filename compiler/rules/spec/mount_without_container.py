"""JC2031: a mount without a container to mount it into.

Source: Pyxis 0.24, args.c: it ignores mounts without an image.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...diagnostics.diagnostic import Diagnostic
from ...spec.job_spec import JobSpec


def check(spec: JobSpec) -> Iterator[Diagnostic]:
    for i, mount in enumerate(spec.mounts):
        if mount.kind == "host" and spec.container.kind == "none":
            title = f"{mount.source} cannot be mounted"
            because = "with container=none the ranks see the node's own file system"
            yield Diagnostic("JC2031", title, because, "mounts=[]", key=f"mounts.{i}.kind")
