"""JC4717: an invalid image name, or one that starts with `docker:`."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ....compiler.diagnostics.diagnostic import Diagnostic
from ....compiler.plan.launch_plan import LaunchPlan
from ....compiler.spec.examples import IMAGE as USUAL
from ..._shared.kubernetes_forms import IMAGE
from ..options import SkypilotOptions


def check(plan: LaunchPlan, options: SkypilotOptions) -> Iterator[Diagnostic]:
    image = plan.container.image
    if image is None:
        return
    if image.startswith("docker:"):
        because = "jobc adds docker: itself, and a second one would be part of the image name"
        yield Diagnostic("JC4717", "image must not start with docker:", because, f"image={image[7:]}", key="image")
    elif not re.fullmatch(IMAGE, image):
        because = "it must be [REGISTRY/]NAME[:TAG][@DIGEST], with a lower-case name"
        yield Diagnostic("JC4717", f"{image!r} is not a valid image", because, f"image={USUAL}", key="image")
