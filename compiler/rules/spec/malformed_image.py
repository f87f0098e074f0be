"""JC2033: no name of an image: no runtime takes spaces, and a dash in front makes an option of it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ...diagnostics import Diagnostic
from ...spec import JobSpec


def check(spec: JobSpec) -> Iterator[Diagnostic]:
    if spec.image is not None and not re.fullmatch(r"[^\s-]\S*", spec.image):
        because = "an image is NAME:TAG, a URI or a file, in one word"
        yield Diagnostic("JC2033", f"image: {spec.image!r} is no image", because, "image=NAME:TAG", key="image")
