"""JC2008: an image without a container runtime."""

from __future__ import annotations

from collections.abc import Iterator

from ...diagnostics.diagnostic import Diagnostic, Severity
from ...spec.job_spec import JobSpec


def check(spec: JobSpec) -> Iterator[Diagnostic]:
    if spec.image is not None and spec.container.kind == "none":
        because = "container=none starts processes directly on the node, without the image"
        hint = "image=null; or a backend that supports container=docker, apptainer, pyxis or pod"
        title = "image is set, but container=none"
        yield Diagnostic("JC2008", title, because, hint, key="image", severity=Severity.WARNING)
