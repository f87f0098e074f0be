"""JC4717: a name that is none of an image, or not without its `docker:`."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ....compiler.diagnostics.diagnostic import Diagnostic
from ....compiler.plan.launch_plan import LaunchPlan
from ..._shared.kubernetes_forms import IMAGE
from ..options import SkypilotOptions


def check(plan: LaunchPlan, options: SkypilotOptions) -> Iterator[Diagnostic]:
    image = plan.container.image
    if image is None:
        return
    if image.startswith("docker:"):
        because = "jobc says docker: itself, and SkyPilot would look for it twice"
        yield Diagnostic("JC4717", "docker: stands before the image", because, f"image={image[7:]}", key="image")
    elif not re.fullmatch(IMAGE, image):
        because = "it is [REGISTRY/]NAME[:TAG][@DIGEST], the name in small letters"
        yield Diagnostic("JC4717", f"{image!r} is no image", because, "image=pytorch/pytorch:2.9.0", key="image")
