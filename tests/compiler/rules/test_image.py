"""JC2033: what no runtime takes for an image, and what one may take."""

from __future__ import annotations

import pytest

from ..diagnosed import found


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


@pytest.mark.parametrize(
    ("image", "meant"),
    [
        ("../x", "name:tag"),
        ("./x.sif", "name:tag"),
        ("/images/x.sif", "name:tag"),
        ("file:///images/x.sif", "name:tag"),
        ("Foo/Bar:X", "foo/bar:X"),
        ("Foo:x", "foo:x"),
        ("My_Org/Image:x", "my_org/image:x"),
        ("foo:bar:baz", "name:tag"),
        ("foo:", "name:tag"),
        ("foo:-x", "name:tag"),
        ("foo@sha256:123", "name:tag"),
        ("https://foo/x", "foo/x"),
        ("docker://foo/x:1", "foo/x:1"),
        ("nvcr.io#nvidia/pytorch:25.01-py3", "name:tag"),
        ("foo-", "name:tag"),
        ("a/-b", "name:tag"),
        ("a___b", "name:tag"),
        (f"foo:{'x' * 129}", "name:tag"),
    ],
)
def test_docker_takes_references_alone(image: str, meant: str) -> None:
    (told,) = found("JC2033", words=("container=docker", f"image='{image}'"))
    assert told.hint == f"image={meant}"
    assert found("JC2033", words=("container=docker", told.hint)) == []


@pytest.mark.parametrize(
    "image",
    [
        "ubuntu", "pytorch/pytorch:2.9.0-cuda12.8-cudnn9-runtime", "nvcr.io/nvidia/pytorch:25.01-py3", "localhost:5/a",
        "[fd00::1]:5000/a:x", "Foo/bar:x", "ghcr.io/my-org/my__image.v2/a--b:V1_x", "0123abcdef", "a" * 64,
        f"foo@sha256:{'a' * 64}", f"host.example:5000/foo:1@sha512:{'0' * 128}",
        "123456789012.dkr.ecr.us-east-1.amazonaws.com/train:latest",
    ],
)  # fmt: skip
def test_a_reference_is_one(image: str) -> None:
    assert found("JC2033", words=("container=docker", f"image='{image}'")) == []
