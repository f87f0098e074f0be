"""The test bed's pytest fixtures; tests/conftest.py loads them for the whole suite."""

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
    """Skip tests that use this fixture where a cluster cannot run."""
    if reason := reason_against():
        pytest.skip(reason)


@pytest.fixture(scope="module")
def make_cluster(testbed: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MakeCluster]:
    """Return make_cluster(shape), which creates another cluster. It lasts for the module's tests, which repair it
    themselves.

    With a shared file system, every host also sees the tests' tmp_path, at the same path.
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
    """Return a cluster of four nodes with two GPUs each, and a shared file system that includes the tests' tmp_path."""
    with start(Shape(), tmp_path_factory) as cluster:
        yield cluster


@pytest.fixture(autouse=True)
def _mend_cluster(request: pytest.FixtureRequest) -> Iterator[None]:
    """Repair what the previous test broke."""
    yield
    if "cluster" in request.fixturenames:
        request.getfixturevalue("cluster").mend()
