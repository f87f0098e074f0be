"""JC2030: python=image without an image."""

from __future__ import annotations

from collections.abc import Iterator

from ...diagnostics.diagnostic import Diagnostic
from ...spec.job_spec import JobSpec


def check(spec: JobSpec) -> Iterator[Diagnostic]:
    if spec.python.kind == "image" and spec.container.kind == "none":
        because = "container=none starts processes on the node itself"
        hint = "python=none; or image=NAME:TAG and container=docker, apptainer, pyxis or pod"
        yield Diagnostic("JC2030", "python=image needs an image", because, hint, key="python.kind")
