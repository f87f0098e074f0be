"""The types of backend slurm's options. Their meanings and defaults are in conf/backend/slurm.yaml."""

from collections.abc import Mapping
from typing import Any, Literal

from ...compiler.spec.value_types import Bytes, Count, CountOrZero
from ...runtime.system.frozen_dataclass import dataclass


@dataclass(frozen=True)
class NodeGroup:
    """Further nodes of the same job, with another command: a component of a heterogeneous job.

    nodes: number of nodes; null = 1
    gpus, cpus: per node; null = none, and Slurm's default
    mem: memory per node; null = Slurm's default
    partition, constraint: null = no request
    command: bash line that runs once on each node of the group, next to the ranks
    """

    nodes: Count | None
    gpus: CountOrZero | None
    cpus: Count | None
    mem: Bytes | None
    partition: str | None
    constraint: str | None
    command: str


@dataclass(frozen=True)
class SlurmOptions:
    version: str
    gpus_as: Literal["gpus-per-node", "gres", "none"]
    cluster: str | None
    gres: tuple[str, ...]
    mem_policy: Literal["given", "all", "none"]
    constraint: str | None
    groups: tuple[NodeGroup, ...]
    output: str | None
    stderr: str | None
    array_limit: Count | None
    mpi: str
    cpu_bind: str | None
    gpu_bind: str | None
    distribution: str | None
    label: bool
    srun_extra: Mapping[str, Any]
    extra: Mapping[str, Any]

    @property
    def separate_stderr(self) -> str | None:
        """Return backend.stderr, or None if it names the same file as backend.output, which contains stderr anyway."""
        return None if self.stderr == self.output else self.stderr
