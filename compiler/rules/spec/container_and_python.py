"""The container, its image and mounts, and the Python environment: JC2008, JC2009, JC2011, JC2030 to JC2033."""

import re
from collections.abc import Iterator

from ...diagnostics.diagnostic import Diagnostic, Severity
from ...spec.examples import IMAGE
from ...spec.job_spec import JobSpec


def check_image_without_container(spec: JobSpec) -> Iterator[Diagnostic]:
    """JC2008: an image without a container runtime."""
    if spec.image is not None and spec.container.kind == "none":
        because = "container=none starts processes directly on the node, without the image"
        hint = "container=docker, or on Slurm container=apptainer or container=pyxis; or image=null"
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


def check_mount_without_container(spec: JobSpec) -> Iterator[Diagnostic]:
    """JC2031: a mount without a container to mount it into.

    Source: Pyxis 0.24, args.c: it ignores mounts without an image.
    """
    for i, mount in enumerate(spec.mounts):
        if mount.kind == "host" and spec.container.kind == "none":
            title = f"{mount.source} cannot be mounted"
            because = "with container=none the ranks see the node's own file system"
            yield Diagnostic("JC2031", title, because, "mounts=[]", key=f"mounts.{i}.kind")


def check_mount_not_absolute(spec: JobSpec) -> Iterator[Diagnostic]:
    """JC2032: a mount with a relative path."""
    for i, mount in enumerate(spec.mounts):
        for name, path in (("source", mount.source), ("target", mount.target)):
            if not path.startswith("/") and (mount.kind == "host" or name == "target"):
                because = "a relative path would mean different directories on the node and in the container"
                title, hint = f"mounts: {path} is not an absolute path", f"{name}: {_absolute_path(path)}"
                yield Diagnostic("JC2032", title, because, hint, key=f"mounts.{i}.{name}")


def _absolute_path(path: str) -> str:
    """Return an absolute path for a hint. No shell expands the path, so `~` is expanded here."""
    if home := re.match(r"~([^/]*)", path):
        return f"/home/{home[1] or 'NAME'}{path[home.end() :]}"
    return f"/{path.lstrip('./')}"


_IMAGE_START = re.compile(r"[a-z][a-z0-9+.-]*:///?|/|(\.\.?/)+")  # start of a URI or a path
# github.com/distribution/reference, reference.go and regexp.go: the grammar of a reference
_PART = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_HOST = r"(?:(?!-)[a-zA-Z0-9-]+(?<!-)(?:\.(?!-)[a-zA-Z0-9-]+(?<!-))*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?"
_DIGEST = r"sha256:[0-9a-f]{64}|sha384:[0-9a-f]{96}|sha512:[0-9a-f]{128}"
_REFERENCE = re.compile(rf"(?:{_HOST}/)?{_PART}(?:/{_PART})*(?::\w[\w.-]{{0,127}})?(?:@(?:{_DIGEST}))?", re.ASCII)
_IMAGE_ID = re.compile(r"[0-9a-f]{64}")  # ID of an image on the host


def check_malformed_image(spec: JobSpec) -> Iterator[Diagnostic]:
    """JC2033: an invalid image name. No runtime accepts spaces, and a leading dash would make the name an option.

    Registries reject `..` and empty parts, which could also circumvent a policy's list of images. A path may begin with
    `../` and end with a slash. docker accepts only a reference, not a file or URI. Pods also accept only a reference,
    which their backends check.
    """
    if spec.image is None:
        return
    title = f"image: {spec.image!r} is not a valid image"
    if not _may_be_image(spec.image):
        because = "an image must be NAME:TAG, a URI or a file, without spaces, `..` or empty parts"
        yield Diagnostic("JC2033", title, because, _image_hint(spec.image), key="image")
    elif spec.container.kind == "docker" and not _is_reference(spec.image):
        because = "docker only accepts [HOST/]NAME[:TAG][@sha256:64 DIGITS], with NAME in lower case"
        yield Diagnostic("JC2033", title, because, _image_hint(spec.image), key="image")


def _may_be_image(image: str) -> bool:
    start = _IMAGE_START.match(image)
    name = image[start.end() :] if start else image
    parts = (name.removesuffix("/") if image[:1] in "/." else name).split("/")
    return not {"", ".", ".."} & {*parts} and bool(re.fullmatch(r"[^\s-]\S*", image))


def _is_reference(image: str) -> bool:
    return bool(_REFERENCE.fullmatch(image) or _IMAGE_ID.fullmatch(image))


def _image_hint(image: str) -> str:
    """Return the corrected image if only a scheme or upper case is wrong."""
    meant = re.sub(r"^(?!file:)[a-z]+://", "", image)
    name = re.sub(r"(:[^/]*)?$", "", meant)
    candidates = (meant, name.lower() + meant[len(name) :], "name:tag")
    return f"image={next(filter(_is_reference, candidates))}"
