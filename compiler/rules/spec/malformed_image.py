"""JC2033: an invalid image name. No runtime accepts spaces, and a leading dash would make the name an option.

Registries reject `..` and empty parts, which could also circumvent a policy's list of images. A path may begin with
`../` and end with a slash. docker accepts only a reference, not a file or URI. Pods also accept only a reference, which
their backends check.
Source: github.com/distribution/reference, reference.go and regexp.go: the grammar of a reference.
"""

import re
from collections.abc import Iterator

from ...diagnostics.diagnostic import Diagnostic
from ...spec.job_spec import JobSpec

_START = re.compile(r"[a-z][a-z0-9+.-]*:///?|/|(\.\.?/)+")  # start of a URI or a path
_PART = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_HOST = r"(?:(?!-)[a-zA-Z0-9-]+(?<!-)(?:\.(?!-)[a-zA-Z0-9-]+(?<!-))*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?"
_DIGEST = r"sha256:[0-9a-f]{64}|sha384:[0-9a-f]{96}|sha512:[0-9a-f]{128}"
_REFERENCE = re.compile(rf"(?:{_HOST}/)?{_PART}(?:/{_PART})*(?::\w[\w.-]{{0,127}})?(?:@(?:{_DIGEST}))?", re.ASCII)
_ID = re.compile(r"[0-9a-f]{64}")  # ID of an image on the host
_ANY = "image=name:tag"


def check(spec: JobSpec) -> Iterator[Diagnostic]:
    if spec.image is None:
        return
    title = f"image: {spec.image!r} is not a valid image"
    if not _may_be_image(spec.image):
        because = "an image must be NAME:TAG, a URI or a file, without spaces, `..` or empty parts"
        yield Diagnostic("JC2033", title, because, _hint(spec.image), key="image")
    elif spec.container.kind == "docker" and not _is_reference(spec.image):
        because = "docker only accepts [HOST/]NAME[:TAG][@sha256:64 DIGITS], with NAME in lower case"
        yield Diagnostic("JC2033", title, because, _hint(spec.image), key="image")


def _may_be_image(image: str) -> bool:
    start = _START.match(image)
    name = image[start.end() :] if start else image
    parts = (name.removesuffix("/") if image[:1] in "/." else name).split("/")
    return not {"", ".", ".."} & {*parts} and bool(re.fullmatch(r"[^\s-]\S*", image))


def _is_reference(image: str) -> bool:
    return bool(_REFERENCE.fullmatch(image) or _ID.fullmatch(image))


def _hint(image: str) -> str:
    """Return the corrected image if only a scheme or upper case is wrong."""
    meant = re.sub(r"^(?!file:)[a-z]+://", "", image)
    name = re.sub(r"(:[^/]*)?$", "", meant)
    return next(
        (f"image={candidate}" for candidate in (meant, name.lower() + meant[len(name) :]) if _is_reference(candidate)),
        _ANY,
    )
