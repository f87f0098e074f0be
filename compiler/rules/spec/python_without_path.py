"""JC2011: a Python environment in a folder, without the folder's path."""

from __future__ import annotations

from collections.abc import Iterator

from ...diagnostics.diagnostic import Diagnostic
from ...spec.job_spec import JobSpec


def check(spec: JobSpec) -> Iterator[Diagnostic]:
    if spec.python.kind in ("venv", "uv", "conda") and spec.python.path is None:
        because = f"python={spec.python.kind} activates the environment that python.path names"
        yield Diagnostic("JC2011", "python.path is not set", because, "python.path=.venv", key="python.path")
