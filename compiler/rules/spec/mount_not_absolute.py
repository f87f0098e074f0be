"""JC2032: a mount with a relative path."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ...diagnostics.diagnostic import Diagnostic
from ...spec.job_spec import JobSpec


def check(spec: JobSpec) -> Iterator[Diagnostic]:
    for i, mount in enumerate(spec.mounts):
        for name, path in (("source", mount.source), ("target", mount.target)):
            if not path.startswith("/") and (mount.kind == "host" or name == "target"):
                because = "the node and the container do not share a directory that a relative path could start from"
                title, hint = f"mounts: {path} is not an absolute path", f"{name}: {_absolute(path)}"
                yield Diagnostic("JC2032", title, because, hint, key=f"mounts.{i}.{name}")


def _absolute(path: str) -> str:
    """Return an absolute path for a hint. No shell expands it, so `~` becomes the home folder."""
    if home := re.match(r"~([^/]*)", path):
        return f"/home/{home[1] or 'NAME'}{path[home.end() :]}"
    return f"/{path.lstrip('./')}"
