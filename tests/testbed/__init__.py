"""The test bed: clusters of real hosts, in namespaces of this machine.

A test that uses the fixture `cluster` gets four nodes with two GPUs each. All such tests of one pytest run share them
on one xdist worker, and each test finds them repaired. Other shapes: `make_cluster(Shape(nodes=5, slurm=…))`.
"""

from .cluster import Cluster
from .host import Host
from .process import Failed, Process, Seen, wait_for
from .settings import USER, Shape

__all__ = ["USER", "Cluster", "Failed", "Host", "Process", "Seen", "Shape", "wait_for"]
