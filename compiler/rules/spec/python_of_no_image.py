"""JC2030: the Python of an image, where there is no image."""

from __future__ import annotations

from collections.abc import Iterator

from ...diagnostics import Diagnostic
from ...spec import JobSpec


def check(spec: JobSpec) -> Iterator[Diagnostic]:
    if spec.python.kind == "image" and spec.container.kind == "none":
        because = "container=none starts processes on the node itself"
        hint = "env=none; or image=NAME:TAG and container=docker, apptainer, pyxis or pod"
        yield Diagnostic("JC2030", "env=image, and there is no image", because, hint, key="python.kind")
