"""JC2032: a mount with a relative path."""

from __future__ import annotations

from collections.abc import Iterator

from ...diagnostics import Diagnostic
from ...spec import JobSpec


def check(spec: JobSpec) -> Iterator[Diagnostic]:
    for i, mount in enumerate(spec.mounts):
        for name, path in (("source", mount.source), ("target", mount.target)):
            if not path.startswith("/") and (mount.kind == "host" or name == "target"):
                because = "the node and the container have no folder in common to start from"
                title, hint = f"mounts: {path} is not an absolute path", f"{name}: /{path.lstrip('./~')}"
                yield Diagnostic("JC2032", title, because, hint, key=f"mounts.{i}.{name}")
