"""The test bed's side of pytest; tests/conftest.py loads it for the whole suite."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace

import pytest

from .cluster import Cluster
from .install import reason_against
from .settings import Shape

MakeCluster = Callable[..., Cluster]


@pytest.fixture(scope="session")
def testbed() -> None:
    """Skips what asks for it where there can be no cluster."""
    if reason := reason_against():
        pytest.skip(reason)


@pytest.fixture(scope="module")
def make_cluster(testbed: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MakeCluster]:
    """make_cluster(shape) makes one more cluster; it lasts as long as the module's tests, which mend it themselves.

    With a shared file system every host sees the tests' tmp_path too, where it is.
    """
    with ExitStack() as clusters:

        def make(shape: Shape | None = None) -> Cluster:
            return clusters.enter_context(start(shape or Shape(), tmp_path_factory))

        yield make


def start(shape: Shape, tmp_path_factory: pytest.TempPathFactory) -> Cluster:
    if shape.shared:
        shape = replace(shape, visible=(*shape.visible, tmp_path_factory.getbasetemp()))
    folder = tmp_path_factory.mktemp("cluster")
    for parent in (tmp_path_factory.getbasetemp(), folder):
        parent.chmod(0o711)  # for USER; of this machine's users nobody but root can enter pytest's own folder above it
    return Cluster(folder / "rack", shape)


@pytest.fixture(scope="session")
def cluster(testbed: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Four nodes with two GPUs each, and a shared file system that holds the tests' tmp_path as well."""
    with start(Shape(), tmp_path_factory) as cluster:
        yield cluster


@pytest.fixture(autouse=True)
def _mend_cluster(request: pytest.FixtureRequest) -> Iterator[None]:
    """What one test broke is whole for the next."""
    yield
    if "cluster" in request.fixturenames:
        request.getfixturevalue("cluster").mend()
