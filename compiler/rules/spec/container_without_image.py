"""JC2009: a container runtime without an image."""

from __future__ import annotations

from collections.abc import Iterator

from ...diagnostics.diagnostic import Diagnostic
from ...spec.examples import IMAGE
from ...spec.job_spec import JobSpec


def check(spec: JobSpec) -> Iterator[Diagnostic]:
    if spec.image is None and spec.container.kind != "none":
        because = f"{spec.container.kind} runs the container image that `image` sets"
        hint = f"image={IMAGE}" + (", or container=none" if spec.container.kind != "pod" else "")
        yield Diagnostic("JC2009", f"container={spec.container.kind} needs an image", because, hint, key="image")
