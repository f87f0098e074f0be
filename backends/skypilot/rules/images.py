"""Container images and machine images: JC4711, JC4717, JC4725."""

import re
from collections.abc import Iterator

from ....compiler.api import Diagnostic, LaunchPlan, Severity
from ....compiler.spec.examples import IMAGE as USUAL
from ..._shared.kubernetes_formats import IMAGE
from ..config import SITES, requested_cloud
from ..options import SkypilotOptions, infra_cloud


def check_invalid_image_name(plan: LaunchPlan, options: SkypilotOptions) -> Iterator[Diagnostic]:
    """JC4717: an invalid image name, or one that starts with `docker:`."""
    image = plan.container.image
    if image is None:
        return
    if image.startswith("docker:"):
        because = "jobc adds docker: itself, and a second prefix would be part of the image name"
        yield Diagnostic("JC4717", "image must not start with docker:", because, f"image={image[7:]}", key="image")
    elif not re.fullmatch(IMAGE, image):
        because = "an image must be [REGISTRY/]NAME[:TAG][@DIGEST], with a lower-case name"
        yield Diagnostic("JC4717", f"{image!r} is not a valid image", because, f"image={USUAL}", key="image")


def check_image_without_pyxis(plan: LaunchPlan, options: SkypilotOptions) -> Iterator[Diagnostic]:
    """JC4711: an image on Slurm without Pyxis. This is a note if backend.pyxis is unset."""
    if plan.container.image is None or requested_cloud(plan, options) != "slurm" or options.pyxis:
        return
    title, severity = "image is not supported on this Slurm", Severity.ERROR
    because = "this Slurm does not have Pyxis (backend.pyxis=false), and SkyPilot rejects images without it"
    hint = "image=null container=none python=venv"
    if options.pyxis is None:
        title, severity = "image needs Pyxis on Slurm", Severity.NOTE
        because = "SkyPilot rejects images at launch unless this Slurm has the Pyxis plugin"
        hint = f"check with `srun --help | grep container-image`; then backend.pyxis=true, otherwise {hint}"
    yield Diagnostic("JC4711", title, because, hint, key="image", severity=severity)


def check_machine_image_beside_container(plan: LaunchPlan, options: SkypilotOptions) -> Iterator[Diagnostic]:
    """JC4725: a machine image together with a container image, or on infrastructure that does not boot machines."""
    images = [("backend.image_id", options.image_id, options.cloud)]
    images += [(key, entry.image_id, infra_cloud(entry.infra or options.infra)) for key, entry in options.alternatives]
    for key, image_id, machine_cloud in images:
        if image_id is None:
            continue
        if image_id.startswith("docker:"):
            title = f"{key}: {image_id} is a container image"
            because = "this key selects a machine image; `image` selects the container image"
            hint = f"remove {key}; image={image_id[7:]} container=pod"
        elif plan.container.image is not None:
            title = f"{key} is set together with image"
            because = "a SkyPilot task has only one image_id, for the machine or for the container"
            hint = f"remove {key}; or image=null container=none to use the machine image"
        elif machine_cloud in SITES:
            title = f"{key} is not supported on {machine_cloud}"
            because = "only cloud machines boot from a machine image"
            hint = f"remove {key}"
        else:
            continue
        yield Diagnostic("JC4725", title, because, hint, key=key)
