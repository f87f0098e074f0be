"""JC4331: an image file given by a relative path, which Pyxis would look for in a registry."""

from __future__ import annotations

from collections.abc import Iterator

from ....compiler.diagnostics.diagnostic import Diagnostic
from ....compiler.plan.launch_plan import LaunchPlan
from ..options import SlurmOptions


def check(plan: LaunchPlan, options: SlurmOptions) -> Iterator[Diagnostic]:
    if plan.container.kind != "pyxis":
        return
    image = plan.container.image or ""
    if image.startswith(".") or (image.endswith((".sqsh", ".sif")) and not image.startswith("/")):
        because = "each node has a different working directory, and a name without / is pulled from a registry"
        yield Diagnostic(
            "JC4331", f"image {image} is not an absolute path", because, "image=/shared/NAME.sqsh", key="image"
        )
