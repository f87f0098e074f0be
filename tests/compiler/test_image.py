"""JC2033: what no runtime takes for an image, and what one may take."""

from __future__ import annotations

import pytest

from .diagnosed import found


@pytest.mark.parametrize(
    "image",
    [
        "a b", "-x", "/", "a/", "a//b:1", "a/../b:1", "a/./b", "a/..", "docker://a/../b:1", "docker://", "oras://a//b",
        "/images/../x.sif", "images/../x.sif", "../a/../x.sif", "file:///images/../x.sif",
    ],
)  # fmt: skip
def test_what_no_registry_and_no_folder_has_is_refused(image: str) -> None:
    (told,) = found("JC2033", words=("container=apptainer", f"image='{image}'"))
    assert image in told.title


@pytest.mark.parametrize(
    "image",
    [
        "a", "a/b:1", "host:5000/a/b@sha256:0123", "docker://a/b:1", "oras://host/a:1", "nvcr.io#nvidia/pytorch:1",
        "/images/x.sif", "./x.sif", "../images/x.sif", "../../x.sif", "/images/box/", "./box/", "file:///images/x.sif",
        "a..b/c...d:1",
    ],
)  # fmt: skip
def test_references_uris_and_paths_are_images(image: str) -> None:
    assert found("JC2033", words=("container=apptainer", f"image='{image}'")) == []
