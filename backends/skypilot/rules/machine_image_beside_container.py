"""JC4725: a machine image together with a container image, or on infrastructure that boots no machines."""

from __future__ import annotations

from collections.abc import Iterator

from ....compiler.diagnostics.diagnostic import Diagnostic
from ....compiler.plan.launch_plan import LaunchPlan
from ..config import SITES
from ..options import SkypilotOptions, cloud_of


def check(plan: LaunchPlan, options: SkypilotOptions) -> Iterator[Diagnostic]:
    entries = [(f"backend.{n}", entry) for n in ("any_of", "ordered") for entry in getattr(options, n)]
    images = [("backend.image_id", options.image_id, options.cloud)]
    images += [(key, entry.image_id, cloud_of(entry.infra or options.infra)) for key, entry in entries]
    for key, image_id, cloud in images:
        if image_id is None:
            continue
        if image_id.startswith("docker:"):
            title, because = (
                f"{key}: {image_id} is a container image",
                "it is a machine image; the container image is `image`",
            )
            hint = f"remove {key}; image={image_id[7:]} container=pod"
        elif plan.container.image is not None:
            title, because = (
                f"{key} is set together with image",
                "SkyPilot has only one image_id: the machine's or the container's",
            )
            hint = f"remove {key}; or image=null container=none for the machine's"
        elif cloud in SITES:
            title, because = (
                f"{key} has no machine to boot on {cloud}",
                "only cloud machines have their own image",
            )
            hint = f"remove {key}"
        else:
            continue
        yield Diagnostic("JC4725", title, because, hint, key=key)
