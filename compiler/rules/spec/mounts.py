"""Mounts: JC2031, JC2032."""

import re
from collections.abc import Iterator

from ...diagnostics.diagnostic import Diagnostic
from ...spec.job_spec import JobSpec


def check_mount_without_container(spec: JobSpec) -> Iterator[Diagnostic]:
    """JC2031: a mount without a container to mount it into.

    Source: Pyxis 0.24, args.c: it ignores mounts without an image.
    """
    for i, mount in enumerate(spec.mounts):
        if mount.kind == "host" and spec.container.kind == "none":
            title = f"{mount.source} cannot be mounted"
            because = "with container=none the ranks see the node's own file system"
            yield Diagnostic("JC2031", title, because, "mounts=[]", key=f"mounts.{i}.kind")


def check_mount_not_absolute(spec: JobSpec) -> Iterator[Diagnostic]:
    """JC2032: a mount with a relative path."""
    for i, mount in enumerate(spec.mounts):
        for name, path in (("source", mount.source), ("target", mount.target)):
            if not path.startswith("/") and (mount.kind == "host" or name == "target"):
                because = "a relative path would mean different directories on the node and in the container"
                title, hint = f"mounts: {path} is not an absolute path", f"{name}: {_absolute_path(path)}"
                yield Diagnostic("JC2032", title, because, hint, key=f"mounts.{i}.{name}")


def _absolute_path(path: str) -> str:
    """Return an absolute path for a hint. No shell expands the path, so `~` is expanded here."""
    if home := re.match(r"~([^/]*)", path):
        return f"/home/{home[1] or 'NAME'}{path[home.end() :]}"
    return f"/{path.lstrip('./')}"
