"""The container, its image, and the Python environment: JC2008, JC2009, JC2011, JC2030."""

from collections.abc import Iterator

from ...diagnostics.diagnostic import Diagnostic, Severity
from ...spec.examples import IMAGE
from ...spec.job_spec import JobSpec


def check_image_without_container(spec: JobSpec) -> Iterator[Diagnostic]:
    """JC2008: an image without a container runtime."""
    if spec.image is not None and spec.container.kind == "none":
        because = "container=none starts processes directly on the node, without the image"
        hint = "image=null; or a backend that supports container=docker, apptainer, pyxis or pod"
        title = "image is set, but container=none"
        yield Diagnostic("JC2008", title, because, hint, key="image", severity=Severity.WARNING)


def check_container_without_image(spec: JobSpec) -> Iterator[Diagnostic]:
    """JC2009: a container runtime without an image."""
    if spec.image is None and spec.container.kind != "none":
        because = f"{spec.container.kind} runs the container image that `image` sets"
        hint = f"image={IMAGE}" + (", or container=none" if spec.container.kind != "pod" else "")
        yield Diagnostic("JC2009", f"container={spec.container.kind} needs an image", because, hint, key="image")


def check_python_without_image(spec: JobSpec) -> Iterator[Diagnostic]:
    """JC2030: python=image without an image."""
    if spec.python.kind == "image" and spec.container.kind == "none":
        because = "container=none starts processes on the node itself"
        hint = "python=none; or image=NAME:TAG and container=docker, apptainer, pyxis or pod"
        yield Diagnostic("JC2030", "python=image needs an image", because, hint, key="python.kind")


def check_python_without_path(spec: JobSpec) -> Iterator[Diagnostic]:
    """JC2011: a Python environment in a folder, without the folder's path."""
    if spec.python.kind in ("venv", "uv", "conda") and spec.python.path is None:
        because = f"python={spec.python.kind} activates the environment that python.path names"
        yield Diagnostic("JC2011", "python.path is not set", because, "python.path=.venv", key="python.path")
