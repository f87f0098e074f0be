"""The test bed: clusters of real hosts, in namespaces of this machine.

A test that names the fixture `cluster` gets four nodes with two GPUs each; all such tests of one pytest run share them,
on one worker of xdist, and each finds them mended. Other shapes: `make_cluster(Shape(nodes=5, slurm=…))`.
"""

from .cluster import Cluster
from .host import Host
from .process import Failed, Process, Seen, wait_for
from .settings import USER, Shape

__all__ = ["USER", "Cluster", "Failed", "Host", "Process", "Seen", "Shape", "wait_for"]
