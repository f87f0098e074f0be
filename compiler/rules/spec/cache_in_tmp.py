"""JC2069: a cache in /tmp that all users of a node would share, or downloads to a /tmp that no node can access."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from ...diagnostics.diagnostic import Diagnostic
from ...spec.job_spec import JobSpec


def check(spec: JobSpec) -> Iterator[Diagnostic]:
    for key in ("downloads", "compiled"):
        folder = getattr(spec.caches, key)
        if folder and _is_temporary(folder) and "$UID" not in folder:
            title = f"caches.{key}={folder} is shared by all users of a node"
            because = "the first user creates the folder, and other users cannot write to it"
            hint = f"caches.{key}={shlex.quote(folder.rstrip('/') + '-$UID')}"
            yield Diagnostic("JC2069", title, because, hint, key=f"caches.{key}")
    if spec.caches.prefetch and _is_temporary(spec.caches.downloads or ""):
        title = f"jobctl prefetch fills {spec.caches.downloads} on one machine only"
        because = "each node has its own /tmp, so the folder would be empty on the other nodes"
        yield Diagnostic("JC2069", title, because, "caches=shared", key="caches.prefetch")


def _is_temporary(folder: str) -> bool:
    return folder.startswith(("/tmp/", "/var/tmp/", "/dev/shm/")) or folder in ("/tmp", "/var/tmp", "/dev/shm")
