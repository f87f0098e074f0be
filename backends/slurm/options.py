"""The types of backend slurm's options. Their meanings and defaults are in conf/backend/slurm.yaml."""

from collections.abc import Mapping
from typing import Any, Literal

from ...compiler.spec.value_types import Count
from ...runtime.system.frozen_dataclass import dataclass


@dataclass(frozen=True)
class SlurmOptions:
    version: str
    gpus_as: Literal["gpus-per-node", "gres"]
    cluster: str | None
    gres: tuple[str, ...]
    mem_policy: Literal["given", "all", "none"]
    constraint: str | None
    output: str | None
    array_limit: Count | None
    mpi: str
    cpu_bind: str | None
    gpu_bind: str | None
    distribution: str | None
    label: bool
    srun_extra: Mapping[str, Any]
    extra: Mapping[str, Any]
