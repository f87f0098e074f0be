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
    """Facts about one partition or queue; null = same as for the site, or unknown.

    nodes:     number of machines.
    gpus:      GPUs per machine.
    gpu_types: GPU types, as in the key `gpu_type`.
    cpus, mem: number of cores, and memory, of the largest machine.
    time:      longest time limit.
    """

    nodes: Count | None
    gpus: CountOrZero | None
    gpu_types: tuple[str, ...] | None
    cpus: Count | None
    mem: Bytes | None
    time: TimeLimit | None


@dataclass(frozen=True)
class SiteSpec(PartitionSpec):
    """Facts about the machines, for checks before anything starts; null = unknown and not checked.

    nodes, gpus, gpu_types, cpus, mem, time: as in PartitionSpec. They apply to partitions that do not set them.
    partitions: by name; empty = unknown.
    partition:  partition for jobs without `queue.name`.
    requires:   keys that a job must set here, such as queue.account.
    torch:      torch version on the nodes.
    """

    partitions: Mapping[str, PartitionSpec]
    partition: str | None
    requires: tuple[str, ...]
    torch: str | None


@dataclass(frozen=True)
class EstimateSpec:
    """Inputs to `jobc plan` in addition to the job; no emitted file depends on them. null = unknown.

    samples:           training samples per epoch.
    parameters:        number of trainable parameters of your own model.
    largest_unit:      parameters in the largest module that is gathered at once.
    tokens_per_sample: null = as many as the built-in model reads.
    sample_size:       bytes per sample of your own data, as the data set returns it.
    step_s:            seconds per optimizer step at the first size; scaled by the samples per rank for other sizes.
    run:               run folder whose metrics contain the time per step.
    gpu_mem:           memory of one GPU.
    disk: free bytes on the disk where runs are stored.
    write_rate:        bytes per second when a checkpoint is written.
    prices:            price of one GPU hour, by gpu_type; `any` for others.
    mtbf:              mean time between failures of one node.
    restart: time from a failure until the next new step.
    """

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
