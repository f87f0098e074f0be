"""Facts about a site's machines and about a job, for checks and estimates."""

from collections.abc import Mapping

from ...runtime.system.frozen_dataclass import dataclass
from .value_types import (
    Bytes,
    Count,
    CountOrZero,
    Duration,
    Path,
    Price,
    Quantity,
    Seconds,
    TimeLimit,
)


@dataclass(frozen=True)
class PartitionSpec:
    """Facts about one partition or queue; null = same as for the site, or unknown."""

    nodes: Count | None
    gpus: CountOrZero | None
    gpu_types: tuple[str, ...] | None
    cpus: Count | None
    mem: Bytes | None
    time: TimeLimit | None


@dataclass(frozen=True)
class SiteSpec(PartitionSpec):
    """Facts about the machines, for checks before anything starts; null = unknown and not checked."""

    partitions: Mapping[str, PartitionSpec]
    partition: str | None
    requires: tuple[str, ...]
    torch: str | None


@dataclass(frozen=True)
class EstimateSpec:
    """Inputs to `jobc plan` in addition to the job; no emitted file depends on them. null = unknown."""

    samples: Count | None
    parameters: Quantity | None
    largest_unit: Count | None
    tokens_per_sample: Count | None
    sample_size: Bytes | None
    step_s: Seconds | None
    run: Path | None
    gpu_mem: Bytes | None
    disk: Bytes | None
    write_rate: Bytes | None
    prices: Mapping[str, Price]
    mtbf: TimeLimit | None
    restart: Duration | None
