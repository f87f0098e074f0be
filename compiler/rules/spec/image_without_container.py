"""JC2008: an image that nothing runs."""

from __future__ import annotations

from collections.abc import Iterator

from ...diagnostics.diagnostic import Diagnostic
from ...spec.job_spec import JobSpec


def check(spec: JobSpec) -> Iterator[Diagnostic]:
    if spec.image is not None and spec.container.kind == "none":
        because = "container=none starts processes on the node itself"
        hint = "image=null; or a backend that has one of container=docker, apptainer, pyxis and pod"
        yield Diagnostic("JC2008", "image is set, but no container runs it", because, hint, key="image")
