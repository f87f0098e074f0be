"""JC2033: no name of an image: no runtime takes spaces, and a dash in front makes an option of it.

Nor does a registry know `..` or a part without a name, which would get past the images that a policy lists. A path may
begin with `../`, and end with a slash. Source github.com/distribution/reference, reference.go
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ...diagnostics import Diagnostic
from ...spec import JobSpec

_START = re.compile(r"[a-z][a-z0-9+.-]*:///?|/|(\.\.?/)+")  # of a URI or a path


def check(spec: JobSpec) -> Iterator[Diagnostic]:
    if spec.image is None:
        return
    start = _START.match(spec.image)
    name = spec.image[start.end() :] if start else spec.image
    parts = (name.removesuffix("/") if spec.image[:1] in "/." else name).split("/")
    if {"", ".", ".."} & {*parts} or not re.fullmatch(r"[^\s-]\S*", spec.image):
        because = "an image is NAME:TAG, a URI or a file, in one word, and no part of it is `..` or empty"
        yield Diagnostic("JC2033", f"image: {spec.image!r} is no image", because, "image=NAME:TAG", key="image")
